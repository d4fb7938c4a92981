"""One piece of audio on its way (spec 000 §12)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from parlora.audio.format import AudioFormat
from parlora.errors import InvalidArgument


class Clock(StrEnum):
    """What a timestamp counts from. Timestamps of different clocks are not compared (acceptance TY-32)."""

    LOCAL_MONOTONIC = "local_monotonic"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class AudioFrame:
    """Whole samples of one format.

    `sequence` is a non-negative integer per stream, `timestamp_us` is in microseconds of `clock`.
    `data` never shows in `repr`, so that no log can hold audio.
    """

    data: bytes = field(repr=False)
    format: AudioFormat
    sequence: int
    timestamp_us: int
    clock: Clock = Clock.LOCAL_MONOTONIC

    @classmethod
    def new(
        cls, data: bytes, format: AudioFormat, sequence: int, timestamp_us: int, clock: Clock = Clock.LOCAL_MONOTONIC
    ) -> AudioFrame:
        """A checked frame; raises `InvalidArgument` for an empty frame, half a sample or a negative sequence."""
        if not isinstance(data, bytes | bytearray | memoryview) or len(data) == 0:
            raise InvalidArgument("data must be non-empty bytes", field="data")
        if len(data) % (format.sample_bytes * format.channels):
            raise InvalidArgument(
                f"data must hold whole samples of {format.sample_bytes} bytes, got {len(data)} bytes", field="data"
            )
        if not isinstance(sequence, int) or sequence < 0:
            raise InvalidArgument("sequence must be a non-negative integer", field="sequence")
        return cls(bytes(data), format, sequence, timestamp_us, clock)

    @property
    def duration_us(self) -> int:
        """Play time in microseconds."""
        return self.format.duration_us(len(self.data))
