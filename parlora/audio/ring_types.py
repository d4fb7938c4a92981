"""What a frame ring tells its users: verdicts, bounds and counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from parlora._native import lib
from parlora.audio.port import Loss
from parlora.errors import InvalidArgument


class Verdict(IntEnum):
    """What became of a call; OK is 0. The numbers are those of native/ring.h."""

    OK = 0
    EMPTY = 1
    FULL = 2
    TOO_OLD = 3
    STALE_EPOCH = 4
    TOO_BIG = 5
    CLOSED = 6
    TIMED_OUT = 7
    PEER_DIED = 8
    INTERRUPTED = 9
    BUFFER_SMALL = 10
    CORRUPT = 11


Data = bytes | bytearray | memoryview
"""What a frame or packet may be given as: any contiguous buffer in truth."""

REFUSALS: Final = (Verdict.FULL, Verdict.TOO_OLD, Verdict.STALE_EPOCH, Verdict.TOO_BIG, Verdict.CLOSED)
"""Why a frame may be refused, in the order of the native counters."""


class Descriptors(NamedTuple):
    """A ring on its way to another process: inherit or send these three."""

    memory: int
    data_event: int
    space_event: int


@dataclass(frozen=True, slots=True)
class RingSpec:
    """Bounds of a ring. `max_bytes` counts payload and is exact; `max_age_ms` 0 sets no age bound."""

    max_bytes: int
    max_age_ms: int
    max_frame_bytes: int

    def check(self) -> RingSpec:
        """Return self, or raise `InvalidArgument` naming the bound that is out of range."""
        for name, least, most in (
            ("max_bytes", 1, 2**28),
            ("max_age_ms", 0, 3_600_000),
            ("max_frame_bytes", 1, self.max_bytes),
        ):
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise InvalidArgument(f"{name} must be an integer from {least} to {most}, got {value!r}", field=name)
        return self


@dataclass(frozen=True, slots=True)
class RingStats:
    """Counters as one observer read them. What went in is exact at one moment; so are what went out and `dropped`.

    `dropped` was admitted and then discarded by a clear or a drain; `rejected` was never admitted (its durations are
    not counted). A pid of 0 means that the role is free, or held by the caller itself.
    """

    frames_in: int
    bytes_in: int
    duration_in_us: int
    last_in_us: int
    frames_out: int
    bytes_out: int
    duration_out_us: int
    last_out_us: int
    dropped: Loss
    queued: Loss
    rejected: Mapping[Verdict, Loss]
    epoch: int
    closed: bool
    wakes: int
    max_bytes: int
    max_frame_bytes: int
    max_age_us: int
    capacity_bytes: int
    producer_pid: int
    consumer_pid: int


def now_us() -> int:
    """CLOCK_MONOTONIC in microseconds: the clock of every deadline and timestamp here."""
    return int(lib.pl_now_us())
