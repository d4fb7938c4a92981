"""What can befall a process: signals from outside, and adapters that ruin their own process from within."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from parlora.backends.trivial import TrivialBackend
from parlora.channels.trivial import TrivialChannel
from parlora.contract.adapter import AdapterInit
from parlora.providers.trivial import TrivialProvider
from tests.misbehaving import spawn_child, spawn_daemon

SIGNALS: Final = (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV)
"""A segfault in native code is this signal too: every process of ours leaves it its default action."""

_HEADROOM_BYTES: Final = 64 * 1024 * 1024
_hoard: list[bytearray] = []


def loop_in_c() -> None:
    """Compute in C for longer than anybody lives, with the interpreter's lock."""
    re.match(r"(a+)+$", "a" * 64 + "b")


def allocate_without_end() -> None:
    """Take all memory that a limit of the process leaves, to the last byte, and keep it."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _HEADROOM_BYTES, used + _HEADROOM_BYTES))
    size = _HEADROOM_BYTES // 4
    while size:
        try:
            _hoard.append(bytearray(size))
        except MemoryError:
            size //= 2
    while True:
        _hoard.append(bytearray(512))


WITHIN: Final[Mapping[str, Callable[[], object]]] = {
    "segfault": lambda: ctypes.string_at(0),
    "abort": os.abort,
    "loop_in_c": loop_in_c,
    "allocate": allocate_without_end,
    "exit": lambda: os._exit(0),
}


class _Doomed:
    """Has a child and a daemon, and meets its fault when the file `fuse` appears."""

    def __init__(self, fault: str, fuse: str, **options: Any) -> None:
        super().__init__(**options)
        self._doom = (WITHIN[fault], Path(fuse))

    def start(self, init: AdapterInit) -> None:
        spawn_child()
        spawn_daemon()
        threading.Thread(target=self._await_doom, daemon=True).start()
        super().start(init)  # type: ignore[misc]

    def _await_doom(self) -> None:
        fault, fuse = self._doom
        pause = threading.Event()
        while not fuse.exists():
            pause.wait(0.01)
        fault()


class DoomedChannel(_Doomed, TrivialChannel):
    pass


class DoomedProvider(_Doomed, TrivialProvider):
    pass


class DoomedBackend(_Doomed, TrivialBackend):
    pass
