"""What the input device hears: converted, cut into frames of 20 ms, and offered to the capture port."""

from __future__ import annotations

import threading

from parlora.audio.format import AudioFormat
from parlora.audio.port import AudioSink, Loss, WriteResult
from parlora.channels.local.convert import FromDevice

FRAME_US = 20_000


class Microphone:
    """The input side. `hear` is called by the device; a live voice cannot wait: what does not fit is lost, counted."""

    def __init__(self, sink: AudioSink, format: AudioFormat, rate_hz: int, channels: int) -> None:
        self._sink = sink
        self._format = format
        self._convert = FromDevice(format, rate_hz, channels)
        self._frame_bytes = format.bytes_for_us(FRAME_US)
        self._rest = bytearray()
        self._lock = threading.Lock()
        self._lost = Loss()
        self.last_us = 0
        self.sent_bytes = 0
        self.is_over = False

    def hear(self, data: bytes, now_us: int) -> None:
        """A piece from the device, on the device's own thread."""
        self.last_us = now_us
        self._rest += self._convert.convert(data)
        while len(self._rest) >= self._frame_bytes:
            frame = bytes(self._rest[: self._frame_bytes])
            del self._rest[: self._frame_bytes]
            result = self._sink.write(frame)
            if result is WriteResult.OK:
                self.sent_bytes += len(frame)
            elif result is WriteResult.CLOSED:
                self.is_over = True
            else:
                with self._lock:
                    self._lost += Loss(1, len(frame), self._format.duration_us(len(frame)))

    def lost(self) -> Loss:
        """What did not fit since the last call."""
        with self._lock:
            lost, self._lost = self._lost, Loss()
            return lost
