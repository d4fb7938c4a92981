"""The loop of one process: descriptors and timers, and nothing that blocks.

Everything a process waits for hangs on one epoll descriptor, which is itself pollable. So the same loop runs by itself
(`run`, in a test's forked process) or inside an actor, which watches `fileno()` and calls `run_ready()`: the shells in
this package do not know which.
"""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Callable
from typing import Final

from parlora_actors.timers import Timer, TimerQueue
from parlora_actors.timing import now_us

_MAX_EVENTS: Final = 64


class Loop:
    """Callbacks for readable or writable descriptors, timers, and things to do next. Owned by one thread.

    A callback that raises ends the loop with that exception: a process whose state is unknown must not go on.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._timers = TimerQueue()
        self._readers: dict[int, Callable[[], None]] = {}
        self._writers: dict[int, Callable[[], None]] = {}
        self._soon: deque[Callable[[], None]] = deque()
        self._soon_event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.exit_code: int | None = None
        """Set by `stop`: the loop has ended and the process should, with this status."""
        self.watch(self._timers.fileno(), self._timers.run_due)
        self.watch(self._soon_event, self._run_soon)

    def fileno(self) -> int:
        """Readable when `run_ready` has something to do."""
        return self._epoll.fileno()

    def watch(self, fd: int, callback: Callable[[], None], writable: bool = False) -> None:
        """Call `callback` whenever `fd` is readable (or at its end), or with `writable` whenever it can be written."""
        known = fd in self._readers or fd in self._writers
        (self._writers if writable else self._readers)[fd] = callback
        if known:
            self._epoll.modify(fd, self._mask(fd))
        else:
            self._epoll.register(fd, self._mask(fd))

    def unwatch(self, fd: int, writable: bool | None = None) -> None:
        """Stop watching `fd` for reading, for writing, or (None) at all. Call it before closing the descriptor."""
        known = fd in self._readers or fd in self._writers
        if writable is not True:
            self._readers.pop(fd, None)
        if writable is not False:
            self._writers.pop(fd, None)
        if mask := self._mask(fd):
            self._epoll.modify(fd, mask)
        elif known:
            self._epoll.unregister(fd)

    def at(self, due_us: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once at that monotonic time; the timer can be cancelled."""
        return self._timers.at(due_us, callback)

    def after(self, delay_us: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once after `delay_us`."""
        return self._timers.at(now_us() + delay_us, callback)

    def soon(self, callback: Callable[[], None]) -> None:
        """Call `callback` at the next turn, in the order of these calls."""
        self._soon.append(callback)
        os.eventfd_write(self._soon_event, 1)

    def stop(self, exit_code: int = 0) -> None:
        """End the loop after the present callback; the first exit code stands."""
        if self.exit_code is None:
            self.exit_code = exit_code

    def run_ready(self, timeout_s: float = 0) -> None:
        """Run what is due, one turn."""
        for fd, mask in self._epoll.poll(timeout_s, _MAX_EVENTS):
            if self.exit_code is not None:
                return
            if mask & ~select.EPOLLOUT and (reader := self._readers.get(fd)):
                reader()
            if mask & (select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP) and (writer := self._writers.get(fd)):
                writer()

    def run(self) -> int:
        """Run until `stop`; returns the exit code."""
        while self.exit_code is None:
            self.run_ready(-1)
        return self.exit_code

    def close(self) -> None:
        """Give the loop's own descriptors back."""
        self._timers.close()
        os.close(self._soon_event)
        self._epoll.close()

    def _mask(self, fd: int) -> int:
        return (select.EPOLLIN if fd in self._readers else 0) | (select.EPOLLOUT if fd in self._writers else 0)

    def _run_soon(self) -> None:
        os.eventfd_read(self._soon_event)
        for _ in range(len(self._soon)):
            self._soon.popleft()()
