"""Something that happens every so many milliseconds, on a thread of its own and on absolute time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Ticker:
    """Calls `tick` every `period_us` until `tick` returns False or `stop` is called.

    A late tick is followed at once by the next one, so that the rate holds; after a second of standstill (a stopped
    process) what was missed is not made up for.
    """

    _STANDSTILL_US = 1_000_000

    def __init__(self, tick: Callable[[], bool], period_us: int, name: str) -> None:
        self._tick = tick
        self._period_us = period_us
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin; the first tick comes at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ask for the end and return at once; a tick that runs is not interrupted."""
        self._stopping.set()

    def _run(self) -> None:
        due_us = time.monotonic_ns() // 1_000
        while self._tick():
            due_us += self._period_us
            now_us = time.monotonic_ns() // 1_000
            if now_us - due_us > self._STANDSTILL_US:
                due_us = now_us
            if self._stopping.wait(max(0, due_us - now_us) / 1_000_000):
                return
