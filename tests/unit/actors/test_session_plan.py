"""What a session's processes are given."""

import dataclasses

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.ring import Ring, Verdict
from parlora.component import Component
from parlora.limits import Limits
from parlora.session.spec import SessionSpec
from parlora_actors.session_plan import Rings

PART = Component("nowhere:Nothing")


def spec(limits: Limits) -> SessionSpec:
    return SessionSpec("s", PART, PART, PART, PART, AudioFormat(), limits, 0)


def taken(ring: Ring, frame: int = 960) -> int:
    """Bytes that a ring takes until it refuses one frame more."""
    writer, bytes_in = ring.writer(), 0
    while writer.write(bytes(frame), duration_us=20_000) is Verdict.OK:
        bytes_in += frame
    return bytes_in


@pytest.mark.row("LM-03")
def test_one_limit_bounds_three_queues_and_another_the_generated_audio() -> None:
    limits = Limits(audio_queue_bytes=9_600, provider_audio_queue_bytes=19_200)
    resolved = dataclasses.replace(limits.resolve(AudioFormat()), provider_audio_queue_bytes=19_200)
    rings = Rings.create(spec(resolved))
    try:
        shallow = [taken(ring) for ring in (rings.capture, rings.uplink, rings.playback)]
        assert shallow == [9_600, 9_600, 9_600]
        assert taken(rings.generated) == 19_200
    finally:
        for ring in (rings.capture, rings.uplink, rings.generated, rings.playback):
            ring.close()
