"""Whether a living process still does anything (design §3): a stopped one looks alive to every pidfd.

A supervisor pings, a child's main thread answers. Silence counts only while the supervisor itself was there to listen,
and not while the child waited for a processor: a busy machine is slow, not dead. So neither a fork burst nor a
suspended machine ends anybody.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from parlora_actors.procfs import Scheduling
from parlora_actors.timing import HEARTBEAT_US, now_us


class Beat(Enum):
    """What a look at one process's heartbeat says."""

    PING = auto()
    """All is well: ask again."""
    WAIT = auto()
    SILENT = auto()
    """It answered nothing for too long."""


class Heartbeat:
    """One process. `look` says how its main thread was scheduled, `None` if that cannot be known."""

    def __init__(self, timeout_us: int, look: Callable[[], Scheduling | None]) -> None:
        self._timeout_us = timeout_us
        self._look = look
        self._is_asked = False
        self._before: Scheduling | None = None
        self.silent_us = 0
        """For how long an answer has been missing."""
        self.heard_us = now_us()
        """When it last showed life."""

    def heard(self) -> None:
        """It showed life."""
        self._is_asked = False
        self._before = None
        self.silent_us = 0
        self.heard_us = now_us()

    def look_again(self, since_us: int) -> Beat:
        """Once every `HEARTBEAT_US`; `since_us` is how long ago the last look was. After `PING`, ping it."""
        if not self._is_asked:
            self._is_asked = True
            return Beat.PING
        self.silent_us += min(since_us, HEARTBEAT_US)
        if self._before is None:
            self._before = self._look()
        if self.silent_us < self._timeout_us:
            return Beat.WAIT
        self._forgive_starvation()
        return Beat.WAIT if self.silent_us < self._timeout_us else Beat.SILENT

    def _forgive_starvation(self) -> None:
        """Take off the time for which it wanted to run and was not let."""
        before, now = self._before, self._look()
        if before is None or now is None:
            return
        if now.is_runnable and now.ran_us == before.ran_us:  # the kernel books a wait only when it is over
            self.silent_us = 0
        self.silent_us -= min(now.waited_us - before.waited_us, self.silent_us)
        self._before = now
