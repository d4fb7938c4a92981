"""Whether a piece of audio can be heard: the measure by which the assistant is taken to speak or be silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from parlora.audio.format import AudioFormat, Encoding

LOUD: Final = 200  # of 32,768 (-44 dBFS): above the fade of a cut word, below any spoken one


def loudness_test(format: AudioFormat) -> Callable[[bytes], bool]:
    """A function that tells whether a piece in `format` holds a sample above `LOUD`."""
    return _pcm16_is_loud if format.encoding is Encoding.PCM16LE else _mu_law_is_loud


def _pcm16_is_loud(audio: bytes) -> bool:
    samples = np.frombuffer(audio, "<i2")
    return bool(len(samples)) and max(int(samples.max()), -int(samples.min())) > LOUD


def _mu_law_is_loud(audio: bytes) -> bool:
    return bool(len(audio)) and max(audio.translate(_LOUD_CODES)) == 1


def _magnitude(code: int) -> int:
    """ITU-T G.711: the magnitude that a mu-law code stands for, on the 16-bit scale."""
    bits = ~code & 0x7F
    return (((bits & 0x0F) << 3) + 0x84 << (bits >> 4)) - 0x84


_LOUD_CODES: Final = bytes(_magnitude(code) > LOUD for code in range(256))
