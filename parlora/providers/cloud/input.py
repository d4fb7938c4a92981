"""Caller audio on its way to the service: continuous and at real time, silence where there is none.

The services' own time runs on the audio they get: without it appended text waits, and sessions expire.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from parlora.audio.format import AudioFormat
from parlora.audio.port import AudioSource, Loss
from parlora.audio.ring_types import now_us
from parlora.errors import Backpressure, Closed
from parlora.providers.cloud.conversion import Conversion

CHUNK_US: Final = 100_000
"""Longest piece sent in one message."""

MISSING_US: Final = 200_000
"""Caller audio missing for this long is made up for with silence: the depth of the session's queues. Sooner would put
holes into words whenever a busy machine delivers them late."""

_STANDSTILL_US: Final = 2_000_000  # after a stopped process the time that was missed is not made up for
_JOIN_S: Final = 0.3  # the thread waits for audio 100 ms at most


class InputThread:
    """Reads the source as audio comes and sends each piece at once.

    send: given one piece in the service's format; raises `Backpressure` or `Closed` if it cannot be taken. tick: called
    about every 100 ms. A piece that is not taken is dropped and counted; `take_dropped` tells it.
    """

    def __init__(
        self,
        source: AudioSource,
        format: AudioFormat,
        wire: AudioFormat,
        read_bytes: int,
        send: Callable[[bytes], None],
        tick: Callable[[], None],
    ) -> None:
        self._source = source
        self._format = format
        self._conversion = Conversion(format, wire)
        self._read_bytes = read_bytes
        self._chunk_bytes = format.bytes_for_us(CHUNK_US)
        self._send, self._tick = send, tick
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._dropped = Loss()
        self._sent_until_us = 0
        self._ticked_us = 0
        self.muted = False
        """While set, silence goes out in place of what the caller says."""
        self._thread = threading.Thread(target=self._run, name="cloud-input", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._sent_until_us = now_us()
        self._thread.start()

    def stop(self) -> None:
        """End, and free what is queued."""
        self._stopping.set()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(_JOIN_S)

    def take_dropped(self) -> Loss:
        """What the service did not take since the last call."""
        with self._lock:
            dropped, self._dropped = self._dropped, Loss()
            return dropped

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
            while self._source.read(self._read_bytes):
                pass
        except Closed:
            pass  # the session has ended; its close follows

    def _turn(self) -> None:
        now = now_us()
        silent_from_us = self._sent_until_us + MISSING_US + CHUNK_US
        self._source.wait(min(now + CHUNK_US, max(now, silent_from_us)))
        frames = self._source.read(self._read_bytes)
        if frames:
            self._pass_on(b"".join(frame.data for frame in frames))
        now = now_us()
        if now - self._sent_until_us > _STANDSTILL_US:
            self._sent_until_us = now - MISSING_US
        while now - self._sent_until_us >= MISSING_US + CHUNK_US:
            self._pass_on(self._format.silence(CHUNK_US))
        if now - self._ticked_us >= CHUNK_US:
            self._ticked_us = now
            self._tick()

    def _pass_on(self, data: bytes) -> None:
        for at in range(0, len(data), self._chunk_bytes):
            piece = data[at : at + self._chunk_bytes]
            if self.muted:
                piece = bytes([self._format.silence_byte]) * len(piece)
            self._sent_until_us += self._format.duration_us(len(piece))
            converted = self._conversion.process(piece)
            if converted:
                self._offer(converted, piece)

    def _offer(self, converted: bytes, piece: bytes) -> None:
        try:
            self._send(converted)
        except (Backpressure, Closed):
            with self._lock:
                self._dropped += Loss(1, len(piece), self._format.duration_us(len(piece)))
