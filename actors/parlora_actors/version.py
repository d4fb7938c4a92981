"""The version that every hello names. Found once, at import: the launcher imports it before it forks."""

from __future__ import annotations

import importlib.metadata
from typing import Final


def _installed_version() -> str:
    try:
        return importlib.metadata.version("parlora")
    except importlib.metadata.PackageNotFoundError:  # a tree that was not installed
        return "unknown"


_VERSION: Final = _installed_version()


def package_version() -> str:
    """The version of the package, or `unknown` in a tree that was not installed."""
    return _VERSION
