"""Build the native part; everything else is in pyproject.toml (cffi_modules has no place there)."""

import runpy

from setuptools import setup

BUILDER = "native/build_native.py"

setup(cffi_modules=[f"{BUILDER}:ffi"], ext_modules=[runpy.run_path(BUILDER)["frames"]])
