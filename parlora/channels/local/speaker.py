"""What the output device plays: taken from the playback port when the buffer says so, else silence."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.audio.playback_buffer import Phase, PlaybackBuffer, PlaybackOptions
from parlora.audio.port import AudioSource, Loss
from parlora.channels.local.convert import ToDevice, device_us
from parlora.contract.channel import PlaybackEvidence, PlaybackStage
from parlora.errors import Closed

_FRAME_US: Final = 20_000


@dataclass(frozen=True, slots=True)
class Starved:
    """The queue ran dry while it was played: silence is inserted from now on. An end of speech looks the same."""

    at_us: int
    epoch: int


class Speaker:
    """The output side. `fill` is called by the device; everything else by other threads.

    Audio waits in the port's ring, where a clear reaches it at once; here lies one read at most, converted for the
    device, and it goes as soon as the ring's epoch has moved on.
    """

    def __init__(
        self,
        source: AudioSource,
        format: AudioFormat,
        rate_hz: int,
        channels: int,
        read_bytes: int,
        options: PlaybackOptions,
    ) -> None:
        self._source = source
        self._format = format
        self._rate_hz, self._channels = rate_hz, channels
        self._read_bytes = read_bytes
        self._convert = ToDevice(format, rate_hz, channels)
        queue_us = format.duration_us(source.status().capacity_bytes)
        self._buffer = PlaybackBuffer(queue_us, options)
        self._changed = threading.Condition()
        self._store = bytearray()
        self._epoch = source.epoch
        self._suppressed = False
        self._left_bytes = 0  # in the port after the last look: what is more than that has just arrived
        self._unsaid = Loss()  # dropped here, and not yet told by a control
        self._taken_bytes = 0
        self._discarded_bytes = 0
        self._observed_bytes = 0
        self._starved: list[Starved] = []
        self.last_us = 0
        self.silence_us = 0
        self.is_over = False

    @property
    def suppressed(self) -> bool:
        """Whether output is being thrown away."""
        return self._suppressed

    @property
    def epoch(self) -> int:
        """The playback epoch in use."""
        return self._epoch

    @property
    def played_bytes(self) -> int:
        """Session audio handed to the device so far."""
        waiting_us = device_us(len(self._store), self._rate_hz, self._channels)
        return max(0, self._taken_bytes - self._discarded_bytes - self._format.bytes_for_us(waiting_us))

    def fill(self, size_bytes: int, now_us: int) -> bytes:
        """Exactly `size_bytes` for the device, now. Called on the device's own thread; it waits for nothing."""
        with self._changed:
            self.last_us = now_us
            self._follow_epoch()
            self._changed.notify_all()
            try:
                out = b"" if self._suppressed else self._take(size_bytes, now_us)
                if self._suppressed:
                    self._throw_away()
            except Closed:
                self.is_over = True
                out = b""
            silent = size_bytes - len(out)
            if silent and self._buffer.phase is not Phase.IDLE:
                self.silence_us += device_us(silent, self._rate_hz, self._channels)
            return out + bytes(silent)

    def clear(self, epoch: int, deadline_us: int) -> Loss | None:
        """Adopt `epoch`; returns what was dropped here, or None if the device did not come for audio in time."""
        with self._changed:
            self._unsaid += self._source.clear(epoch)
            self._follow_epoch()
            asked_us = self.last_us
            while self.last_us == asked_us:
                left = deadline_us - time.monotonic_ns() // 1_000
                if left <= 0 or not self._changed.wait(left / 1e6):
                    return None
            return self._say()

    def suppress(self, on: bool) -> Loss:
        """Throw output away while on. Resuming drains once more; returns what has been thrown away until now."""
        with self._changed:
            self._drop_store()
            if self._suppressed and not on:
                self._throw_away()
            self._suppressed = on
            self._buffer.restart()
            return self._say()

    def release(self, epoch: int) -> None:
        """End a recovery hold of this epoch; another epoch's hint changes nothing."""
        with self._changed:
            if epoch == self._epoch:
                self._buffer.release_recovery()

    def untold(self) -> Loss:
        """What was dropped and not told by a control: its clear failed, or output was never resumed."""
        with self._changed:
            return self._say()

    def starved(self) -> list[Starved]:
        """What has run dry since the last call."""
        with self._changed:
            taken, self._starved = self._starved, []
            return taken

    def observation(self) -> dict[str, Any] | None:
        """The payload of `playback_observed` for what was handed to the device since the last one."""
        with self._changed:
            size = self._format.sample_bytes * self._format.channels
            first, end = self._observed_bytes // size, self.played_bytes // size
            if end <= first:
                return None
            self._observed_bytes = end * size
            return {
                "stream": "output",
                "epoch": self._epoch,
                "first_sample": first,
                "last_sample": end - 1,
                "stage": str(PlaybackStage.HANDED_OFF),
                "evidence": str(PlaybackEvidence.HANDOFF),
            }

    def _take(self, size_bytes: int, now_us: int) -> bytes:
        self._note_arrivals(now_us)
        queued_us = self._format.duration_us(self._left_bytes) + device_us(
            len(self._store), self._rate_hz, self._channels
        )
        was_playing = self._buffer.phase is Phase.PLAYING
        if not self._buffer.may_play(now_us, queued_us):
            if was_playing and self._buffer.phase is Phase.STARVED:
                self._starved.append(Starved(now_us, self._epoch))
                return self._convert.flush()[:size_bytes]
            return b""
        while len(self._store) < size_bytes:
            frames = self._source.read(self._read_bytes)
            if not frames:
                break
            for frame in frames:
                self._taken_bytes += len(frame.data)
                self._store += self._convert.convert(frame.data)
        self._left_bytes = self._source.status().queued_bytes
        out = bytes(self._store[:size_bytes])
        del self._store[: len(out)]
        return out

    def _note_arrivals(self, now_us: int) -> None:
        queued = self._source.status().queued_bytes
        if queued > self._left_bytes:
            self._buffer.received(now_us, self._format.duration_us(queued - self._left_bytes))
        self._left_bytes = queued

    def _follow_epoch(self) -> None:
        if self._source.epoch != self._epoch:
            self._epoch = self._source.epoch
            self._drop_store()
            self._buffer.restart()

    def _drop_store(self) -> None:
        size = self._format.bytes_for_us(device_us(len(self._store), self._rate_hz, self._channels))
        self._store.clear()
        self._convert.reset()
        self._left_bytes = 0
        self._count(-(-size // self._format.bytes_for_us(_FRAME_US)), size)

    def _throw_away(self) -> None:
        while frames := self._source.read(self._read_bytes):
            size = sum(len(frame.data) for frame in frames)
            self._taken_bytes += size
            self._count(len(frames), size)
        self._left_bytes = 0

    def _count(self, frames: int, size: int) -> None:
        self._discarded_bytes += size
        self._unsaid += Loss(frames, size, self._format.duration_us(size))

    def _say(self) -> Loss:
        said, self._unsaid = self._unsaid, Loss()
        return said
