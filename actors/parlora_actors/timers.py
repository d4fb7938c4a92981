"""Timers of one process: one descriptor of the kernel, any number of callbacks.

Thespian's own wake-ups cannot be cancelled, come in reverse order when they are due together and cost half a
millisecond of CPU each.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import os
import struct
import time
from collections.abc import Callable
from typing import Final

from parlora_actors.timing import now_us

_TFD_TIMER_ABSTIME: Final = 1
_SPEC: Final = struct.Struct("@qqqq")
_libc = ctypes.CDLL(None, use_errno=True)


class Timer:
    """One armed callback; `cancel` is safe at any time, also after it fired."""

    __slots__ = ("_callback", "due_us")

    def __init__(self, due_us: int, callback: Callable[[], None]) -> None:
        self.due_us = due_us
        self._callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Never call the callback (again)."""
        self._callback = None

    @property
    def is_armed(self) -> bool:
        """Whether it will still fire."""
        return self._callback is not None

    def fire(self) -> None:
        """Call the callback unless it was cancelled or called before."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class TimerQueue:
    """Callbacks in the order of their times; watch `fileno()` for reading and then call `run_due`."""

    def __init__(self) -> None:
        self._fd = _libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            _raise_errno("timerfd_create")
        self._heap: list[tuple[int, int, Timer]] = []
        self._order = itertools.count()

    def fileno(self) -> int:
        """The descriptor that becomes readable when a timer is due."""
        return int(self._fd)

    def at(self, due_us: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` once at the monotonic time `due_us`, or at the next turn if that has passed."""
        timer = Timer(due_us, callback)
        heapq.heappush(self._heap, (due_us, next(self._order), timer))
        if self._heap[0][2] is timer:
            self._arm()
        return timer

    def run_due(self) -> None:
        """Fire what is due now, earliest first; timers that a callback adds wait for the next turn."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._fd, 8)
        now = now_us()
        due: list[Timer] = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heapq.heappop(self._heap)[2])
        self._arm()
        for timer in due:
            timer.fire()

    def close(self) -> None:
        """Give the descriptor back; no timer fires any more."""
        self._heap.clear()
        os.close(self._fd)

    def _arm(self) -> None:
        while self._heap and not self._heap[0][2].is_armed:
            heapq.heappop(self._heap)
        due_us = max(self._heap[0][0], 1) if self._heap else 0  # zero disarms
        spec = _SPEC.pack(0, 0, due_us // 1_000_000, due_us % 1_000_000 * 1_000)
        if _libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, spec, None) != 0:
            _raise_errno("timerfd_settime")


def _raise_errno(call: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{call}: {os.strerror(number)}")
