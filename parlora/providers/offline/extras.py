"""The optional packages of this provider, imported when it starts and never before."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Final

from parlora.errors import Unsupported

INSTALL_LINE: Final = "pip install 'parlora[offline]'"


def load_extra(package: str) -> ModuleType:
    """Import `package`; raises `Unsupported` with the install line if it is not installed."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise Unsupported(
            f"the offline provider needs the package {package}: {INSTALL_LINE}",
            details={"package": package, "install": INSTALL_LINE},
        ) from error


def pocketsphinx_model(name: str) -> str:
    """The path of a file of the English model inside the PocketSphinx wheel."""
    return str(load_extra("pocketsphinx").get_model_path(name))
