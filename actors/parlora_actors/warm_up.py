"""Everything that a node's processes will import, imported once before the first fork.

A forked process shares this memory and starts in milliseconds; a fresh interpreter needs a third of a second.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pkgutil
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Final

from parlora.errors import InvalidArgument, Unsupported
from parlora_actors.warm_converters import warm_converters

_LIBRARIES: Final = ("numpy", "msgpack", "cattrs.preconf.msgpack", "thespian.actors")
_PACKAGES: Final = ("parlora", "parlora_actors")
_NOT_IN_A_NODE: Final = (
    "parlora.testing",
    "parlora_actors.async",
    "parlora_actors.cli",
    "parlora_actors.config",
    "parlora_actors.console",
    "parlora_actors.demo",
    "parlora_actors.host",
    "parlora_actors.keeper",
    "parlora_actors.launcher",
    "parlora_actors.session_handle",
    "parlora_actors.session_life",
    "parlora_actors.subscriber",
    "parlora_actors.supervision_tree",
)
"""Beginnings of names of modules that only hosts, tests and command lines use."""


def warm_up(preload: Iterable[str]) -> None:
    """Import all there is to import, then freeze the collector's view of it, so that forked memory stays shared.

    Raises `InvalidArgument` naming the module of `preload` whose import fails, `Unsupported` naming the one that leaves
    a thread running: a fork copies one thread only, and whatever the others had locked.
    """
    for name in _LIBRARIES:
        importlib.import_module(name)
    _require_one_thread("a library of Parlora")
    for name in _own_modules():
        # A part whose extra is not installed stays unloaded; whoever names it gets the error with the install line.
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
        _require_one_thread(name)
    for name in preload:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # application code: anything may come
            message = f"preload: cannot import {name}: {type(error).__name__}: {error}"
            raise InvalidArgument(message, field="preload") from error
        _require_one_thread(name, field="preload")
    warm_converters()
    gc.collect()
    gc.freeze()


def thread_count() -> int:
    """How many threads this process has, also those that Python does not know."""
    return len(os.listdir("/proc/self/task"))


def _require_one_thread(module: str, **details: str) -> None:
    if thread_count() != 1:
        message = f"importing {module} leaves a thread running; a node forks and cannot have it preloaded"
        raise Unsupported(message, details=details)


def _own_modules() -> Iterator[str]:
    for package_name in _PACKAGES:
        package = importlib.import_module(package_name)
        yield from _modules_below(package)


def _modules_below(package: types.ModuleType) -> Iterator[str]:
    for found in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        if found.name.endswith("__main__") or found.name.startswith(_NOT_IN_A_NODE):
            continue
        yield found.name
        if found.ispkg and found.name in sys.modules:
            yield from _modules_below(sys.modules[found.name])
