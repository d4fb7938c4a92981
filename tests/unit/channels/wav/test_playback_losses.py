"""What the channel throws away is told by exactly one control, whatever came between."""

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.channels.wav.playback import Playback
from parlora.testing.ports import MemoryPort

FORMAT = AudioFormat.pcm16()
FRAME = bytes(960)
ONE = Loss(1, 960, 20_000)


def playing(frames: int) -> tuple[MemoryPort, Playback]:
    port = MemoryPort(FORMAT, 9_600, 4_800)
    for _ in range(frames):
        port.write(FRAME)
    return port, Playback(port, FORMAT, 4_800)


@pytest.mark.row("EP-10", "EP-11")
def test_a_resume_tells_everything_that_was_thrown_away_since_the_suppression() -> None:
    port, playback = playing(3)
    playback.next_frame()
    assert playback.suppress(True) == ONE + ONE, "one read lies here, of which a frame was played"
    for _ in range(4):
        port.write(FRAME)
        playback.next_frame()
    port.write(FRAME)
    lost = playback.suppress(False)
    assert (lost.frames, lost.bytes) == (5, 5 * 960)
    assert playback.suppress(False) == Loss()


@pytest.mark.row("EP-03")
def test_a_clear_tells_what_was_dropped_when_a_tick_saw_the_new_epoch_before_it() -> None:
    port, playback = playing(3)
    playback.next_frame()
    port.clear(1)  # the pipeline was quicker
    playback.next_frame()
    assert playback.clear(1) == ONE + ONE
    assert playback.clear(1) == Loss()
