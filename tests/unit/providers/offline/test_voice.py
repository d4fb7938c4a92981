"""The real engine end to end, as fast as the machine allows: a synthesized caller, real recognition, real speech."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest

pytest.importorskip("pocketsphinx", reason="needs the extra offline")
pytest.importorskip("espeakng_loader", reason="needs the extra offline")

from parlora.providers.offline.espeak import ESpeak
from parlora.providers.offline.grammar import Grammar
from parlora.providers.offline.happenings import (
    AssistantSaid,
    AssistantStopped,
    CallerSaid,
    CallerStarted,
    Happening,
)
from parlora.providers.offline.listener import Listener
from parlora.providers.offline.recognizer import GrammarRecognizer
from parlora.providers.offline.samples import FRAME_BYTES, FRAME_SAMPLES
from parlora.providers.offline.vad import WebRtcVoiceActivity
from parlora.providers.offline.voice import OfflineVoice
from parlora.testing.caller import CallerVoice

MS_BYTES = 48
LOUD = 50  # of 32,768: a sample above this is heard

RULES = """
<digit> = zero | oh | one | two | three | four | five | six | seven | eight | nine;
<number> = <digit> <digit> <digit>;
<ask> = check | what is the status of | what items are in | where is | cancel | actually check | no i meant;
<user> = [uh | okay] ( <ask> [the | my] order [number] <number> | yes | no | cancel | help | thank you
       | what items are in that order | where is my order | repeat that ) [please];
"""

ORDERS = [
    "what is the status of order one two four",
    "actually check order one two three",
    "what items are in order eight two five",
    "cancel order number nine zero seven, please",
    "what items are in that order",
    "no",
]
UNKNOWN = [
    "what is the weather in london",
    "turn on the kitchen lights",
    "i would like a pizza with extra cheese",
    "please call my brother tomorrow",
]


@pytest.fixture(scope="module")
def caller() -> CallerVoice:
    return CallerVoice()


@pytest.fixture(scope="module")
def synthesizer() -> ESpeak:
    return ESpeak()


@pytest.fixture
def voice() -> OfflineVoice:
    return OfflineVoice(Listener(GrammarRecognizer(Grammar.parse(RULES)), WebRtcVoiceActivity()))


def frames(audio: bytes) -> Iterator[bytes]:
    for start in range(0, len(audio) - FRAME_BYTES + 1, FRAME_BYTES):
        yield audio[start : start + FRAME_BYTES]


def call(voice: OfflineVoice, synthesizer: ESpeak, audio: bytes) -> tuple[list[Happening], bytes]:
    """Play `audio` to the voice; what happened, and what it played meanwhile."""
    happened: list[Happening] = []
    played = []
    for frame in frames(audio):
        happened += voice.feed(frame)
        while phrase := voice.wanted():
            voice.supply(phrase, synthesizer.speak(phrase.text))
        played.append(voice.take(FRAME_SAMPLES))
        happened += voice.poll()
    return happened, b"".join(played)


def line(caller: CallerVoice, *sentences: str, pause_ms: int = 1_000) -> bytes:
    """A caller's side: the sentences with pauses around them."""
    parts = [caller.noise(500)]
    for sentence in sentences:
        parts += [caller.say(sentence), caller.noise(pause_ms)]
    return b"".join(parts)


def said(happened: Sequence[Happening]) -> list[str]:
    return [item.text for item in happened if isinstance(item, CallerSaid)]


def first_loud_ms(audio: bytes) -> int:
    return int(np.flatnonzero(np.abs(np.frombuffer(audio, "<i2")) > 300)[0]) // 24


def test_orders_are_recognized_from_the_first_utterance_on(
    voice: OfflineVoice, synthesizer: ESpeak, caller: CallerVoice
) -> None:
    happened, played = call(voice, synthesizer, line(caller, *ORDERS))

    assert said(happened) == [sentence.replace(",", "") for sentence in ORDERS]
    assert not any(played)


def test_unknown_speech_is_rejected_and_not_taken_for_an_order(
    voice: OfflineVoice, synthesizer: ESpeak, caller: CallerVoice
) -> None:
    happened, _ = call(voice, synthesizer, line(caller, *UNKNOWN))

    assert said(happened) == [""] * len(UNKNOWN)


def test_times_are_counted_in_samples_and_repeat(synthesizer: ESpeak, caller: CallerVoice) -> None:
    audio = line(caller, "check order one two three")
    onset_ms = first_loud_ms(audio)
    runs = []
    for _ in range(2):
        voice = OfflineVoice(Listener(GrammarRecognizer(Grammar.parse(RULES)), WebRtcVoiceActivity()))
        runs.append(call(voice, synthesizer, audio)[0])

    assert runs[0] == runs[1]
    started = next(item for item in runs[0] if isinstance(item, CallerStarted))
    assert abs(started.start_ms - onset_ms) <= 80
    heard = next(item for item in runs[0] if isinstance(item, CallerSaid))
    assert heard.start_ms == started.start_ms
    assert heard.end_ms < heard.at_ms <= heard.end_ms + 620


def test_the_callers_speech_cuts_the_assistants_within_100_ms(
    voice: OfflineVoice, synthesizer: ESpeak, caller: CallerVoice
) -> None:
    text = "Order one two three contains two lamps, one chair, three books and a very long list of other things."
    voice.say(text)
    quiet, interruption = caller.noise(1_500), caller.say("where is my order")
    happened, played = call(voice, synthesizer, quiet + interruption + caller.noise(1_000))

    detected = next(item for item in happened if isinstance(item, CallerStarted))
    loud = np.flatnonzero(np.abs(np.frombuffer(played, "<i2")) > LOUD) // 24
    assert loud[0] < 200
    assert detected.at_ms - 200 < loud[-1] <= detected.at_ms + 100
    cut = next(item for item in happened if isinstance(item, AssistantSaid))
    assert cut.cut
    assert 0 < len(cut.text) < len(text)
    assert text.startswith(cut.text)
    assert AssistantStopped(cut.end_ms, interrupted=True) in happened
    assert said(happened) == ["where is my order"]


def test_a_whole_turn_goes_both_ways(voice: OfflineVoice, synthesizer: ESpeak, caller: CallerVoice) -> None:
    asked, _ = call(voice, synthesizer, line(caller, "check order one two three"))
    voice.say("Order one two three has shipped. It arrives on Friday.")
    answered, played = call(voice, synthesizer, caller.noise(6_000))

    assert said(asked) == ["check order one two three"]
    spoken = [item for item in answered if isinstance(item, AssistantSaid)]
    assert [item.text for item in spoken] == ["Order one two three has shipped.", "It arrives on Friday."]
    assert not any(item.cut for item in spoken)
    assert said(answered) == []
    assert len(played) == 6_000 * MS_BYTES
    listener = OfflineVoice(
        Listener(
            GrammarRecognizer(
                Grammar.parse("<user> = order one two three has shipped | order one two four has shipped;")
            ),
            WebRtcVoiceActivity(),
        )
    )
    noisy = np.frombuffer(played, "<i2") + np.frombuffer(caller.noise(6_000), "<i2")
    heard, _ = call(listener, synthesizer, noisy.tobytes())
    assert said(heard)[0] == "order one two three has shipped"


def test_the_noise_of_a_quiet_line_is_no_speech_even_at_first(
    voice: OfflineVoice, synthesizer: ESpeak, caller: CallerVoice
) -> None:
    happened, _ = call(voice, synthesizer, caller.noise(3_000))

    assert happened == []
