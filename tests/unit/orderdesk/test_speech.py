"""The caller's sentences and the desk's answers survive synthesis and recognition, word for word."""

from collections.abc import Iterator

import pytest

pytest.importorskip("pocketsphinx", reason="needs the extra offline")
pytest.importorskip("espeakng_loader", reason="needs the extra offline")

from parlora.orderdesk.demo_script import SCRIPT
from parlora.orderdesk.evidence import Statement, statements
from parlora.orderdesk.grammar import CALLER, QUESTION, REPROMPT, desk, words
from parlora.orderdesk.orders import ORDERS, Operation, not_found
from parlora.providers.offline.espeak import ESpeak
from parlora.providers.offline.grammar import Grammar
from parlora.providers.offline.happenings import CallerSaid
from parlora.providers.offline.listener import Listener
from parlora.providers.offline.recognizer import GrammarRecognizer
from parlora.providers.offline.samples import FRAME_BYTES
from parlora.providers.offline.vad import WebRtcVoiceActivity
from parlora.testing.caller import CallerVoice

CALLER_SAYS = [
    *(line.text for line in SCRIPT),
    "what items are in order eight two five",
    "where is order one two four please",
    "no i meant order eight two five",
    "i meant another order",
    "one two three",
    "what are the delivery instructions for order one two four",
    "are you there",
]


def hear(recognizer: GrammarRecognizer, audio: bytes) -> list[str]:
    listener = Listener(recognizer, WebRtcVoiceActivity())
    happened = [item for frame in _frames(audio) for item in listener.feed(frame)]
    happened += listener.finish()
    return [item.text for item in happened if isinstance(item, CallerSaid)]


def _frames(audio: bytes) -> Iterator[bytes]:
    for start in range(0, len(audio) - FRAME_BYTES + 1, FRAME_BYTES):
        yield audio[start : start + FRAME_BYTES]


@pytest.fixture(scope="module")
def caller() -> CallerVoice:
    return CallerVoice()


@pytest.fixture(scope="module")
def ears() -> GrammarRecognizer:
    return GrammarRecognizer(Grammar.parse(CALLER))


@pytest.fixture(scope="module")
def judge() -> GrammarRecognizer:
    """As the demonstration hears its own recording: nothing is rejected."""
    return GrammarRecognizer(Grammar.parse(desk()), reject_below=None)


@pytest.mark.parametrize("sentence", CALLER_SAYS)
def test_the_caller_is_understood(caller: CallerVoice, ears: GrammarRecognizer, sentence: str) -> None:
    audio = caller.noise(500) + caller.say(sentence) + caller.noise(1_000)

    assert hear(ears, audio) == [sentence]


@pytest.mark.parametrize("operation", list(Operation))
@pytest.mark.parametrize("number", sorted(ORDERS))
def test_what_the_desk_says_can_be_proven(
    caller: CallerVoice, judge: GrammarRecognizer, number: str, operation: Operation
) -> None:
    sentence = ORDERS[number].sentence(operation)
    said = ESpeak().speak(sentence).audio.tobytes()
    whole = hear(judge, caller.noise(500) + said + caller.noise(1_000))
    cut = hear(judge, caller.noise(500) + said[: len(said) // 960 * 480] + caller.noise(1_000))

    assert whole == [words(sentence)]
    assert statements(whole[0]) == [Statement(number, operation, number)]
    assert [statement for text in cut for statement in statements(text)] == []


@pytest.mark.parametrize("text", [not_found("789"), REPROMPT, *QUESTION.split("? ")])
def test_what_is_no_fact_states_none(caller: CallerVoice, judge: GrammarRecognizer, text: str) -> None:
    heard = hear(judge, caller.noise(500) + ESpeak().speak(text).audio.tobytes() + caller.noise(1_000))

    assert heard == [words(text)]
    assert statements(heard[0]) == []
