"""The proof of what was said hears what was really said, and would hear what should not have been."""

from __future__ import annotations

from pathlib import Path

import pytest

from parlora.orderdesk.evidence import statements
from parlora.orderdesk.orders import ORDERS, Operation
from parlora.providers.offline.espeak import ESpeak
from parlora.testing.caller import write_wav
from parlora_actors.demo_proof import hear, judge_recording, write_stereo

STATUS_123 = ORDERS["123"].sentence(Operation.STATUS)
ITEMS_123 = ORDERS["123"].sentence(Operation.ITEMS)
STATUS_124 = ORDERS["124"].sentence(Operation.STATUS)


def record(path: Path, *sentences: str, pause_ms: int) -> Path:
    voice = ESpeak()
    pause = bytes(48 * pause_ms)
    audio = pause.join(voice.speak(sentence).audio.astype("<i2").tobytes() for sentence in sentences)
    write_wav(path, bytes(48_000) + audio + bytes(48_000))
    return path


def said(path: Path) -> list[tuple[str, str]]:
    return [(each.number, str(each.operation)) for heard in hear(path) for each in statements(heard.text)]


def test_every_fact_of_every_order_is_heard_as_itself(tmp_path: Path) -> None:
    facts = [(number, str(operation)) for number in ORDERS for operation in Operation]
    sentences = [ORDERS[number].sentence(Operation(operation)) for number, operation in facts]
    assert said(record(tmp_path / "all.wav", *sentences, pause_ms=900)) == facts


@pytest.mark.parametrize("pause_ms", [0, 100, 300, 500, 900])
def test_a_stale_answer_right_behind_another_one_is_heard(tmp_path: Path, pause_ms: int) -> None:
    path = record(tmp_path / "two.wav", STATUS_123, STATUS_124, ITEMS_123, pause_ms=pause_ms)
    assert said(path) == [("123", "status"), ("124", "status"), ("123", "items")]
    verdict = judge_recording(hear(path))
    assert [each.number for each in verdict.stale] == ["124"]


def test_the_good_answers_alone_are_judged_good(tmp_path: Path) -> None:
    verdict = judge_recording(hear(record(tmp_path / "good.wav", STATUS_123, ITEMS_123, pause_ms=800)))
    assert verdict.ok


def test_both_sides_go_into_one_stereo_file_sample_for_sample(tmp_path: Path) -> None:
    import wave

    write_wav(tmp_path / "left.wav", b"\x01\x00" * 100)
    write_wav(tmp_path / "right.wav", b"\x02\x00" * 50)
    write_stereo(tmp_path / "left.wav", tmp_path / "right.wav", tmp_path / "both.wav")
    with wave.open(str(tmp_path / "both.wav"), "rb") as file:
        assert (file.getnchannels(), file.getframerate(), file.getnframes()) == (2, 24_000, 100)
        assert file.readframes(50) == b"\x01\x00\x02\x00" * 50
        assert file.readframes(50) == b"\x01\x00\x00\x00" * 50
