"""Loud and silent, in both formats."""

import struct

import pytest

from parlora.audio.format import AudioFormat
from parlora.channels.wav.loudness import loudness_test

PCM16, PCMU = AudioFormat.pcm16(), AudioFormat.pcmu()


@pytest.mark.parametrize(
    ("format", "audio", "loud"),
    [
        (PCM16, PCM16.silence(20_000), False),
        (PCM16, struct.pack("<3h", 0, 200, -200), False),
        (PCM16, struct.pack("<3h", 0, 201, 0), True),
        (PCM16, struct.pack("<3h", 0, 0, -32_768), True),
        (PCM16, b"", False),
        (PCMU, PCMU.silence(20_000), False),
        (PCMU, b"\xff\x7f\xf0\x70", False),  # the smallest 16 steps of either sign: magnitudes up to 120
        (PCMU, b"\xff\x00", True),  # the loudest
        (PCMU, b"\xff\x80", True),
        (PCMU, b"", False),
    ],
)
def test_a_sample_above_the_threshold_is_loud(format: AudioFormat, audio: bytes, loud: bool) -> None:
    assert loudness_test(format)(audio) is loud
