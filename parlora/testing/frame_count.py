"""Numbered frames: who receives them sees loss, order and pauses."""

from __future__ import annotations

import struct
import time
from typing import Any

from parlora.audio.format import AudioFormat

FRAME_US = 20_000
"""One frame every 20 ms."""


def numbered(format: AudioFormat, number: int) -> bytes:
    """A frame of silence that begins with its number as a little-endian unsigned 32-bit integer."""
    return struct.pack("<I", number) + format.silence(FRAME_US)[4:]


class FrameCount:
    """What a receiver of numbered frames saw. Counting begins with the first frame that comes.

    missing: numbers that were skipped. repeated: numbers that came again or too late. longest_pause_us: between two
    looks that found a frame.
    """

    def __init__(self) -> None:
        self.frames = self.missing = self.repeated = self.longest_pause_us = 0
        self._next: int | None = None
        self._last_us: int | None = None

    def saw(self, data: bytes) -> None:
        """One frame arrived."""
        number = int(struct.unpack("<I", data[:4])[0])
        now_us = time.monotonic_ns() // 1_000
        if self._next is not None and self._last_us is not None:
            self.missing += max(0, number - self._next)
            self.repeated += int(number < self._next)
            self.longest_pause_us = max(self.longest_pause_us, now_us - self._last_us)
        self.frames += 1
        self._next, self._last_us = max(number + 1, self._next or 0), now_us

    def to_data(self) -> dict[str, Any]:
        """The counts as plain data."""
        return {
            "frames": self.frames,
            "missing": self.missing,
            "repeated": self.repeated,
            "longest_pause_us": self.longest_pause_us,
        }
