"""A synthesized caller for tests and demonstrations: spoken sentences with the faint noise of a quiet line.

    audio = CallerVoice().say("check order one two three")       # mono PCM16 at 24 kHz
    write_wav(path, audio)

It needs the extra `offline`. A real line is never digitally silent, and speech detectors rely on that: `noise` is part
of every clip, and of the silence between them.
"""

from __future__ import annotations

import wave
from os import PathLike
from typing import Final

import numpy as np

from parlora.providers.offline.espeak import DEFAULT_SPEED, DEFAULT_VOICE, ESpeak
from parlora.providers.offline.samples import WIRE_RATE_HZ, to_bytes, to_samples

SPEECH_DBFS: Final = -20.0  # root mean square of the voiced parts: an ordinary telephone level
NOISE_DBFS: Final = -60.0
_VOICED: Final = 200  # samples above this count as voiced when the level is set


class CallerVoice:
    """Speaks as a caller does. The noise repeats with the seed; the speech never does, sample for sample."""

    def __init__(self, voice: str = DEFAULT_VOICE, speed: int = DEFAULT_SPEED, seed: int = 1) -> None:
        self._espeak = ESpeak(voice, speed)
        self._random = np.random.default_rng(seed)

    def say(self, text: str) -> bytes:
        """`text` as mono PCM16 at 24 kHz, noise included."""
        speech = self._espeak.speak(text).audio.astype(np.float64)
        voiced = speech[np.abs(speech) > _VOICED]
        level = np.sqrt(np.mean(voiced**2)) if len(voiced) else 1.0
        return self._finish(speech * (_full_scale(SPEECH_DBFS) / level))

    def noise(self, duration_ms: int) -> bytes:
        """The line without speech."""
        return self._finish(np.zeros(duration_ms * WIRE_RATE_HZ // 1000))

    def _finish(self, signal: np.ndarray) -> bytes:
        noise = self._random.standard_normal(len(signal)) * _full_scale(NOISE_DBFS)
        return to_bytes(to_samples(signal + noise))


def write_wav(path: str | PathLike[str], audio: bytes) -> None:
    """Write mono PCM16 at 24 kHz as a WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(WIRE_RATE_HZ)
        file.writeframes(audio)


def _full_scale(dbfs: float) -> float:
    return 32768.0 * float(10 ** (dbfs / 20))
