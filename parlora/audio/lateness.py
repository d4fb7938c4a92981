"""How late audio has been coming, and the cushion that follows from it (spec 000 §9; formula: filling A7).

Lateness of a packet is its receipt time less the time its first sample was due, had the source kept media rate since
the baseline. The learned target is the floor plus the largest lateness of the last 5 s, between the floor and the
ceiling. It rises at once and falls by at most 10 ms for each 5 s of media that stayed within it.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from parlora.audio.frame import Clock

WINDOW_US: Final = 5_000_000
"""How far back lateness counts."""

FALL_US: Final = 10_000
"""The most that the target falls for each `WINDOW_US` of stable media."""

IDLE_US: Final = 1_000_000
"""A source that was silent this long has paused, not stalled: the next packet starts a new baseline."""

_BUCKET_US: Final = 100_000  # the history keeps one maximum for each 100 ms, so its length is bounded by the window


class LatenessTracker:
    """Learns a playback target from receipt times. Times and durations are microseconds."""

    def __init__(self, floor_us: int, ceiling_us: int) -> None:
        self.floor_us = floor_us
        self.ceiling_us = max(floor_us, ceiling_us)
        self.target_us = floor_us
        self._recent: deque[tuple[int, int]] = deque()  # (bucket, largest lateness in it), oldest first
        self._stable_us = 0
        self._stream: tuple[str, Clock] | None = None
        self._origin_us: int | None = None  # when the first sample of the run was received
        self._media_us = 0  # media received since then
        self._last_us = 0

    def restart(self) -> None:
        """Begin a new baseline with the next packet; what was learned stays."""
        self._origin_us = None

    def received(self, at_us: int, duration_us: int, stream: str, clock: Clock) -> int:
        """Note one packet; returns its lateness in microseconds, 0 for the first of a baseline."""
        paused = self._origin_us is not None and at_us - self._last_us >= IDLE_US
        if paused or self._stream != (stream, clock) or clock is not Clock.LOCAL_MONOTONIC:
            self.restart()
        self._stream = (stream, clock)
        self._last_us = at_us
        if self._origin_us is None:
            self._origin_us, self._media_us = at_us, 0
        lateness = max(0, at_us - self._origin_us - self._media_us)
        self._media_us += duration_us
        self._remember(at_us, lateness)
        self._learn(lateness, duration_us)
        return lateness

    def _remember(self, at_us: int, lateness: int) -> None:
        bucket = at_us // _BUCKET_US
        if self._recent and self._recent[-1][0] >= bucket:
            last, largest = self._recent[-1]
            self._recent[-1] = (last, max(largest, lateness))
        else:
            self._recent.append((bucket, lateness))
        while self._recent[0][0] < bucket - WINDOW_US // _BUCKET_US:
            self._recent.popleft()

    def _learn(self, lateness: int, duration_us: int) -> None:
        wanted = min(self.ceiling_us, self.floor_us + max(largest for _, largest in self._recent))
        if wanted >= self.target_us:
            self.target_us, self._stable_us = wanted, 0
            return
        self._stable_us = self._stable_us + duration_us if self.floor_us + lateness <= self.target_us else 0
        while self._stable_us >= WINDOW_US and self.target_us > wanted:
            self._stable_us -= WINDOW_US
            self.target_us = max(wanted, self.target_us - FALL_US)
