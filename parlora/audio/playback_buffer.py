"""When to play and when to hold: the jitter control of channels that own a playback queue (spec 000 §9, §13).

The controller decides about time only. It never drops, stretches or reorders a frame, reads no clock and owns no
audio: the channel tells it what was received and, at each tick of its playback clock, how much is queued.

Theory of operation. `IDLE` has nothing to play. The first audio starts a hold (`STARTING`) until the latched target is
queued, or until its deadline for a tail too short to reach it. `PLAYING` goes on until a tick finds the queue empty
(`STARVED`). When the source returns within `IDLE_US` the hold is a recovery (`RECOVERING`): it refills what was
missing plus 20 ms, waits at most the recovery cap, and after a stall longer than the cap keeps a settling time. A
source that stayed away longer has paused; its return is a new start.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from parlora.audio.frame import Clock
from parlora.audio.lateness import IDLE_US, LatenessTracker
from parlora.errors import InvalidArgument

MAX_TARGET_US: Final = 200_000
"""No learned target and no recovery wait exceeds this."""

CUSHION_US: Final = 20_000
"""What a recovery refills beyond the shortage."""

FIXED_CUSHION_US: Final = 100_000
"""In fixed mode a recovery refills at most twice the smallest of this, the initial cushion and the queue."""


class Buffering(StrEnum):
    """Whether the target learns."""

    ADAPTIVE = "adaptive"
    FIXED = "fixed"


class Phase(StrEnum):
    """Where playback stands."""

    IDLE = "idle"
    STARTING = "starting"
    PLAYING = "playing"
    STARVED = "starved"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class PlaybackOptions:
    """What an application may choose.

    playback_buffering: adaptive (the default) or fixed.
    playback_buffer_ms: the initial target and, when adaptive, the lower bound; 0 to 10,000, 0 starts without a hold.
    playback_recovery_ms: the longest recovery hold; 0 to 200, 0 resumes without a hold.
    """

    playback_buffering: Buffering = Buffering.ADAPTIVE
    playback_buffer_ms: int = 120
    playback_recovery_ms: int = 120

    def check(self) -> PlaybackOptions:
        """Return self, or raise `InvalidArgument` naming the option."""
        if self.playback_buffering not in tuple(Buffering):
            raise InvalidArgument("playback_buffering must be adaptive or fixed", field="playback_buffering")
        for name, most in (("playback_buffer_ms", 10_000), ("playback_recovery_ms", 200)):
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= most:
                raise InvalidArgument(f"{name} must be an integer from 0 to {most:,}", field=name)
        return self


class PlaybackBuffer:
    """The controller of one output queue that holds at most `queue_us` of audio. All times are microseconds."""

    def __init__(self, queue_us: int, options: PlaybackOptions | None = None) -> None:
        self._options = (options or PlaybackOptions()).check()
        self._queue_us = queue_us
        self._initial_us = min(self._options.playback_buffer_ms * 1_000, queue_us)
        self._adaptive = self._options.playback_buffering is Buffering.ADAPTIVE
        self._tracker = LatenessTracker(self._initial_us, min(MAX_TARGET_US, queue_us))
        self.cap_us: int = min(self._options.playback_recovery_ms * 1_000, MAX_TARGET_US, queue_us)
        self.phase = Phase.IDLE
        self.latched_us = self._initial_us
        self.shortage_us = 0
        self._since_us = 0  # when the phase began; while STARVED, when the shortage began
        self._released = False

    @property
    def learned_us(self) -> int:
        """The target that the next start would latch."""
        return self._tracker.target_us if self._adaptive else self._initial_us

    def received(
        self, at_us: int, duration_us: int, stream: str = "output", clock: Clock = Clock.LOCAL_MONOTONIC
    ) -> None:
        """Audio of `duration_us` was queued at `at_us`."""
        returned = self.phase is Phase.STARVED
        if returned and at_us - self._since_us < IDLE_US:
            self.shortage_us = at_us - self._since_us
        self._tracker.received(at_us, duration_us, stream, clock)
        if returned and self.shortage_us:
            self._tracker.restart()  # the stall has been measured; it must not count against every later packet
        if self.phase is Phase.IDLE or (returned and at_us - self._since_us >= IDLE_US):
            self._hold(Phase.STARTING, at_us, self._initial_us > 0)
        elif returned:
            self._hold(Phase.RECOVERING, at_us, self.cap_us > 0)

    def may_play(self, at_us: int, queued_us: int) -> bool:
        """At a tick of the playback clock with `queued_us` queued: whether to take from the queue now."""
        if queued_us <= 0:
            if self.phase is Phase.PLAYING:
                self.phase, self._since_us, self.shortage_us = Phase.STARVED, at_us, 0
            return False
        if self.phase in (Phase.IDLE, Phase.STARVED):
            return False  # audio is only playable once it was reported received
        if self.phase is not Phase.PLAYING and self._is_over(at_us, queued_us):
            self.phase = Phase.PLAYING
        return self.phase is Phase.PLAYING

    def release_recovery(self) -> None:
        """Upstream pressure: end a recovery hold now. Outside recovery it changes nothing; repeats are harmless."""
        if self.phase is Phase.RECOVERING:
            self._released = True

    def restart(self) -> None:
        """A clear or suppression: timing begins anew, the learned target stays."""
        self.phase, self.shortage_us, self._released = Phase.IDLE, 0, False
        self._tracker.restart()

    @property
    def target_us(self) -> int:
        """How much must be queued to end the current hold early."""
        if self.phase is not Phase.RECOVERING:
            return self.latched_us
        wanted = self.shortage_us + CUSHION_US
        if self._adaptive:
            return min(wanted + self.learned_us - self._initial_us, self.latched_us, self._queue_us)
        return min(wanted, 2 * min(FIXED_CUSHION_US, self._initial_us, self._queue_us), self._queue_us)

    @property
    def deadline_us(self) -> int:
        """How long the current hold may last from the return of the source."""
        if self.phase is not Phase.RECOVERING:
            return self.latched_us
        return min(self.shortage_us + CUSHION_US, self.cap_us)

    @property
    def settling_us(self) -> int:
        """How long a recovery lasts at least: only after a stall longer than the cap."""
        return min(max(self.shortage_us - self.cap_us, 0), self.cap_us // 2)

    def _hold(self, phase: Phase, at_us: int, held: bool) -> None:
        self.latched_us = self.learned_us
        self._released = False
        self._since_us = at_us
        if phase is Phase.STARTING:
            self.shortage_us = 0
        self.phase = phase if held else Phase.PLAYING

    def _is_over(self, at_us: int, queued_us: int) -> bool:
        elapsed = at_us - self._since_us
        if self._released or elapsed >= self.deadline_us:
            return True
        return queued_us >= self.target_us and (self.phase is Phase.STARTING or elapsed >= self.settling_us)
