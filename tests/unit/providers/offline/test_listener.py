"""The hearing half on virtual time, with scripted detectors: when an utterance starts, ends and counts."""

import pytest

from parlora.errors import InvalidArgument
from parlora.providers.offline.happenings import CallerSaid, CallerStarted, CallerStopped, Happening
from parlora.providers.offline.listener import FRAMES_PER_TURN, PREROLL_FRAMES, Endpoint, Listener
from parlora.providers.offline.samples import FRAME_BYTES
from tests.unit.providers.offline.scripted import ScriptedActivity, ScriptedRecognizer

FRAME = bytes(FRAME_BYTES)


def run(script: str, recognizer: ScriptedRecognizer, frames: int) -> list[Happening]:
    listener = Listener(recognizer, ScriptedActivity(script))
    happened: list[Happening] = []
    for _ in range(frames):
        before = recognizer.fed
        happened += listener.feed(FRAME)
        if listener.caller_speaking:
            recognizer.most_per_turn = max(recognizer.most_per_turn, recognizer.fed - before)
    return happened


def test_three_of_four_frames_start_an_utterance_and_360_ms_end_a_whole_one() -> None:
    happened = run("." * 20 + "x.xx" + "x" * 10, ScriptedRecognizer(), 100)

    assert [
        CallerStarted(480, 400),
        CallerStopped(680 + 360, 400, 680),
        CallerSaid(680 + 360, 400, 680, "yes", -1.0),
    ] == happened


def test_an_unfinished_sentence_is_given_600_ms() -> None:
    happened = run("x" * 20, ScriptedRecognizer(whole=False), 100)

    assert CallerStopped(400 + 600, 0, 400) in happened


def test_two_frames_of_speech_are_no_utterance() -> None:
    assert run("..xx..x..x", ScriptedRecognizer(), 60) == []


def test_a_short_unknown_noise_is_no_utterance_and_a_longer_one_is_unknown_speech() -> None:
    short = run("xxx", ScriptedRecognizer(text=""), 60)
    longer = run("xxxxx", ScriptedRecognizer(text=""), 60)

    assert [CallerStarted, CallerStopped] == [type(item) for item in short]
    assert next(item for item in longer if isinstance(item, CallerSaid)).text == ""


def test_the_preroll_is_heard_and_spread_over_turns() -> None:
    recognizer = ScriptedRecognizer()
    run("." * 40 + "x" * 20, recognizer, 100)

    assert recognizer.most_per_turn <= FRAMES_PER_TURN
    assert PREROLL_FRAMES + 17 + Endpoint().whole == recognizer.fed


def test_endless_speech_is_cut_at_the_longest_utterance() -> None:
    happened = run("x" * 3_000, ScriptedRecognizer(), 1_100)

    assert CallerStopped(20_060, 0, 20_060) in happened


def test_the_end_of_the_stream_closes_an_open_utterance() -> None:
    listener = Listener(ScriptedRecognizer(), ScriptedActivity("x" * 10))
    for _ in range(12):
        listener.feed(FRAME)

    assert CallerSaid(240, 0, 200, "yes", -1.0) in listener.finish()
    assert listener.finish() == []


def test_a_frame_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="960 bytes"):
        Listener(ScriptedRecognizer(), ScriptedActivity("")).feed(bytes(100))
