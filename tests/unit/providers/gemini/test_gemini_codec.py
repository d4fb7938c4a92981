"""The Gemini codec against the vendor's own models."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip(
    "google.genai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test"
)

from parlora.contract.provider import ContextKind, ContextUpdate, DelegationOutcome
from parlora.errors import Conflict, InvalidArgument
from parlora.events import EventType
from parlora.providers.cloud.said import Audio, Ignored, Interrupted, Observation, Refused, Replace, Send, Started
from parlora.providers.gemini import commands
from parlora.providers.gemini.calls import MAX_CALLS, Ledger
from parlora.providers.gemini.codec import CodecOptions, GeminiCodec
from parlora.providers.gemini.functions import DEFAULT_FUNCTIONS
from parlora.wire import pack
from tests.unit.providers.gemini import gemini_oracle as oracle

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
HISTORY = st.lists(st.fixed_dictionaries({"speaker": st.sampled_from(["user", "assistant"]), "text": TEXT}), max_size=5)
SENSITIVITY = st.sampled_from([None, "high", "low"])
SECOND = 1_000_000


def server(**message: Any) -> bytes:
    """A server message that the vendor's model accepts."""
    oracle.check_server(message)
    return json.dumps(message).encode()


def fresh(**options: Any) -> GeminiCodec:
    return GeminiCodec(CodecOptions(**options), "be brief", (), Ledger())


def started(**options: Any) -> GeminiCodec:
    codec = fresh(**options)
    assert [type(said) for said in codec.receive(server(setupComplete={}))] == [Started]
    return codec


def called(codec: GeminiCodec, *ids: str) -> list[Any]:
    calls = [{"id": id, "name": "ask_application", "args": {"request": "cake"}} for id in ids]
    return codec.receive(server(toolCall={"functionCalls": calls}))


def body(messages: Any) -> dict[str, Any]:
    (message,) = messages
    oracle.check_client(message)
    return json.loads(message)


def response(messages: Any) -> dict[str, Any]:
    (answer,) = body(messages)["toolResponse"]["functionResponses"]
    return answer


def sound(data: bytes, mime: str = "audio/pcm;rate=24000") -> dict[str, Any]:
    return {"role": "model", "parts": [{"inlineData": {"mimeType": mime, "data": base64.b64encode(data).decode()}}]}


# ---- what we send


@given(
    st.none() | TEXT,
    HISTORY,
    st.none() | st.sampled_from(["Puck", "Kore"]),
    st.none() | st.just("en-US"),
    SENSITIVITY,
    SENSITIVITY,
    st.none() | st.integers(0, 10_000),
    st.none() | TEXT,
)
def test_the_setup_message_is_one_the_vendor_documents(
    instructions: str | None,
    history: list[dict[str, str]],
    voice: str | None,
    language: str | None,
    start: str | None,
    end: str | None,
    silence_ms: int | None,
    handle: str | None,
) -> None:
    options = commands.SetupOptions(voice, language, DEFAULT_FUNCTIONS, start, end, silence_ms, silence_ms)
    ledger = Ledger()
    ledger.handle = handle
    codec = GeminiCodec(CodecOptions(options), instructions, history, ledger)
    (sent,) = codec.opening()
    setup = oracle.check_client(sent).setup
    assert setup.model == "models/gemini-3.8-live"
    assert (setup.system_instruction is None) is (not instructions)
    assert setup.session_resumption.handle == handle
    first = codec.receive(server(setupComplete={}))
    if history and handle is None:
        assert setup.history_config.initial_history_in_client_content is True
        send, begun = first
        assert isinstance(send, Send)
        assert isinstance(begun, Started)
        content = oracle.check_client(send.messages[0]).client_content
        assert [turn.parts[0].text for turn in content.turns] == [entry["text"] for entry in history]
        assert content.turn_complete is True
    else:
        assert setup.history_config is None
        assert [type(said) for said in first] == [Started]


@pytest.mark.parametrize("word", ["thinking", "Affective", "proactiv", "transparent"])
def test_nothing_the_model_refuses_is_in_the_setup(word: str) -> None:
    assert word not in fresh().opening()[0]


@given(st.binary(min_size=2, max_size=4_000))
def test_audio_goes_out_unchanged(data: bytes) -> None:
    sent = oracle.check_client(fresh().audio(data)).realtime_input.audio
    assert sent.mime_type == "audio/pcm;rate=16000"
    assert base64.b64decode(json.loads(fresh().audio(data))["realtimeInput"]["audio"]["data"]) == data


@pytest.mark.row("GM-01")
def test_a_quiet_text_leaves_a_call_open_and_a_speakable_one_answers_it() -> None:
    codec = started()
    called(codec, "fc-1")
    quiet = response(codec.append(ContextUpdate(ContextKind.QUIET, "looking", "fc-1"), "a"))
    assert quiet == {
        "id": "fc-1",
        "name": "ask_application",
        "response": {"output": "looking"},
        "scheduling": "SILENT",
        "willContinue": True,
    }
    answer = response(codec.append(ContextUpdate(ContextKind.SPEAKABLE, "after four", "fc-1"), "b"))
    assert (answer["response"], answer["scheduling"]) == ({"output": "after four"}, "WHEN_IDLE")
    assert "willContinue" not in answer
    more = body(codec.append(ContextUpdate(ContextKind.SPEAKABLE, "or five", "fc-1"), "c"))["clientContent"]
    assert more["turnComplete"] is True
    assert more["turns"][0]["role"] == "user"
    assert more["turns"][0]["parts"][0]["text"].endswith("tell the caller: or five")
    assert codec.pending == ()


@pytest.mark.row("PC-18")
@pytest.mark.parametrize(("kind", "speaks"), [(ContextKind.QUIET, False), (ContextKind.SPEAKABLE, True)])
@given(text=TEXT)
def test_a_text_outside_a_call_is_content_whole(kind: ContextKind, speaks: bool, text: str) -> None:
    content = body(started().append(ContextUpdate(kind, text), "a"))["clientContent"]
    assert content["turnComplete"] is speaks
    assert content["turns"][0]["parts"][0]["text"] == commands.NOTES[kind] + text


def test_an_instruction_is_content_or_by_option_a_new_system_instruction_that_keeps_the_old() -> None:
    update = ContextUpdate(ContextKind.INSTRUCTION, "speak slowly")
    assert body(started().append(update, "a"))["clientContent"]["turnComplete"] is False
    codec = started(instructions_replace=True)
    sent = body(codec.append(update, "a"))["contextUpdate"]["systemInstruction"]
    assert sent == {"parts": [{"text": "be brief\n\nspeak slowly"}]}
    again = GeminiCodec(CodecOptions(instructions_replace=True), "be brief", (), codec.ledger)
    assert body_of_setup(again)["systemInstruction"] == sent
    with pytest.raises(InvalidArgument) as refused:
        codec.append(ContextUpdate(ContextKind.INSTRUCTION, "x" * 70_000), "b")
    assert refused.value.details["field"] == "text"


def body_of_setup(codec: GeminiCodec) -> dict[str, Any]:
    (message,) = codec.opening()
    oracle.check_client(message)
    return json.loads(message)["setup"]


@pytest.mark.row("PC-15")
def test_a_text_for_a_call_that_never_was_is_refused_here() -> None:
    with pytest.raises(Conflict):
        started().append(ContextUpdate(ContextKind.SPEAKABLE, "hello", "fc-9"), "a")


@pytest.mark.row("GM-09")
@pytest.mark.parametrize("outcome", list(DelegationOutcome))
def test_a_delegation_without_words_gets_one_last_silent_response(outcome: DelegationOutcome) -> None:
    codec = started()
    called(codec, "fc-1")
    last = response(codec.resolve("fc-1", outcome))
    assert (last["id"], last["name"], last["scheduling"]) == ("fc-1", "ask_application", "SILENT")
    assert next(iter(last["response"].values()))  # an empty one makes the model call again
    assert "willContinue" not in last
    assert codec.resolve("fc-1", outcome) == ()
    assert codec.resolve("never", outcome) == ()


# ---- what the service says


@pytest.mark.row("GM-01", "PC-09")
def test_every_function_call_is_a_delegation_once_with_what_the_model_gave() -> None:
    codec = started()
    given_by_model = {"function": {"name": "ask_application", "arguments": {"request": "cake"}}}
    assert called(codec, "fc-1", "fc-2") == [
        Observation(
            EventType.DELEGATION_REQUESTED,
            {"delegation_id": id, "target": "client", "offset_ms": None, **given_by_model},
        )
        for id in ("fc-1", "fc-2")
    ]
    assert called(codec, "fc-1") == []


def test_a_function_that_nobody_declared_is_answered_here() -> None:
    call = {"id": "fc-1", "name": "order_pizza", "args": {}}
    (said,) = started().receive(server(toolCall={"functionCalls": [call]}))
    assert isinstance(said, Send)
    assert "error" in response(said.messages)["response"]


def test_a_call_beyond_those_that_can_be_open_is_answered_too() -> None:
    codec = started()
    for number in range(MAX_CALLS):
        called(codec, f"fc-{number}")
    (said,) = called(codec, "one-more")
    assert isinstance(said, Send)
    assert "error" in response(said.messages)["response"]


@pytest.mark.row("GM-06")
def test_a_cancelled_call_is_told_once_and_gets_no_response_any_more() -> None:
    codec = started()
    called(codec, "fc-1")
    cancel = server(toolCallCancellation={"ids": ["fc-1", "other"]})
    assert codec.receive(cancel) == [Observation(EventType.DELEGATION_CANCELLED, {"delegation_id": "fc-1"})]
    assert codec.receive(cancel) == []
    assert codec.resolve("fc-1", DelegationOutcome.CANCELLED) == ()


@pytest.mark.row("PC-07")
def test_captions_carry_the_speaker_the_text_as_it_was_and_times_if_there_are_any() -> None:
    codec = started()
    (said,) = codec.receive(server(serverContent={"inputTranscription": {"text": " is my cake"}}))
    assert said.payload == {"speaker": "user", "delta": " is my cake", "start_ms": None, "end_ms": None}
    timed = {"text": "ready", "startOffset": "1.5s", "endOffset": "2s"}
    (said,) = codec.receive(json.dumps({"serverContent": {"outputTranscription": timed}}).encode())
    assert said.payload == {"speaker": "assistant", "delta": "ready", "start_ms": 1_500, "end_ms": 2_000}


@pytest.mark.row("PC-08")
def test_one_message_may_say_several_things_and_speech_begins_and_ends_with_the_turn() -> None:
    codec = started()
    content = {"modelTurn": sound(b"\1\2"), "outputTranscription": {"text": "One"}}
    said = codec.receive(server(serverContent=content))
    assert [type(each) for each in said] == [Observation, Observation, Audio]
    assert (said[1].type, said[1].payload) == (EventType.PROVIDER_SPEECH, {"status": "speaking"})
    assert said[2] == Audio(b"\1\2")
    assert codec.receive(server(serverContent={"generationComplete": True})) == []
    usage = {"promptTokenCount": 3, "responseTokenCount": 4, "totalTokenCount": 7}
    said = codec.receive(server(serverContent={"turnComplete": True}, usageMetadata=usage))
    assert [each.type for each in said] == ["provider_speech", "provider_activity", "usage_updated"]
    assert said[0].payload == {"status": "idle"}


@pytest.mark.row("PC-12")
@pytest.mark.parametrize(("adds", "total"), [(True, 18), (False, 11)])
def test_token_counts_are_added_or_by_option_taken_as_they_are(adds: bool, total: int) -> None:
    codec = started(usage_adds=adds)
    counts = [{"promptTokenCount": 3, "responseTokenCount": 4, "totalTokenCount": 7}, {"totalTokenCount": 11}]
    for count in counts:
        (said,) = codec.receive(server(usageMetadata=count))
    expected = {"input_tokens": 3, "output_tokens": 4, "total_tokens": total, "unit": "tokens", "final": False}
    assert said == Observation(EventType.USAGE_UPDATED, expected)


@pytest.mark.row("GM-04")
def test_background_activity_is_told_when_it_changes_and_apart_from_speech() -> None:
    codec = started()
    said = [
        observed
        for status in ("IN_PROGRESS", "IN_PROGRESS", "IDLE")
        for observed in codec.receive(server(serverContent={"interactionStatus": status}))
    ]
    assert [(each.type, each.payload["status"]) for each in said] == [
        ("provider_activity", "in_progress"),
        ("provider_activity", "idle"),
    ]
    assert codec.receive(b'{"interactionStatus":"IN_PROGRESS"}')[0].payload == {"status": "in_progress"}


@pytest.mark.row("GM-07")
def test_an_interruption_is_told_before_anything_else_of_its_message() -> None:
    codec = started()
    codec.receive(server(serverContent={"modelTurn": sound(b"\1\2")}))
    said = codec.receive(server(serverContent={"interrupted": True, "inputTranscription": {"text": "wait"}}))
    assert isinstance(said[0], Interrupted)
    assert said[1].payload == {"status": "idle"}
    assert said[2].payload["delta"] == "wait"


@pytest.mark.parametrize(
    "message",
    [
        {"modelTurn": sound(b"\1\2", "audio/pcm;rate=16000")},
        {"modelTurn": sound(b"\1\2", "audio/opus")},
        {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "no base64"}}]}},
    ],
)
def test_audio_that_is_not_what_was_agreed_is_no_sound(message: dict[str, Any]) -> None:
    assert started().receive(json.dumps({"serverContent": message}).encode()) == [Ignored("inlineData")]


def test_nothing_counts_before_the_setup_is_complete() -> None:
    codec = fresh()
    assert codec.receive(server(serverContent={"modelTurn": sound(b"\1\2")})) == [Ignored("serverContent")]
    assert called(codec, "fc-1") == [Ignored("toolCall")]


def test_an_error_refuses_the_start_and_is_only_told_later() -> None:
    error = b'{"error":{"code":400,"status":"INVALID_ARGUMENT","message":"bad voice"}}'
    assert fresh().receive(error) == [Refused("INVALID_ARGUMENT", "bad voice")]
    (said,) = started().receive(error)
    assert (said.type, said.command_id) == (EventType.EXTENSION, None)


# ---- the session on another connection


def test_only_a_handle_that_can_be_used_is_kept_and_open_calls_live_on() -> None:
    codec = started()
    called(codec, "fc-1")
    codec.receive(server(sessionResumptionUpdate={"newHandle": "h1", "resumable": True}))
    codec.receive(server(sessionResumptionUpdate={"newHandle": "", "resumable": False}))
    again = GeminiCodec(CodecOptions(), "be brief", ({"speaker": "user", "text": "x"},), codec.ledger)
    assert body_of_setup(again)["sessionResumption"] == {"handle": "h1"}
    (said,) = again.receive(server(setupComplete={}))
    assert said.details["resumed"] is True
    assert response(again.append(ContextUpdate(ContextKind.SPEAKABLE, "yes", "fc-1"), "a"))["id"] == "fc-1"


def test_an_announced_end_is_left_for_when_nothing_is_being_said() -> None:
    codec = started()
    (said,) = codec.receive(server(goAway={"timeLeft": "50s"}))
    assert isinstance(said, Replace)
    codec = started()
    codec.receive(server(serverContent={"modelTurn": sound(b"\1\2")}))
    assert codec.receive(server(goAway={"timeLeft": "50s"})) == []
    assert isinstance(codec.receive(server(serverContent={"turnComplete": True}))[-1], Replace)
    codec = started()
    codec.receive(server(serverContent={"modelTurn": sound(b"\1\2")}))
    codec.receive(server(goAway={"timeLeft": "9.5s"}))
    assert codec.due(100 * SECOND) == []
    assert codec.due(107 * SECOND) == []
    assert [type(said) for said in codec.due(108 * SECOND)] == [Replace]
    assert codec.due(109 * SECOND) == []


# ---- whatever comes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    *("setupComplete", "serverContent", "toolCall", "toolCallCancellation", "usageMetadata", "goAway", "error"),
    *("interactionStatus", "sessionResumptionUpdate"),
)
FIELDS = (
    *("modelTurn", "parts", "inlineData", "mimeType", "data", "interrupted", "turnComplete", "inputTranscription"),
    *("text", "functionCalls", "id", "name", "args", "ids", "totalTokenCount", "timeLeft", "newHandle", "resumable"),
    *("code", "message"),
)
NESTED = st.recursive(
    JSON | st.sampled_from(["ask_application", "\ud800"]),
    lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner | st.lists(inner, max_size=2), max_size=4),
    max_leaves=12,
)


@given(st.lists(st.binary(max_size=60) | st.dictionaries(st.sampled_from(KEYS), NESTED, max_size=3), max_size=4))
def test_no_message_whatsoever_raises_or_says_what_cannot_be_sent_on(messages: list[Any]) -> None:
    codec = started()
    for message in messages:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        for said in codec.receive(data):
            if isinstance(said, Observation):
                pack(said.payload)
            elif isinstance(said, Send):
                for sent in said.messages:
                    sent.encode()
            elif isinstance(said, Refused):
                said.message.encode()
