"""Make the application's code importable in the node: its import path, its directory, and its main file.

`__main__:Name` means the main file of the host program. It is loaded under another name, as multiprocessing does under
one of its own, and only in the process that asks for a name of it: a program whose main file is expensive pays in that
process only, and one that does not guard its start with `if __name__ == "__main__"` is refused, not run again.
"""

from __future__ import annotations

import os
import runpy
import sys
import types
from typing import Any, Final

from parlora.errors import InvalidArgument

MAIN_ALIAS: Final = "__parlora_main__"

_loading = False


def is_loading_main() -> bool:
    """Whether the host program's main file is being loaded here: nothing may be started from it then."""
    return _loading


def install(sys_path: list[str], cwd: str, main_path: str | None) -> None:
    """Adopt the host's import path, working directory and main file. Call it before the first fork.

    A working directory that is gone is no error: an application that needs it will say so.
    """
    sys.path[:] = sys_path
    try:
        os.chdir(cwd)
    except OSError:
        os.chdir("/")
    if main_path is not None:
        sys.modules["__main__"] = _HostMain(main_path)


class _HostMain(types.ModuleType):
    """Stands for the host's main module until a name of it is asked for."""

    def __init__(self, path: str) -> None:
        super().__init__("__main__")
        self.__file__ = path

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_load(str(self.__file__)), name)


def _load(path: str) -> types.ModuleType:
    global _loading
    loaded = sys.modules.get(MAIN_ALIAS)
    if loaded is not None:
        return loaded
    module = types.ModuleType(MAIN_ALIAS)
    _loading = True
    try:
        sys.modules[MAIN_ALIAS] = module  # dataclasses look for the module of their class while it is being loaded
        module.__dict__.update(runpy.run_path(path, run_name=MAIN_ALIAS))
    except BaseException as error:
        del sys.modules[MAIN_ALIAS]
        if isinstance(error, OSError):
            raise InvalidArgument(f"cannot load the main file {path}: {error}") from error
        raise
    finally:
        _loading = False
    return module
