"""Build the native part; everything else is in pyproject.toml (cffi_modules has no place there)."""

from setuptools import setup

setup(cffi_modules=["native/build_native.py:ffi"])
