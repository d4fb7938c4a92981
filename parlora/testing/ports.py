"""Audio ports in memory: what a ring looks like to an adapter, without processes or shared memory."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from parlora.audio.format import AudioFormat
from parlora.audio.frame import AudioFrame
from parlora.audio.port import BufferStatus, Loss, WriteResult
from parlora.errors import Closed, InvalidArgument


@dataclass(frozen=True, slots=True)
class _Queued:
    epoch: int
    frame: AudioFrame


class MemoryPort:
    """One bounded queue of frames, both ends of it: an `AudioSink` for its writer and an `AudioSource` for its reader.

    It refuses what a ring refuses and for the same reasons, but it may be used from any number of threads. Sizes are
    bytes. `lost` counts everything that `clear` dropped.
    """

    def __init__(self, format: AudioFormat, capacity_bytes: int, max_frame_bytes: int) -> None:
        self.format = format
        self.lost = Loss()
        self._capacity = capacity_bytes
        self._max_frame = max_frame_bytes
        self._changed = threading.Condition()  # its lock is reentrant
        self._frames: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._epoch = 0
        self._sequence = 0
        self._closed = False

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._epoch

    def write(self, data: bytes | memoryview, timestamp_us: int | None = None, epoch: int | None = None) -> WriteResult:
        """Offer one frame; taken whole or refused whole, as `AudioSink.write` says."""
        stamp = _now_us() if timestamp_us is None else timestamp_us
        frame = AudioFrame.new(bytes(data), self.format, self._sequence, stamp)
        with self._changed:
            if self._closed:
                return WriteResult.CLOSED
            if epoch is not None and epoch < self._epoch:
                return WriteResult.STALE_EPOCH
            if len(frame.data) > self._max_frame:
                return WriteResult.TOO_BIG
            if self._queued_bytes + len(frame.data) > self._capacity:
                return WriteResult.BACKPRESSURE
            self._frames.append(_Queued(self._epoch if epoch is None else epoch, frame))
            self._queued_bytes += len(frame.data)
            self._sequence += 1
            self._changed.notify_all()
            return WriteResult.OK

    def write_packet(self, data: bytes | memoryview, frame_bytes: int) -> WriteResult:
        """Offer a packet as frames of `frame_bytes`, all or none, as `AudioSink.write_packet` says."""
        with self._changed:
            if frame_bytes > self._max_frame:
                return WriteResult.TOO_BIG
            if not self._closed and self._queued_bytes + len(data) > self._capacity:
                return WriteResult.BACKPRESSURE
            pieces = [data[at : at + frame_bytes] for at in range(0, len(data), frame_bytes)] or [data]
            return [self.write(piece) for piece in pieces][-1]

    def read(self, max_bytes: int) -> Sequence[AudioFrame]:
        """Whole frames of at most `max_bytes` in total, oldest first, as `AudioSource.read` says."""
        if max_bytes < self._max_frame:
            raise InvalidArgument(f"max_bytes must be at least one frame of {self._max_frame} bytes", field="max_bytes")
        taken: list[AudioFrame] = []
        with self._changed:
            if self._closed and not self._frames:
                raise Closed("the session has ended and nothing is left")
            room = max_bytes
            while self._frames and len(self._frames[0].frame.data) <= room:
                frame = self._frames.popleft().frame
                room -= len(frame.data)
                taken.append(frame)
            self._queued_bytes -= max_bytes - room
            self._changed.notify_all()
        return taken

    def wait(self, deadline_us: int) -> bool:
        """Block until a frame can be read or the port is closed (True) or `deadline_us` has passed (False)."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._frames) or self._closed, _seconds_until(deadline_us))

    def wait_space(self, size_bytes: int, deadline_us: int) -> bool:
        """Block until `size_bytes` fit or the port is closed (True) or `deadline_us` has passed (False)."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self._queued_bytes + size_bytes <= self._capacity or self._closed, _seconds_until(deadline_us)
            )

    def status(self) -> BufferStatus:
        """Payload bytes queued and the bound."""
        return BufferStatus(self._queued_bytes, self._capacity)

    def clear(self, epoch: int) -> Loss:
        """Adopt `epoch` unless a newer one is in use, and drop what is older; returns what was dropped."""
        with self._changed:
            self._epoch = max(self._epoch, epoch)
            dropped = [queued.frame for queued in self._frames if queued.epoch < self._epoch]
            self._frames = deque(queued for queued in self._frames if queued.epoch >= self._epoch)
            size = sum(len(frame.data) for frame in dropped)
            self._queued_bytes -= size
            loss = Loss(len(dropped), size, self.format.duration_us(size))
            self.lost += loss
            self._changed.notify_all()
            return loss

    def close(self) -> None:
        """End the stream: writes are refused, reads drain what is left and then raise `Closed`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def _now_us() -> int:
    return time.monotonic_ns() // 1_000


def _seconds_until(deadline_us: int) -> float:
    return max(0.0, (deadline_us - _now_us()) / 1_000_000)
