"""The Grok codec against the documented fields: captions, answers, interruptions, errors, whatever comes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.errors import InvalidArgument
from parlora.events import EventType
from parlora.providers.cloud.said import Audio, Ignored, Interrupted, Observation, Refused, Send
from parlora.providers.grok import captions, continuation, spoken
from parlora.wire import pack
from tests.unit.providers.grok import grok_oracle as oracle
from tests.unit.providers.grok.grok_conversation import (
    PACKET,
    SECOND,
    TEXT,
    called,
    created,
    done,
    error,
    fresh,
    heard,
    part,
    sent,
    server,
    sounds,
    speech,
    started,
    types,
)

# ---- the caller's words


def entries(said: list[Any]) -> list[str]:
    return [each.payload["delta"] for each in said if isinstance(each, Observation)]


@pytest.mark.row("GK-08", "GK-09", "GK-10")
def test_candidates_replace_each_other_and_one_entry_comes_after_the_commit() -> None:
    codec = started()
    speech(codec, "speech_started", "u1")
    assert heard(codec, "updated", "u1", "is my") == []
    assert heard(codec, "completed", "u1", "is my take") == []
    assert heard(codec, "updated", "u1", "is my cake") == []
    speech(codec, "speech_stopped", "u1")
    assert speech(codec, "committed", "u1") == []
    assert heard(codec, "completed", "u1", "is my cake", status="in_progress") == []
    (said,) = heard(codec, "completed", "u1", "is my cake ready", status="completed")
    assert said.payload == {"speaker": "user", "delta": "is my cake ready", "start_ms": None, "end_ms": None}
    for again in ("is my cake ready", "another"):
        assert heard(codec, "completed", "u1", again) == []
    assert codec.due(0) == codec.due(10 * SECOND) == []


@pytest.mark.row("GK-09")
def test_an_item_that_nothing_completes_after_its_commit_is_told_as_it_was_last() -> None:
    codec = started()
    heard(codec, "completed", "u1", "is my cake")
    assert codec.due(0) == codec.due(100 * SECOND) == []  # never before its commit
    speech(codec, "committed", "u1")
    assert codec.due(200 * SECOND) == []
    assert entries(codec.due(200 * SECOND + captions.SETTLE_US)) == ["is my cake"]
    assert codec.due(300 * SECOND) == []


@pytest.mark.row("GK-10")
def test_times_are_those_the_service_gave() -> None:
    codec = started()
    speech(codec, "speech_started", "u1", audio_start_ms=820)
    speech(codec, "speech_started", "u1", audio_start_ms=990)
    speech(codec, "speech_stopped", "u1", audio_end_ms=1_500)
    speech(codec, "committed", "u1")
    (said,) = heard(codec, "completed", "u1", "hello")
    assert (said.payload["start_ms"], said.payload["end_ms"]) == (820, 1_500)


def test_what_the_caller_said_comes_before_the_work_on_it() -> None:
    codec = started()
    heard(codec, "updated", "u1", "is my cake ready")
    speech(codec, "committed", "u1")
    said = called(codec, "c1")
    assert [each.type for each in said] == ["transcript_delta", "delegation_requested"]


@given(st.lists(st.tuples(st.sampled_from(["updated", "completed", "committed"]), st.sampled_from("ab"), TEXT)))
def test_no_item_is_ever_told_twice_or_before_its_commit(steps: list[tuple[str, str, str]]) -> None:
    codec, told, committed, last = started(), [], set(), {}
    for what, item, text in steps:
        if what == "committed":
            committed.add(item)
            said = speech(codec, "committed", item)
        else:
            last.setdefault(item, []).append(text)
            said = heard(codec, what, item, text)
        for entry in entries(said):
            assert item in committed
            assert entry == text
            told.append(item)
    assert len(told) == len(set(told))


# ---- the answer


@pytest.mark.row("GK-11", "GK-01")
def test_an_interruption_is_told_once_and_drops_what_follows_of_its_response_alone() -> None:
    codec = started()
    created(codec, "r1")
    assert sounds(codec, "r1")[-1] == Audio(PACKET)
    called(codec, "c1")
    said = speech(codec, "speech_started", "u1")
    assert [type(each) for each in said] == [Interrupted, Observation]
    assert speech(codec, "speech_started", "u1") == []
    done(codec, "r1", "cancelled")
    assert sounds(codec, "r1") == [Audio(PACKET, dropped_for="output_interrupted")]
    assert codec.receive(part("response.output_audio_transcript.delta", "r1", delta="late")) == []
    assert codec.receive(part("response.output_audio_transcript.done", "r1", transcript="all")) == []
    created(codec, "r2")
    assert sounds(codec, "r2", "m2")[-1] == Audio(PACKET)
    assert entries(codec.receive(part("response.output_audio_transcript.delta", "r2", "m2", delta="new"))) == ["new"]
    # the call of the interrupted response is still the application's
    assert types(codec.append(ContextUpdate(ContextKind.SPEAKABLE, "ready", "c1"), "a"))[0].endswith("item.create")


@pytest.mark.row("GK-07")
def test_a_call_of_an_interrupted_response_is_a_delegation_all_the_same() -> None:
    codec = started()
    created(codec, "r1")
    assert isinstance(speech(codec, "speech_started", "u1")[0], Interrupted)
    assert [each.type for each in called(codec, "c1")] == ["delegation_requested"]


def test_a_response_that_was_generated_but_not_heard_yet_is_interrupted_too_and_silence_is_not() -> None:
    codec = started()
    assert speech(codec, "speech_started", "u0") == []
    created(codec, "r1")
    sounds(codec, "r1")
    done(codec, "r1")
    assert isinstance(speech(codec, "speech_started", "u1")[0], Interrupted)


@pytest.mark.parametrize(
    ("unheard_ms", "active", "cut"),
    [
        (0, False, []),
        (0, True, [("m2", 250)]),
        (100, False, [("m2", 150)]),
        (250, False, [("m2", 0)]),
        (300, False, [("m1", 450), ("m2", 0)]),
        (9_999, True, [("m1", 0), ("m2", 0)]),
    ],
)
def test_the_service_learns_how_much_of_each_item_was_heard(unheard_ms: int, active: bool, cut: Any) -> None:
    codec = started()
    created(codec, "r1")
    sounds(codec, "r1", "m1")
    sounds(codec, "r1", "m1")
    done(codec, "r1")
    created(codec, "r2")
    sounds(codec, "r2", "m2")
    if not active:
        done(codec, "r2")
    speech(codec, "speech_started", "u1")
    messages = sent(codec.interrupted(unheard_ms * 1_000))
    assert [(each["item_id"], each["audio_end_ms"]) for each in messages] == cut
    assert list(codec.interrupted(SECOND)) == []


@pytest.mark.row("GK-03")
def test_assistant_captions_come_in_parts_or_if_no_part_came_whole_and_without_times() -> None:
    codec = started()
    created(codec, "r1")
    (said,) = codec.receive(part("response.output_audio_transcript.delta", "r1", delta="One"))
    assert said.payload == {"speaker": "assistant", "delta": "One", "start_ms": None, "end_ms": None}
    assert codec.receive(part("response.output_audio_transcript.done", "r1", transcript="One")) == []
    assert entries(codec.receive(part("response.output_audio_transcript.done", "r1", "m2", transcript="Two"))) == [
        "Two"
    ]


@pytest.mark.row("GK-07")
def test_a_call_in_two_messages_is_one_delegation_with_what_the_model_gave() -> None:
    codec = started()
    (said,) = called(codec, "c1")
    given_by_model = {"function": {"name": "ask_application", "arguments": {"request": "cake"}}}
    expected = {"delegation_id": "c1", "target": "client", "offset_ms": None, **given_by_model}
    assert said == Observation(EventType.DELEGATION_REQUESTED, expected)
    assert called(codec, "c1") == []
    item = {"id": "f1", "object": "realtime.item", "type": "function_call", "status": "completed"}
    item |= {"call_id": "c1", "name": "ask_application", "arguments": "{}"}
    message = server("response.output_item.done", response_id="r1", output_index=1, item=item)
    assert codec.receive(message) == []
    assert called(codec, "c2", arguments="no json")[0].payload["function"]["arguments"] == {}


def test_a_function_that_nobody_declared_is_answered_here() -> None:
    (said,) = called(started(), "c1", "order_pizza")
    assert isinstance(said, Send)
    assert types(said.messages) == ["conversation.item.create", "response.create"]


# ---- errors


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("response_cancel_not_active", "x"),
        ("invalid_event", "There is no active response"),
        ("invalid_event", "Truncation beyond the end"),
    ],
)
def test_errors_that_a_barge_in_brings_about_are_none(code: str, message: str) -> None:
    assert error(started(), code, message) == [Ignored("error")]


def test_other_errors_are_surfaced_without_guessing() -> None:
    (said,) = error(started(), "internal_error", "oops", event_id="p-9")
    assert (said.type, said.command_id) == (EventType.EXTENSION, None)
    assert said.payload["grok.error"]["details"] == {"provider_code": "internal_error"}


@pytest.mark.parametrize("where", ["code", "type"])
@pytest.mark.parametrize("what", ["timeout", "max_duration"])
def test_the_services_own_limits_end_the_session(what: str, where: str) -> None:
    fields = {"code": "x", "type": "y", where: what}
    assert error(started(), fields["code"], "over", fields["type"]) == [Refused(what, "over")]


def test_a_wrong_history_is_named() -> None:
    with pytest.raises(InvalidArgument) as refused:
        fresh(history=[{"speaker": "developer", "text": "x"}])
    assert refused.value.details["field"] == "history[0]"


# ---- whatever comes

JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just({}) | st.just([])
IDS = st.sampled_from(["r1", "m1", "c1", "\ud800"]) | JSON
FIELDS = (
    *("item_id", "response_id", "content_index", "delta", "transcript", "status", "call_id", "name", "arguments"),
    *("id", "code", "type", "message", "event_id", "audio_start_ms", "role", "content"),
)
BODY = st.dictionaries(st.sampled_from(FIELDS), IDS | st.sampled_from(["AAAA", "ask_application", "user"]), max_size=6)
ODD = st.fixed_dictionaries(
    {"type": st.sampled_from([*oracle.SERVER, "response.audio.delta"]) | JSON},
    optional={"item": BODY | JSON, "response": BODY | JSON, "session": BODY | JSON, "error": BODY | JSON},
)


@given(st.lists(st.binary(max_size=60) | st.tuples(BODY, ODD), max_size=6))
def test_no_message_whatsoever_raises_or_says_what_cannot_be_sent_on(messages: list[Any]) -> None:
    codec = started()
    for index, message in enumerate(messages):
        data = message if isinstance(message, bytes) else json.dumps({**message[0], **message[1]}).encode()
        for said in [*codec.receive(data), *codec.due(index * 100_000)]:
            if isinstance(said, Observation):
                pack(said.payload)
            elif isinstance(said, Send):
                for text in said.messages:
                    oracle.check_client(text).keys()
                    text.encode()
            elif isinstance(said, Refused):
                said.message.encode()
        for text in codec.interrupted(index * 1_000):
            oracle.check_client(text)


def test_a_service_that_never_ends_anything_takes_no_memory() -> None:
    codec = started()
    for index in range(2_000):
        heard(codec, "updated", f"u{index}", "hello")
        created(codec, f"r{index}")
        sounds(codec, f"r{index}", f"m{index}", b"\0\0")
        codec.receive(part("response.output_audio_transcript.delta", f"r{index}", f"m{index}", delta="x"))
        if index % 3 == 0:
            speech(codec, "speech_started", f"u{index}")
    assert len(codec._captions._items) <= captions.MAX_ITEMS
    assert len(codec._spoken._items) <= spoken.MAX_ITEMS
    assert len(codec._spoken._interrupted) <= spoken.MAX_RESPONSES
    assert len(codec._spoken._worded) <= spoken.MAX_RESPONSES
    assert continuation.Continuation(1).active is None
