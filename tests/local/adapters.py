"""A provider that plays a tone and tells which one it hears."""

from __future__ import annotations

from typing import Any

import numpy as np

from parlora.audio import mulaw
from parlora.audio.format import AudioFormat, Encoding
from parlora.audio.port import WriteResult
from parlora.audio.ticker import Ticker
from parlora.contract.adapter import AdapterInit
from parlora.limits import AudioLimits
from parlora.providers.trivial import TrivialProvider

TONE_HZ = 440
TICK_US = 20_000


class ToneProvider(TrivialProvider):
    """`extension {name: heard, hz, level}` for each second of what it hears."""

    @classmethod
    def audio_limits(cls, format: AudioFormat) -> AudioLimits:
        return AudioLimits(format.bytes_for_us(2_000_000), 3_000)

    def start(self, init: AdapterInit) -> None:
        assert init.audio_format is not None
        self._format = init.audio_format
        self._at = 0
        self._ears: list[bytes] = []
        super().start(init)
        self._playing = Ticker(self._play, TICK_US, "tone")
        self._playing.start()

    def _play(self) -> bool:
        rate = self._format.sample_rate
        samples = rate // 50
        times = (np.arange(samples) + self._at) / rate
        pcm = (8_000 * np.sin(2 * np.pi * TONE_HZ * times)).astype("<i2").tobytes()
        with self._turn:
            if self._closing:
                return False
            if self._generated.write(mulaw.encode(pcm) if self._is_mulaw else pcm) is WriteResult.OK:
                self._at += samples
            return True

    @property
    def _is_mulaw(self) -> bool:
        return self._format.encoding is not Encoding.PCM16LE

    def _hear(self, frames: Any) -> None:
        self._ears += [frame.data for frame in frames]
        data = b"".join(self._ears)
        rate = self._format.sample_rate
        if len(data) < self._format.bytes_per_second:
            return
        self._ears.clear()
        pcm = np.frombuffer(mulaw.decode(data) if self._is_mulaw else data, "<i2").astype(float)
        spectrum = np.abs(np.fft.rfft(pcm * np.hanning(len(pcm))))
        hz = float(np.fft.rfftfreq(len(pcm), 1 / rate)[spectrum.argmax()])
        heard = {"name": "heard", "hz": round(hz), "level": int(np.sqrt((pcm**2).mean()))}
        self._sink.emit("extension", heard)
