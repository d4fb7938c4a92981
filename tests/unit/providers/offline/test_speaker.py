"""The speaking half on virtual time: exact counts, cuts and truthful transcripts."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from parlora.providers.offline.happenings import AssistantSaid, AssistantStarted, AssistantStopped
from parlora.providers.offline.speaker import FADE_SAMPLES, PHRASES_AHEAD, Phrase, Speaker
from parlora.providers.offline.synthesizer import Speech
from tests.unit.providers.offline.scripted import MS, one_word_per_100_ms


def synthesize(speaker: Speaker) -> list[Phrase]:
    done = []
    while phrase := speaker.wanted():
        speaker.supply(phrase, one_word_per_100_ms(phrase.text))
        done.append(phrase)
    return done


def loud(audio: bytes) -> list[int]:
    return np.flatnonzero(np.frombuffer(audio, "<i2")).tolist()


def test_silence_until_the_phrase_is_synthesized_then_speech_and_silence() -> None:
    speaker = Speaker()
    speaker.say("one two")
    phrase = speaker.wanted()
    assert phrase is not None

    assert loud(speaker.take(480)) == []
    assert speaker.wanted() is None
    speaker.supply(phrase, one_word_per_100_ms("one two"))
    assert list(range(200 * MS)) == loud(speaker.take(300 * MS))
    assert [
        AssistantStarted(20),
        AssistantSaid(220, 20, 220, "one two", cut=False),
        AssistantStopped(220, interrupted=False),
    ] == speaker.poll()


def test_interruption_fades_in_5_ms_and_keeps_the_words_begun() -> None:
    speaker = Speaker()
    speaker.say("one two three. four five six.")
    synthesize(speaker)
    speaker.take(150 * MS)

    assert speaker.interrupt() == "one two three. four five six."

    assert max(loud(speaker.take(480))) < FADE_SAMPLES
    assert loud(speaker.take(480)) == []
    assert [
        AssistantStarted(0),
        AssistantSaid(150, 0, 150, "one two", cut=True),
        AssistantStopped(150, interrupted=True),
    ] == speaker.poll()
    assert not speaker.speaking


def test_a_phrase_interrupted_during_synthesis_is_never_heard() -> None:
    speaker = Speaker()
    speaker.say("one")
    late = speaker.wanted()
    assert late is not None
    speaker.interrupt()
    speaker.say("one")
    current = speaker.wanted()

    speaker.supply(late, one_word_per_100_ms("one one one"))
    assert not speaker.audible
    assert current is not None
    speaker.supply(current, one_word_per_100_ms("one"))
    assert len(loud(speaker.take(1_000 * MS))) == 100 * MS


def test_interrupting_silence_does_nothing() -> None:
    speaker = Speaker()

    assert speaker.interrupt() == ""
    assert speaker.poll() == []


def test_only_a_few_phrases_are_synthesized_ahead() -> None:
    speaker = Speaker()
    speaker.say("one. two. three. four.")

    assert len(synthesize(speaker)) == PHRASES_AHEAD


@given(
    st.lists(st.integers(1, 700 * MS), max_size=40), st.lists(st.sampled_from(["one.", "two words.", ""]), max_size=5)
)
def test_every_sample_is_given_once_whatever_the_sizes(sizes: list[int], texts: list[str]) -> None:
    speaker = Speaker()
    expected = 0
    for text in texts:
        speaker.say(text)
        expected += 100 * MS * len(text.split())
    heard = taken = 0
    for size in sizes:
        synthesize(speaker)
        audio = speaker.take(size)
        assert 2 * size == len(audio)
        taken += size
        heard += len(loud(audio))

    assert taken // MS == speaker.now_ms
    assert heard <= expected
    if not speaker.speaking:
        assert expected == heard


def test_a_transcript_without_word_marks_is_cut_by_proportion() -> None:
    speech = Speech(np.zeros(1_000, np.int16))

    assert speech.heard("a b c d", 600) == "a b"
    assert speech.heard("a b c d", 1_000) == "a b c d"
