"""The dialogue on virtual time, with scripted hearing and speaking: what is told, and when something is said."""

from typing import Any

import pytest

from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.providers.offline.dialogue import MAX_WAITING_TEXTS, Dialogue, Emission
from parlora.providers.offline.listener import Listener
from parlora.providers.offline.samples import FRAME_BYTES, FRAME_SAMPLES
from parlora.providers.offline.voice import OfflineVoice
from tests.unit.providers.offline.scripted import ScriptedActivity, ScriptedRecognizer, one_word_per_100_ms

REPROMPT = "Sorry?"
SPEECH = "xxxxxxxxxx"  # 200 ms
QUIET = "." * 10


class Scene:
    """A dialogue driven frame by frame."""

    def __init__(self, script: str = "", text: str = "yes", greeting: str | None = None) -> None:
        self.recognizer = ScriptedRecognizer(text)
        numbers = iter(range(1, 1_000))
        self.dialogue = Dialogue(
            OfflineVoice(Listener(self.recognizer, ScriptedActivity(script))),
            lambda: f"id-{next(numbers)}",
            reprompt=REPROMPT,
            greeting=greeting,
        )
        self.emissions: list[Emission] = []
        self.loud_frames: list[int] = []
        self.frame = 0

    def run(self, frames: int) -> "Scene":
        for _ in range(frames):
            self.dialogue.hear(bytes(FRAME_BYTES))
            while phrase := self.dialogue.wanted():
                self.dialogue.supply(phrase, one_word_per_100_ms(phrase.text))
            if self.dialogue.audible and any(self.dialogue.take(FRAME_SAMPLES)):
                self.loud_frames.append(self.frame)
            self.emissions += self.dialogue.poll()
            self.frame += 1
        return self

    def say(self, text: str, command_id: str = "c") -> None:
        self.dialogue.append(ContextUpdate(ContextKind.SPEAKABLE, text), command_id)

    def of(self, type: str) -> list[dict[str, Any]]:
        return [item.payload for item in self.emissions if item.type == type]

    def spoken(self) -> list[str]:
        return [entry["delta"] for entry in self.of("transcript_delta") if entry["speaker"] == "assistant"]


def test_a_recognized_utterance_is_a_transcript_with_times_and_one_delegation() -> None:
    scene = Scene(QUIET + SPEECH).run(60)

    assert scene.of("transcript_delta") == [{"speaker": "user", "delta": "yes", "start_ms": 180, "end_ms": 400}]
    assert scene.of("delegation_requested") == [{"delegation_id": "id-1", "target": "client", "offset_ms": 400}]
    assert scene.spoken() == []


def test_unknown_speech_is_answered_once_and_delegates_nothing() -> None:
    scene = Scene(QUIET + SPEECH, text="").run(100)

    assert scene.of("delegation_requested") == []
    assert scene.of("transcript_delta") == [{"speaker": "assistant", "delta": REPROMPT, "start_ms": 760, "end_ms": 860}]
    assert scene.of("extension") == [{"name": "speech_rejected", "start_ms": 180, "end_ms": 400}]


def test_speakable_text_is_spoken_in_order_and_reported() -> None:
    scene = Scene()
    scene.run(5)
    scene.say("Order 124 it is.", "first")
    scene.say("Fine.", "second")
    scene.run(60)

    assert [item.command_id for item in scene.emissions if item.type == "context_acknowledged"] == ["first", "second"]
    assert scene.spoken() == ["Order one two four it is.", "Fine."]
    assert scene.of("provider_speech") == [{"status": status} for status in ("speaking", "idle") * 2]
    first = scene.of("transcript_delta")[0]
    assert (first["start_ms"], first["end_ms"]) == (120, 120 + 600)


def test_text_that_comes_while_the_caller_speaks_waits_for_silence() -> None:
    scene = Scene(SPEECH)
    scene.run(5)
    scene.say("Later.")
    scene.run(22)
    assert scene.loud_frames == []

    scene.run(20)
    assert scene.spoken() == ["Later."]
    assert min(scene.loud_frames) == 10 + 18 - 1  # 360 ms after the caller's last word


def test_the_callers_speech_cuts_at_once_and_names_a_barrier() -> None:
    scene = Scene("." * 20 + SPEECH)
    scene.run(1)
    scene.say("one two three four five six seven.")
    scene.run(60)

    assert max(scene.loud_frames) <= 22  # detected in frame 22: its fade is the last sound
    order = [item.type for item in scene.emissions if item.payload.get("status") != "speaking"]
    assert order[1:4] == ["output_interrupted", "transcript_delta", "provider_speech"] or order[1:4] == [
        "output_interrupted",
        "provider_speech",
        "transcript_delta",
    ]
    cut = scene.of("transcript_delta")[0]
    assert cut["truncated"]
    assert cut["delta"] == "one two three four five"
    assert scene.of("output_interrupted") == [{"token": "id-1"}]


def test_texts_that_had_not_begun_are_spoken_after_the_interruption() -> None:
    scene = Scene("." * 20 + SPEECH)
    scene.run(1)
    scene.say("one two three four five six seven.")
    scene.say("The answer.")
    scene.run(100)

    assert scene.spoken() == ["one two three four five", "The answer."]


def test_a_noise_only_pauses_the_sentence_it_cut() -> None:
    scene = Scene("." * 20 + "xxx", text="")
    scene.run(1)
    scene.say("one two three four five six seven.")
    scene.run(120)

    assert scene.spoken() == ["one two three four five", "one two three four five six seven."]
    assert scene.of("extension") == []


@pytest.mark.parametrize(("resumed", "first_frame"), [(True, 45), (False, 77)])
def test_nothing_is_said_until_the_barrier_is_over_or_will_not_be(resumed: bool, first_frame: int) -> None:
    scene = Scene("." * 20 + "xxx", text="")
    scene.run(1)
    scene.say("one two three four five six seven.")
    scene.run(44)  # the cut came in frame 22, the noise was over for the listener in frame 40
    if resumed:
        scene.dialogue.resume("another")
        scene.dialogue.resume(scene.of("output_interrupted")[0]["token"])
    scene.run(40)

    assert min(frame for frame in scene.loud_frames if frame > 22) == first_frame


def test_a_clear_stops_what_is_said_and_keeps_what_waits() -> None:
    scene = Scene()
    scene.run(1)
    scene.say("one two three four five six seven.")
    scene.say("The answer.")
    scene.run(10)
    scene.dialogue.clear()
    scene.run(40)

    assert scene.spoken() == ["one two", "The answer."]
    assert scene.of("output_interrupted") == []


def test_a_muted_input_is_silence() -> None:
    scene = Scene()
    heard: list[bytes] = []
    scene.dialogue._voice.feed = lambda frame: heard.append(frame) or []  # type: ignore[method-assign,func-returns-value]
    loud = b"\x11" * FRAME_BYTES
    scene.dialogue.mute(True, "m1")
    scene.dialogue.hear(loud)
    scene.dialogue.mute(False, "m2")
    scene.dialogue.hear(loud)

    assert heard == [bytes(FRAME_BYTES), loud]
    completed = [(item.command_id, item.payload["on"]) for item in scene.dialogue.poll()]
    assert completed == [("m1", True), ("m2", False)]


def test_too_many_waiting_texts_are_rejected_with_the_bound() -> None:
    scene = Scene(SPEECH)
    scene.run(5)
    for number in range(MAX_WAITING_TEXTS + 1):
        scene.say("Text.", f"c{number}")
    rejected = [item for item in scene.dialogue.poll() if item.type == "context_rejected"]

    assert [item.command_id for item in rejected] == [f"c{MAX_WAITING_TEXTS}"]
    assert rejected[0].payload["error"]["code"] == "backpressure"
    assert rejected[0].payload["error"]["details"] == {"most": MAX_WAITING_TEXTS}


@pytest.mark.parametrize("kind", [ContextKind.QUIET, ContextKind.INSTRUCTION])
def test_quiet_and_instruction_are_kept_acknowledged_and_not_spoken(kind: ContextKind) -> None:
    scene = Scene()
    update = ContextUpdate(kind, "The caller is a regular.")
    scene.dialogue.append(update, "c1")
    scene.run(40)

    assert scene.dialogue.context == (update,)
    assert [item.command_id for item in scene.emissions] == ["c1"]
    assert scene.loud_frames == []


def test_the_greeting_waits_for_the_callers_audio() -> None:
    scene = Scene(greeting="Hello.")
    assert scene.dialogue.wanted() is None

    assert scene.run(20).spoken() == ["Hello."]


def test_usage_is_cumulative_seconds() -> None:
    scene = Scene()
    scene.run(1)
    scene.say("one two three.")
    scene.run(999)

    expected = [{"seconds": seconds, "speech_seconds": 0.3, "final": False} for seconds in (10.0, 20.0)]
    assert scene.of("usage_updated") == expected
    assert scene.dialogue.usage(final=True) == {"seconds": 20.0, "speech_seconds": 0.3, "final": True}
