"""What an adapter sees of the frame rings: one port to read from, one to write to.

The ring *is* the bounded queue of the contract, so an adapter that blocks cannot
stall a pipeline, and a pipeline never runs adapter code (acceptance AU-10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from parlora.audio.frame import AudioFrame


class WriteResult(StrEnum):
    """What became of one offered frame: taken whole, or refused whole with the reason (acceptance AU-09)."""

    OK = "ok"
    BACKPRESSURE = "backpressure"
    STALE_EPOCH = "stale_epoch"
    TOO_BIG = "too_big"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Loss:
    """How much audio a call discarded: loss is a value."""

    frames: int = 0
    bytes: int = 0
    duration_us: int = 0

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.frames + other.frames, self.bytes + other.bytes, self.duration_us + other.duration_us)

    def __sub__(self, other: Loss) -> Loss:
        return Loss(self.frames - other.frames, self.bytes - other.bytes, self.duration_us - other.duration_us)

    def __bool__(self) -> bool:
        return self.frames > 0 or self.bytes > 0


@dataclass(frozen=True, slots=True)
class BufferStatus:
    """How full the queue behind a port is, in payload bytes."""

    queued_bytes: int
    capacity_bytes: int


class AudioSource(Protocol):
    """The port an adapter reads from: the playback ring for a channel, the uplink ring for a provider.

    One thread at a time may use it.
    """

    @property
    def epoch(self) -> int:
        """The current playback epoch: audio of an older one is never returned again."""

    def read(self, max_bytes: int) -> Sequence[AudioFrame]:
        """Whole frames of at most `max_bytes` in total, oldest first; empty if there are none.

        Raises `InvalidArgument` if `max_bytes` cannot hold one allowed frame, `Closed` when the
        session has ended and nothing is left.
        """

    def wait(self, deadline_us: int) -> bool:
        """Block until a frame can be read, the port is closed (both True) or `deadline_us` has passed (False)."""

    def status(self) -> BufferStatus:
        """Payload bytes queued and the bound."""

    def clear(self, epoch: int) -> Loss:
        """Adopt `epoch` and drop everything older that is queued; returns what clears dropped since the last call."""


class AudioSink(Protocol):
    """The port an adapter writes to: the capture ring for a channel, the generated ring for a provider.

    One thread at a time may use it.
    """

    @property
    def epoch(self) -> int:
        """The current epoch; a frame offered with an older one is refused with `STALE_EPOCH`."""

    def write(self, data: bytes | memoryview, timestamp_us: int | None = None, epoch: int | None = None) -> WriteResult:
        """Offer one frame of whole samples; `timestamp_us` defaults to now, `epoch` to the current one.

        Raises `InvalidArgument` for an empty frame or half a sample.
        """

    def write_packet(self, data: bytes | memoryview, frame_bytes: int) -> WriteResult:
        """Offer a packet of any length as frames of `frame_bytes` (the last may be shorter): all of them or none.

        `TOO_BIG` if `frame_bytes` is more than one frame may have. Raises as `write`.
        """

    def wait_space(self, size_bytes: int, deadline_us: int) -> bool:
        """Block until `size_bytes` fit or the port is closed (both True), or `deadline_us` has passed (False)."""

    def status(self) -> BufferStatus:
        """Payload bytes queued and the bound."""

    def clear(self, epoch: int) -> Loss:
        """Adopt `epoch`: whatever of an older one is queued will be dropped and counted by the reader."""
