"""The two audio ports of an owner, over the frame rings: what an adapter sees as `init.audio_in` and `init.audio_out`.

The adapter's own media thread uses them; waiting happens in C with the GIL released. A clear reaches the ring from any
thread or process at once, whatever the adapter is doing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from parlora.audio.format import AudioFormat
from parlora.audio.frame import AudioFrame
from parlora.audio.port import BufferStatus, Loss, WriteResult
from parlora.audio.ring import Ring, Verdict
from parlora.errors import InvalidArgument
from parlora.limits import Limits

_RESULTS: Final = {
    Verdict.OK: WriteResult.OK,
    Verdict.FULL: WriteResult.BACKPRESSURE,
    Verdict.TOO_OLD: WriteResult.BACKPRESSURE,
    Verdict.STALE_EPOCH: WriteResult.STALE_EPOCH,
    Verdict.TOO_BIG: WriteResult.TOO_BIG,
    Verdict.CLOSED: WriteResult.CLOSED,
}


class RingSource:
    """`AudioSource` over a ring whose consumer this process becomes."""

    def __init__(self, ring: Ring, format: AudioFormat) -> None:
        self.ring = ring
        self._reader = ring.reader()
        self._format = format
        self._told = ring.stats().dropped

    @property
    def epoch(self) -> int:
        """The current playback epoch."""
        return self.ring.epoch

    def read(self, max_bytes: int) -> Sequence[AudioFrame]:
        """Whole frames of at most `max_bytes` together, oldest first."""
        format = self._format
        return [
            AudioFrame(data, format, header.sequence, header.ts_us) for header, data in self._reader.read(max_bytes)
        ]

    def wait(self, deadline_us: int) -> bool:
        """Block until a frame can be read or the port is closed; False at the deadline."""
        return self._reader.wait(deadline_us) is Verdict.OK

    def status(self) -> BufferStatus:
        """Payload bytes queued and the bound."""
        return _status(self.ring)

    def clear(self, epoch: int) -> Loss:
        """Adopt `epoch` and drop what is older.

        Returns everything that clears have dropped here since the last call: a read that comes between the raise of
        the epoch, which no thread of ours need have made, and this call has dropped its part already.
        """
        self._reader.clear(epoch)
        told, self._told = self._told, self.ring.stats().dropped
        return self._told - told


class RingSink:
    """`AudioSink` over a ring whose producer this process becomes."""

    def __init__(self, ring: Ring, format: AudioFormat) -> None:
        self.ring = ring
        self._writer = ring.writer()
        self._format = format
        self._sample_bytes = format.sample_bytes * format.channels

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.ring.epoch

    def bound(self, limits: Limits) -> None:
        """Hold the queue to a provider's resolved bounds from the next frame on."""
        if limits.provider_audio_queue_bytes is not None:
            self._writer.set_bounds(limits.provider_audio_queue_bytes, limits.provider_audio_max_age_ms or 0)

    def write(self, data: bytes | memoryview, timestamp_us: int | None = None, epoch: int | None = None) -> WriteResult:
        """Offer one frame of whole samples."""
        size = self._checked_size(data)
        return _RESULTS[self._writer.write(data, epoch, timestamp_us or 0, self._format.duration_us(size))]

    def write_packet(self, data: bytes | memoryview, frame_bytes: int) -> WriteResult:
        """Offer a packet as frames of `frame_bytes`, all or none, in one call into C."""
        self._checked_size(data)
        frame_us = self._format.duration_us(frame_bytes)
        _, verdict = self._writer.write_packet(data, frame_bytes, frame_us=frame_us, whole=True)
        return _RESULTS[verdict]

    def _checked_size(self, data: bytes | memoryview) -> int:
        size = memoryview(data).nbytes
        if size == 0 or size % self._sample_bytes:
            raise InvalidArgument(
                f"data must hold whole samples of {self._sample_bytes} bytes and at least one, got {size} bytes",
                field="data",
            )
        return size

    def wait_space(self, size_bytes: int, deadline_us: int) -> bool:
        """Block until `size_bytes` fit or the port is closed; False at the deadline."""
        return self._writer.wait(size_bytes, deadline_us) is Verdict.OK

    def status(self) -> BufferStatus:
        """Payload bytes queued and the bound."""
        return _status(self.ring)

    def clear(self, epoch: int) -> Loss:
        """Adopt `epoch`: the ring's reader drops and counts what is older, so nothing is counted here."""
        self.ring.clear(epoch)
        return Loss()


def _status(ring: Ring) -> BufferStatus:
    stats = ring.stats()
    return BufferStatus(stats.queued.bytes, stats.max_bytes)
