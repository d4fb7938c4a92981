"""The Grok codec against the documented fields: what is sent, continuations and startup."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextKind, ContextUpdate, DelegationOutcome
from parlora.errors import Conflict
from parlora.providers.cloud.said import Ignored, Refused, Started
from parlora.providers.grok import commands
from tests.unit.providers.grok import grok_oracle as oracle
from tests.unit.providers.grok.grok_conversation import (
    HISTORY,
    PCM,
    PCMU,
    SESSION,
    STARTUP_MS,
    TEXT,
    called,
    created,
    done,
    error,
    fresh,
    sent,
    server,
    sounds,
    speech,
    started,
    types,
)

# ---- what we send


@pytest.mark.row("GK-02")
@pytest.mark.parametrize(("format", "name", "rate"), [(PCM, "audio/pcm", 24_000), (PCMU, "audio/pcmu", 8_000)])
def test_the_configuration_names_the_sessions_own_format_both_ways(format: AudioFormat, name: str, rate: int) -> None:
    (update,) = sent(fresh(format).opening())
    audio = update["session"]["audio"]
    assert audio["input"]["format"] == audio["output"]["format"] == {"type": name, "rate": rate}
    assert update["session"]["turn_detection"]["type"] == "server_vad"


@given(
    HISTORY,
    st.none() | st.sampled_from(["eve", "ara"]),
    st.none() | st.sampled_from(["high", "none"]),
    st.none() | st.floats(0.1, 0.9),
    st.none() | st.integers(0, 10_000),
)
def test_every_configuration_and_history_is_one_the_vendor_documents(
    history: list[dict[str, str]], voice: str | None, effort: str | None, threshold: float | None, ms: int | None
) -> None:
    more = {"threshold": threshold, "silence_duration_ms": ms, "prefix_padding_ms": ms}
    codec = fresh(history=history, voice=voice, reasoning_effort=effort, language="en", **more)
    (update,) = sent(codec.opening())
    assert update["session"]["instructions"] == "be brief"
    first = codec.receive(server("session.updated", session=SESSION))
    items = [item for said in first[:-1] for item in sent(said.messages)]
    assert [item["item"]["content"][0]["text"] for item in items] == [entry["text"] for entry in history]
    assert isinstance(first[-1], Started)


@given(st.binary(min_size=2, max_size=4_000))
def test_audio_goes_out_unchanged(data: bytes) -> None:
    message = oracle.check_client(fresh().audio(data))
    assert base64.b64decode(message["audio"]) == data


@pytest.mark.row("GK-03")
@given(TEXT)
def test_a_speakable_text_is_a_message_and_a_continuation(text: str) -> None:
    item, create = sent(started().append(ContextUpdate(ContextKind.SPEAKABLE, text), "a"))
    assert item["item"]["content"][0]["text"] == commands.NOTE + text
    assert create["type"] == "response.create"


@pytest.mark.row("GK-12", "GK-01")
def test_a_call_stays_open_while_its_response_is_spoken_and_ended_and_is_answered_once() -> None:
    codec = started()
    created(codec, "r1")
    sounds(codec, "r1")
    called(codec, "c1")
    assert [said.type for said in done(codec, "r1")] == ["provider_speech"]
    output, create = sent(codec.append(ContextUpdate(ContextKind.SPEAKABLE, "ready", "c1"), "a"))
    assert output["item"] == {"type": "function_call_output", "call_id": "c1", "output": "ready"}
    assert create["type"] == "response.create"
    (again,) = sent(codec.append(ContextUpdate(ContextKind.SPEAKABLE, "more", "c1"), "b"))
    assert again["item"]["type"] == "message"  # one call has one answer, and one continuation is on its way
    with pytest.raises(Conflict):
        codec.append(ContextUpdate(ContextKind.SPEAKABLE, "x", "never"), "c")


@pytest.mark.row("GK-01")
@pytest.mark.parametrize("outcome", list(DelegationOutcome))
def test_a_delegation_without_words_is_answered_without_a_continuation(outcome: DelegationOutcome) -> None:
    codec = started()
    called(codec, "c1")
    (output,) = sent(codec.resolve("c1", outcome))
    assert json.loads(output["item"]["output"])
    assert codec.resolve("c1", outcome) == ()
    assert codec.resolve("never", outcome) == ()


# ---- continuations


def test_a_continuation_waits_for_the_response_and_the_caller_and_several_are_one() -> None:
    codec = started()
    created(codec, "r1")
    for _ in range(2):
        assert types(codec.append(ContextUpdate(ContextKind.SPEAKABLE, "x"), "a")) == ["conversation.item.create"]
    speech(codec, "speech_started", "u1")
    done(codec, "r1", "cancelled")
    assert codec.due(0) == []
    speech(codec, "speech_stopped", "u1")
    (send,) = codec.due(100_000)
    assert types(send.messages) == ["response.create"]
    assert codec.due(200_000) == []
    created(codec, "r2")
    assert done(codec, "r2") == []


@pytest.mark.row("GK-06")
def test_a_continuation_that_creates_no_response_ends_the_call_at_the_startup_limit() -> None:
    codec = started()
    codec.append(ContextUpdate(ContextKind.SPEAKABLE, "x"), "a")
    assert codec.due(0) == []
    codec.receive(server("ping", timestamp=1))
    speech(codec, "speech_stopped", "u1")  # whatever else is said
    assert codec.due(STARTUP_MS * 1_000 - 1) == []
    assert [(type(said), said.code) for said in codec.due(STARTUP_MS * 1_000)] == [(Refused, "timeout")]


@pytest.mark.row("GK-06")
def test_no_deadline_runs_once_the_response_is_created() -> None:
    codec = started()
    codec.append(ContextUpdate(ContextKind.SPEAKABLE, "x"), "a")
    codec.due(0)
    created(codec, "r1")
    assert codec.due(10 * STARTUP_MS * 1_000) == []


def test_a_response_of_the_services_own_that_came_first_is_waited_for_and_asked_again() -> None:
    codec = started()
    _, create = sent(codec.append(ContextUpdate(ContextKind.SPEAKABLE, "x"), "a"))
    created(codec, "r1")
    busy = "conversation_already_has_active_response"
    assert error(codec, busy, event_id=create["event_id"]) == [Ignored("error")]
    (send,) = done(codec, "r1")
    assert types(send.messages) == ["response.create"]


def test_a_response_whose_end_was_lost_holds_a_continuation_up_no_longer_than_the_startup_limit() -> None:
    codec = started()
    created(codec, "r1")
    codec.append(ContextUpdate(ContextKind.SPEAKABLE, "x"), "a")
    assert codec.due(0) == []
    sounds(codec, "r1")
    assert codec.due(STARTUP_MS * 1_000) == []  # it went on: the wait begins anew
    (send,) = codec.due(2 * STARTUP_MS * 1_000)
    assert types(send.messages) == ["response.create"]


# ---- startup


@pytest.mark.row("GK-05")
def test_only_the_updated_configuration_is_readiness_whatever_comes_first() -> None:
    for first in (
        (),
        (server("session.created", session={"id": "s", "object": "realtime.session"}),),
        (server("conversation.created", conversation={"id": "c", "object": "realtime.conversation"}),),
    ):
        codec = fresh()
        for message in first:
            assert [type(said) for said in codec.receive(message)] == [Ignored]
        assert sounds(codec, "r0") == [Ignored("response.output_audio.delta")]
        (said,) = codec.receive(server("session.updated", session=SESSION))
        assert said == Started({"id": "s1", "model": "grok-voice-3.0", "voice": "eve"})
        assert [type(said) for said in codec.receive(server("session.updated", session=SESSION))] == [Ignored]


def test_an_error_refuses_the_start() -> None:
    assert error(fresh(), "invalid_audio_format", "bad rate") == [Refused("invalid_audio_format", "bad rate")]
