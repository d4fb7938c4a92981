"""Between the session's format and the device's: rate, channels and mu-law, each way a stream of its own."""

from __future__ import annotations

from typing import Final

import numpy as np

from parlora.audio import mulaw
from parlora.audio.format import AudioFormat, Encoding
from parlora.audio.resample import Resampler

_SAMPLE: Final = 2


class ToDevice:
    """Session audio to PCM16 of `rate_hz`, the same on each of `channels`."""

    def __init__(self, format: AudioFormat, rate_hz: int, channels: int) -> None:
        self._is_mulaw = format.encoding is not Encoding.PCM16LE
        self._resampler = Resampler(format.sample_rate, rate_hz)
        self._channels = channels

    def convert(self, data: bytes) -> bytes:
        """What `data` completes."""
        return self._spread(self._resampler.process(mulaw.decode(data) if self._is_mulaw else data))

    def flush(self) -> bytes:
        """The end of a stretch of audio, still in the filter."""
        return self._spread(self._resampler.flush())

    def reset(self) -> None:
        """Forget what came before, as after a clear."""
        self._resampler.reset()

    def _spread(self, mono: bytes) -> bytes:
        if self._channels == 1:
            return mono
        return np.repeat(np.frombuffer(mono, "<i2"), self._channels).tobytes()


class FromDevice:
    """PCM16 of `rate_hz` with `channels` to session audio; channels are averaged."""

    def __init__(self, format: AudioFormat, rate_hz: int, channels: int) -> None:
        self._is_mulaw = format.encoding is not Encoding.PCM16LE
        self._resampler = Resampler(rate_hz, format.sample_rate)
        self._channels = channels

    def convert(self, data: bytes) -> bytes:
        """What `data` completes."""
        if self._channels > 1:
            samples = np.frombuffer(data, "<i2").reshape(-1, self._channels)
            data = samples.mean(axis=1).astype("<i2").tobytes()
        data = self._resampler.process(data)
        return mulaw.encode(data) if self._is_mulaw else data


def device_bytes(duration_us: int, rate_hz: int, channels: int) -> int:
    """How many bytes a device takes in this time."""
    return duration_us * rate_hz // 1_000_000 * channels * _SAMPLE


def device_us(size_bytes: int, rate_hz: int, channels: int) -> int:
    """How long these bytes last on a device."""
    return size_bytes // (channels * _SAMPLE) * 1_000_000 // rate_hz
