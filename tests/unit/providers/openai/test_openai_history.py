"""What a fresh transport is told of the call."""

from hypothesis import given
from hypothesis import strategies as st

from parlora.audio.format import AudioFormat
from parlora.providers.openai import commands
from parlora.providers.openai.session import HISTORY_TOKENS, history_of

CAPTIONS = st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=400)), max_size=200)


def caption(speaker: str, delta: str) -> dict[str, str]:
    return {"speaker": speaker, "delta": delta}


@given(CAPTIONS)
def test_the_history_is_the_newest_that_the_service_takes_in_order(captions: list[tuple[str, str]]) -> None:
    history = history_of((), [caption(*entry) for entry in reversed(captions)])
    commands.start(commands.StartOptions(), AudioFormat(), None, history, "e")  # raises for what would be refused
    whole = "".join(text for _, text in captions)
    told = "".join(message["text"] for message in history)
    assert len(told.encode()) <= HISTORY_TOKENS * 4
    if history:
        assert history[-1]["text"] in whole


def test_fragments_of_one_speaker_are_one_message_after_the_startup_history() -> None:
    earlier = ({"speaker": "developer", "text": "be brief"},)
    captions = [caption("user", "where is"), caption("user", " my order"), caption("assistant", "one moment")]
    assert history_of(earlier, captions[::-1]) == [
        {"speaker": "developer", "text": "be brief"},
        {"speaker": "user", "text": "where is my order"},
        {"speaker": "assistant", "text": "one moment"},
    ]


def test_what_is_too_long_loses_its_beginning() -> None:
    captions = [caption("user" if n % 2 else "assistant", f"{n} " + "x" * 1_000) for n in range(100)]
    history = history_of((), captions[::-1])
    assert 0 < len(history) < 100
    assert history[-1]["text"].startswith("99 ")
