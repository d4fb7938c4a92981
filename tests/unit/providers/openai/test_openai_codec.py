"""The Live codec against the vendor's own models."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("openai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test")

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.errors import InvalidArgument
from parlora.events import EventType
from parlora.providers.cloud.said import Audio, Ended, Ignored, Observation, Refused, Started
from parlora.providers.openai import commands
from parlora.providers.openai.codec import LiveCodec
from tests.unit.providers.openai import openai_oracle as oracle

TEXT = st.text(min_size=1, max_size=80)
IDS = st.text(min_size=1, max_size=20)
FORMATS = st.sampled_from([AudioFormat.pcm16(), AudioFormat.pcmu()])
HISTORY = st.lists(
    st.fixed_dictionaries({"speaker": st.sampled_from(["user", "assistant", "developer"]), "text": TEXT}), max_size=5
)
SESSION = {
    "id": "live_1",
    "expires_at": 1_796_000_000,
    "status": "active",
    "model": "gpt-live-1",
    "audio": {"format": {"type": "audio/pcm", "rate": 24_000}, "output": {"voice": "marin"}},
    "delegation": {"type": "client"},
}


def server(**message: Any) -> str:
    """A server message that the vendor's model accepts."""
    text = json.dumps(message)
    oracle.check_server(text)
    return text


def started() -> LiveCodec:
    codec = LiveCodec("start-1")
    (said,) = codec.receive(server(type="session.started", event_id="e1", session=SESSION))
    assert isinstance(said, Started)
    return codec


# ---- what we send


@pytest.mark.row("OA-04")
@given(
    st.sampled_from(commands.MODELS),
    FORMATS,
    st.none() | TEXT,
    HISTORY,
    IDS,
    st.none() | st.sampled_from(["marin", "cedar"]),
    st.none() | st.integers(0, 5_000),
)
def test_the_start_message_is_one_the_vendor_documents(
    model: str,
    format: AudioFormat,
    instructions: str | None,
    history: list[dict[str, str]],
    event_id: str,
    voice: str | None,
    delay: int | None,
) -> None:
    options = commands.StartOptions(model, voice, delay)
    sent = oracle.check_client(commands.start(options, format, instructions, history, event_id))
    assert (sent.session.model, sent.session.instructions, sent.event_id) == (model, instructions or None, event_id)
    assert len(sent.session.input or []) == len(history)


@pytest.mark.row("OA-02", "OA-03")
@given(st.sampled_from(list(ContextKind)), TEXT, st.none() | IDS, IDS)
def test_the_three_kinds_are_the_three_appends_and_keep_a_null_delegation(
    kind: ContextKind, text: str, delegation_id: str | None, command_id: str
) -> None:
    wire = LiveCodec("s").append(ContextUpdate(kind, text, delegation_id), command_id)
    sent = oracle.check_client(wire)
    assert "delegation_id" in json.loads(wire)
    assert (sent.delegation_id, sent.content, sent.event_id) == (delegation_id, text, command_id)
    expected = {"quiet": "thinking", "speakable": "commentary", "instruction": "instructions"}
    assert sent.type == f"session.{expected[kind]}.append"


@given(st.binary(min_size=1, max_size=5_000))
def test_audio_goes_out_unchanged(data: bytes) -> None:
    assert base64.b64decode(oracle.check_client(commands.audio(data)).audio) == data


@pytest.mark.parametrize("text", [commands.mute(True, "m"), commands.mute(False, "m"), commands.close("c")])
def test_controls_and_close_are_documented_messages(text: str) -> None:
    oracle.check_client(text)


@pytest.mark.row("OA-04")
@pytest.mark.parametrize(
    ("history", "field"),
    [
        ([{"speaker": "user", "text": "x"}] * 129, "history"),
        ([{"speaker": "system", "text": "x"}], "history[0]"),
        ([{"speaker": "user", "text": "x"}, {"speaker": "user", "text": ""}], "history[1]"),
    ],
)
def test_a_history_the_service_would_refuse_is_refused_here(history: list[dict[str, str]], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        commands.start(commands.StartOptions(), AudioFormat(), None, history, "e")
    assert refused.value.details["field"] == field


# ---- what the service says


@pytest.mark.row("PC-07")
@given(st.sampled_from(["user", "assistant"]), TEXT, st.integers(0, 10**7), st.integers(0, 10**4))
def test_captions_keep_their_text_and_times(speaker: str, delta: str, start: int, length: int) -> None:
    kind = {"user": "input", "assistant": "output"}[speaker]
    text = server(
        type=f"session.{kind}_transcript.delta", event_id="e", delta=delta, start_ms=start, end_ms=start + length
    )
    (said,) = started().receive(text)
    expected = {"speaker": speaker, "delta": delta, "start_ms": start, "end_ms": start + length}
    assert said == Observation(EventType.TRANSCRIPT_DELTA, expected)


@pytest.mark.row("PC-09")
def test_a_delegation_is_its_id_target_and_offset_and_no_made_up_text() -> None:
    text = server(
        type="session.delegation.created",
        event_id="e",
        offset_ms=3_800,
        delegation={"id": "item_abc", "type": "delegation", "target": "client"},
    )
    (said,) = started().receive(text)
    expected = {"delegation_id": "item_abc", "target": "client", "offset_ms": 3_800}
    assert said == Observation(EventType.DELEGATION_REQUESTED, expected)


def test_a_delegation_of_another_target_or_before_the_start_is_no_work_of_ours() -> None:
    message = {"type": "session.delegation.created", "event_id": "e", "offset_ms": 1}
    ours = server(**message, delegation={"id": "i", "type": "delegation", "target": "client"})
    theirs = server(**message, delegation={"id": "i", "type": "delegation", "target": "responses"})
    assert isinstance(LiveCodec("s").receive(ours)[0], Ignored)
    assert isinstance(started().receive(theirs)[0], Ignored)


@pytest.mark.row("PC-10", "OA-01", "OA-05")
@given(st.lists(st.tuples(IDS, st.sampled_from(list(ContextKind))), unique_by=lambda p: p[0], max_size=8), st.data())
def test_acknowledgments_find_their_append_in_any_order(
    appends: list[tuple[str, ContextKind]], data: st.DataObject
) -> None:
    codec = started()
    names = {"quiet": "thinking", "speakable": "commentary", "instruction": "instructions"}
    for command_id, kind in appends:
        codec.append(ContextUpdate(kind, "x"), command_id)
    for command_id, kind in data.draw(st.permutations(appends)):
        text = server(
            type=f"session.{names[kind]}.appended", event_id="e", client_event_id=command_id, start_ms=1, end_ms=2
        )
        (said,) = codec.receive(text)
        assert isinstance(said, Observation)
        assert (said.type, said.command_id) == (EventType.CONTEXT_ACKNOWLEDGED, command_id)
        assert isinstance(codec.receive(text)[0], Ignored)
    assert codec.pending == ()


def test_an_acknowledgment_without_our_id_means_the_oldest_of_its_kind() -> None:
    codec = started()
    for command_id, kind in (("a", ContextKind.QUIET), ("b", ContextKind.SPEAKABLE), ("c", ContextKind.SPEAKABLE)):
        codec.append(ContextUpdate(kind, "x"), command_id)
    (said,) = codec.receive(server(type="session.commentary.appended", event_id="e", start_ms=1, end_ms=2))
    assert isinstance(said, Observation)
    assert said.command_id == "b"
    assert codec.pending == ("a", "c")


@pytest.mark.row("PC-17")
def test_a_rejected_append_is_told_with_its_id() -> None:
    codec = started()
    codec.append(ContextUpdate(ContextKind.SPEAKABLE, "x" * 9_000), "long")
    error = {"type": "invalid_request_error", "code": "too_long", "message": "500 tokens", "client_event_id": "long"}
    (said,) = codec.receive(server(type="error", event_id="e", error=error))
    assert isinstance(said, Observation)
    assert (said.type, said.command_id) == (EventType.CONTEXT_REJECTED, "long")


@pytest.mark.row("PC-25")
@pytest.mark.parametrize("client_event_id", [None, "not-ours"])
def test_an_error_that_names_no_command_of_ours_is_surfaced_without_one(client_event_id: str | None) -> None:
    codec = started()
    codec.append(ContextUpdate(ContextKind.QUIET, "x"), "ours")
    error = {"type": "server_error", "code": "x", "message": "m", "client_event_id": client_event_id}
    (said,) = codec.receive(json.dumps({"type": "error", "event_id": "e", "error": error}))
    assert isinstance(said, Observation)
    assert (said.type, said.command_id) == (EventType.EXTENSION, None)
    assert codec.pending == ("ours",)


@pytest.mark.parametrize(("code", "type"), [("insufficient_quota", "x"), (None, "invalid_api_key")])
def test_credit_and_key_errors_end_the_session_whichever_field_names_them(code: str | None, type: str) -> None:
    (said,) = started().receive(json.dumps({"type": "error", "error": {"code": code, "type": type, "message": "m"}}))
    assert isinstance(said, Refused)


def test_an_error_before_the_start_means_there_is_no_session() -> None:
    (said,) = LiveCodec("s").receive(json.dumps({"type": "error", "error": {"code": None, "message": "no"}}))
    assert said == Refused(None, "no")


@pytest.mark.row("OA-14", "PC-12")
@given(st.lists(st.none() | st.floats(0, 1e6), min_size=1, max_size=8), st.none() | st.floats(0, 1))
def test_usage_is_cumulative_never_summed_and_final_once(samples: list[float | None], ratio: float | None) -> None:
    codec = started()
    highest: float | None = None
    for seconds in samples:
        message: dict[str, Any] = {"type": "session.usage.updated", "usage": {"seconds": seconds}}
        if ratio is not None:
            message["context_window"] = {"usage_ratio": ratio}
        (said,) = codec.receive(json.dumps(message))
        assert isinstance(said, Observation)
        if seconds is not None:
            highest = max(seconds, highest or 0.0)
        assert (said.payload["seconds"], said.payload["final"]) == (highest, False)
        assert ("context_window" in said.payload) == (ratio is not None)
    last, ended = codec.receive(
        server(type="session.closed", event_id="e", reason="close_requested", session=SESSION, usage={"seconds": 2e6})
    )
    assert isinstance(last, Observation)
    assert (last.type, last.payload["seconds"], last.payload["final"]) == (EventType.USAGE_FINAL, 2e6, True)
    assert ended == Ended("close_requested", confirmed=True)


@given(st.binary(min_size=1, max_size=3_000))
def test_audio_comes_in_unchanged_and_shows_in_no_repr(data: bytes) -> None:
    text = server(type="session.output_audio.delta", delta=base64.b64encode(data).decode())
    (said,) = started().receive(text)
    assert isinstance(said, Audio)
    assert said.data == data
    assert "data" not in repr(said)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KINDS = st.sampled_from(sorted(oracle.SERVER)) | st.text(max_size=10)
FIELDS = st.sampled_from(["delta", "delegation", "usage", "session", "error", "client_event_id", "start_ms", "reason"])


@given(st.lists(st.tuples(KINDS, st.dictionaries(FIELDS, JSON, max_size=4)), max_size=6) | st.lists(JSON, max_size=3))
def test_no_message_of_a_server_raises(messages: list[Any]) -> None:
    codec = started()
    for message in messages:
        whole = {"type": message[0], **message[1]} if isinstance(message, tuple) else message
        codec.receive(json.dumps(whole))
    codec.receive(b"\xff\xfe not json")


def test_usage_goes_on_where_the_session_before_ended() -> None:
    codec = LiveCodec("s", earlier_seconds=40.0)
    (said,) = codec.receive(server(type="session.usage.updated", event_id="e", usage={"seconds": 2}))
    assert isinstance(said, Observation)
    assert said.payload["seconds"] == codec.seconds == 42.0
