"""Playback on virtual time: exact frames, clear by epoch, suppression and evidence."""

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.channels.wav.playback import OBSERVE_EVERY_TICKS, Playback
from parlora.testing.ports import MemoryPort

FORMAT = AudioFormat.pcm16()
FRAME = 960
SILENCE = bytes(FRAME)


def loud(number: int = 1, size: int = FRAME) -> bytes:
    return bytes([number]) * size


def playback() -> tuple[Playback, MemoryPort]:
    port = MemoryPort(FORMAT, 9_600, 4_800)
    return Playback(port, FORMAT, 4_800), port


def test_frames_of_any_size_are_played_20_ms_at_a_time_and_silence_fills_the_rest() -> None:
    played, port = playback()
    port.write(loud(1, 1_000))
    port.write(loud(2, 1_000))

    assert [played.next_frame() for _ in range(4)] == [
        loud(1),
        loud(1, 40) + loud(2, 920),
        loud(2, 80) + bytes(880),
        SILENCE,
    ]
    assert played.played_bytes == 2_000
    assert played.underruns == 1


def test_a_clear_drops_the_queue_and_what_was_read_and_says_how_much() -> None:
    played, port = playback()
    for number in range(1, 8):
        port.write(loud(number))
    assert played.next_frame() == loud(1)

    assert played.clear(3) == Loss(6, 6 * FRAME, 120_000)
    assert played.epoch == 3
    assert played.next_frame() == SILENCE
    port.write(loud(9))
    assert played.next_frame() == loud(9)


def test_a_clear_by_another_hand_reaches_what_was_read_already() -> None:
    played, port = playback()
    for number in range(1, 4):
        port.write(loud(number))
    played.next_frame()
    port.clear(1)  # as the output pipeline does, in the ring itself

    assert played.next_frame() == SILENCE
    assert played.epoch == 1


def test_suppressed_output_is_thrown_away_and_starts_afresh() -> None:
    played, port = playback()
    port.write(loud(1))
    port.write(loud(2))
    played.next_frame()
    played.suppress(True)
    port.write(loud(3))
    assert [played.next_frame() for _ in range(2)] == [SILENCE] * 2

    played.suppress(False)
    port.write(loud(4))
    assert played.next_frame() == loud(4)


def test_evidence_gives_the_latest_range_of_each_stage_twice_a_second() -> None:
    played, port = playback()
    found = []
    for tick in range(1, 2 * OBSERVE_EVERY_TICKS + 1):
        if tick <= 30:
            port.write(loud())
        if tick == 20:
            port.write(loud())
        played.next_frame()
        found.append(played.observations())

    first, second = found[OBSERVE_EVERY_TICKS - 1], found[-1]
    assert sum(len(items) for items in found) == 3
    common = {"stream": "output", "epoch": 0}
    assert first == [
        {**common, "first_sample": 0, "last_sample": 11_999, "stage": "handed_off", "evidence": "handoff"},
        {**common, "first_sample": 12_000, "last_sample": 12_479, "stage": "queued", "evidence": "queue"},
    ]
    assert second == [
        {**common, "first_sample": 12_000, "last_sample": 14_879, "stage": "handed_off", "evidence": "handoff"}
    ]
