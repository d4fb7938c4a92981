"""The library's one thread: it reads every connection of a host and runs what is due.

Callbacks run on that thread, one after another; they never block. Any thread may add and remove descriptors.
"""

from __future__ import annotations

import contextlib
import heapq
import logging
import os
import select
import threading
from collections.abc import Callable
from itertools import count
from typing import Final

from parlora_actors.host_timing import REACTOR_POLL_MS, now_us

_log = logging.getLogger("parlora.host")
_MAX_EVENTS: Final = 64

Ready = Callable[[int], None]
"""Called with the epoll events of its descriptor."""


class Reactor:
    """One epoll set and the thread that waits on it."""

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Ready] = {}
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """End the thread and free its descriptors; False if it is still in a callback after `timeout_s`."""
        self._stopping = True
        self._poke()
        if self._thread.ident is not None and threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                return False
        with self._lock:
            self._callbacks.clear()
            self.abandon()
        return True

    def abandon(self) -> None:
        """Close the descriptors; in a forked child, where nobody holds the lock any more, this is all."""
        self._epoll.close()
        wake, self._wake = self._wake, -1
        if wake >= 0:
            os.close(wake)

    def add(self, fd: int, ready: Ready) -> None:
        """Call `ready` on the library's thread whenever `fd` is readable or has ended."""
        with self._lock:
            if self._epoll.closed:
                return
            self._callbacks[fd] = ready
            self._epoll.register(fd, select.EPOLLIN)

    def want_write(self, fd: int, wanted: bool) -> None:
        """Also call when `fd` takes data again, or not any more."""
        with self._lock:
            if fd in self._callbacks:
                self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wanted else 0))

    def remove(self, fd: int) -> None:
        """Forget `fd`; call it before closing the descriptor."""
        with self._lock:
            if self._callbacks.pop(fd, None) is not None:
                with contextlib.suppress(OSError):
                    self._epoll.unregister(fd)

    def call_at(self, due_us: int, callback: Callable[[], None]) -> None:
        """Run `callback` once on the library's thread, at `due_us` or as soon as possible after it."""
        with self._lock:
            heapq.heappush(self._timers, (due_us, next(self._order), callback))
        self._poke()

    def is_current_thread(self) -> bool:
        """Whether the caller runs on the library's thread, where waiting for an answer would wait forever."""
        return threading.current_thread() is self._thread

    def _poke(self) -> None:
        with self._lock:
            if self._wake >= 0:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        while not self._stopping:
            try:
                events = self._epoll.poll(self._sleep_s(), _MAX_EVENTS)
            except ValueError:  # closed under us by `stop`
                return
            for fd, flags in events:
                if fd == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.eventfd_read(fd)
                    continue
                with self._lock:
                    ready = self._callbacks.get(fd)
                if ready is not None:
                    self._guarded(lambda ready=ready, flags=flags: ready(flags))  # type: ignore[misc]
            self._run_due()

    def _sleep_s(self) -> float:
        with self._lock:
            if not self._timers:
                return REACTOR_POLL_MS / 1_000
            wait_us = max(0, self._timers[0][0] - now_us())
        return min(wait_us / 1_000_000, REACTOR_POLL_MS / 1_000)

    def _run_due(self) -> None:
        while True:
            with self._lock:
                if not self._timers or self._timers[0][0] > now_us():
                    return
                callback = heapq.heappop(self._timers)[2]
            self._guarded(callback)

    def _guarded(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:  # one broken connection must not end the thread that serves all others
            _log.exception("a callback of the host library failed")
