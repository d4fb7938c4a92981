"""The Grok adapter against the local fake: the same promises as every provider, over a real socket."""

import json
import math
import struct
import time
from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextKind, ContextUpdate, DelegationOutcome, MuteInput
from parlora.errors import Conflict, InvalidArgument, ParloraError, Timeout, Unsupported
from parlora.limits import Limits
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.grok import FakeGrok
from parlora.testing.providers.grok_session import Step
from tests.providers.grok_calls import QuickGrok
from tests.providers.openai_calls import KEY, KEY_ENV, calling, until
from tests.unit.providers.grok import grok_oracle as oracle

PCM, PCMU = AudioFormat.pcm16(), AudioFormat.pcmu()
SCRIPT = (
    Step(200, "user", "where is my order"),
    Step(300, "assistant", "one moment"),
    Step(350, "call", "call-1"),
)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


def talking(fake: FakeGrok, **more: Any) -> Any:
    return calling(fake, **{"adapter": QuickGrok, **more})


def speak(text: str, id: str | None = None) -> ContextUpdate:
    return ContextUpdate(ContextKind.SPEAKABLE, text, id)


def tone(duration_ms: int) -> bytes:
    count = PCM.sample_rate * duration_ms // 1_000
    return struct.pack(f"<{count}h", *(int(8_000 * math.sin(n / 10)) for n in range(count)))


def said_by(call: Any, speaker: str) -> list[str]:
    captions = [event.payload for event in call.sink.events("transcript_delta")]
    return [caption["delta"] for caption in captions if caption["speaker"] == speaker]


@pytest.mark.row("GK-01", "GK-02", "GK-03", "GK-05", "GK-07", "GK-09", "GK-12", "LM-08")
@pytest.mark.parametrize("audio_format", [PCM, PCMU], ids=["pcm16", "pcmu"])
def test_audio_flows_both_ways_while_a_delegation_comes_out_and_its_answer_goes_in(audio_format: AudioFormat) -> None:
    with (
        FakeGrok(SCRIPT, api_key=KEY, speaks=True) as fake,
        talking(fake, audio_format=audio_format, instructions="be brief") as call,
    ):
        ready = call.wait_for("ready").payload
        assert ready["configuration"] == {"id": "sess_1", "model": "grok-voice-3.0", "voice": "eve"}
        assert call.audio_out.status().capacity_bytes == audio_format.bytes_for_us(20_000_000)
        call.audio_in.write(audio_format.silence(100_000))
        delegation = call.wait_for("delegation_requested").payload
        assert (delegation["delegation_id"], delegation["target"]) == ("call-1", "client")
        assert delegation["function"]["arguments"] == {"request": "what the caller wants"}
        call.call("append_context", speak("It is on its way", "call-1"), "s")
        assert call.wait_for("context_submitted", command_id="s").payload == {"evidence": "socket_write"}
        until("the answer", lambda: "".join(said_by(call, "assistant")) == "one momentIt is on its way")
        said = audio_format.bytes_for_us((2 + 5) * 250_000)
        until("the sound of it", lambda: len(call.heard.data) >= said)
        assert len(call.heard.data) == said
        assert call.heard.largest <= audio_format.bytes_for_us(20_000)
        silence = bytes([audio_format.silence_byte])
        assert len(call.heard.data.strip(silence)) > said * 0.9
        closed = call.close_adapter()
        assert closed.payload["finalization_observed"] is False  # the service has no word for it
        assert closed.payload["unconfirmed_commands"] == []
        assert said_by(call, "user") == ["where is my order"]
        for kind in ("audio_discontinuity", "context_acknowledged", "usage_updated", "usage_final"):
            assert not call.sink.events(kind)
    (recording,) = fake.sessions
    assert recording.query == "model=grok-voice-3.0"
    assert recording.early_audio == 0
    for message in recording.received:
        oracle.check_client(json.dumps(message))
    for text in recording.sent:
        oracle.check_server(text)
    assert [message["type"] for message in recording.received] == [
        *("session.update", "conversation.item.create", "response.create")
    ]


@pytest.mark.row("GK-03")
def test_muting_is_silence_sent_from_here() -> None:
    with FakeGrok() as fake, talking(fake) as call:
        call.call("control", MuteInput(True), "mute")
        done = call.wait_for("control_completed", command_id="mute").payload
        assert (done["control"], done["on"], done["scope"]) == ("mute_input", True, "local")
        for _ in range(3):
            call.audio_in.write(tone(100))
        until("what came in its place", lambda: fake.sessions[0].audio_bytes >= PCM.bytes_for_us(300_000))
        assert fake.sessions[0].loud_bytes == 0
        call.call("control", MuteInput(False), "unmute")
        call.audio_in.write(tone(100))
        until("the caller again", lambda: fake.sessions[0].loud_bytes)


@pytest.mark.row("GK-01", "GK-11")
def test_after_an_interruption_nothing_of_its_response_is_heard_and_the_next_waits_for_the_barrier() -> None:
    script = (
        Step(100, "assistant", "a long answer that goes on"),
        Step(300, "interrupt"),
        Step(400, "assistant", "the new answer"),
    )
    with FakeGrok(script) as fake, talking(fake) as call:
        token = call.wait_for("output_interrupted").payload["token"]
        until("the last words", lambda: "".join(said_by(call, "assistant")).endswith("the new answer"))
        heard = len(call.heard.data)
        assert heard == PCM.bytes_for_us(6 * 250_000)
        call.call("resume_output", "unknown")
        lost = call.wait_for("audio_discontinuity").payload
        assert len(call.heard.data) == heard
        assert (lost["cause"], lost["dropped_bytes"]) == ("output_interrupted", PCM.bytes_for_us(2 * 250_000))
        call.call("resume_output", token)
        until("the new answer", lambda: len(call.heard.data) == heard + PCM.bytes_for_us(3 * 250_000))
        assert len(call.sink.events("output_interrupted")) == 1
        assert not [words for words in said_by(call, "assistant") if "late" in words]


def test_the_service_is_told_how_much_had_left_the_queue() -> None:
    script = (Step(100, "assistant", "four words are said"), Step(300, "interrupt"))
    with FakeGrok(script) as fake, talking(fake, drain=False) as call:
        call.wait_for("output_interrupted")
        truncated = fake.wait_for("conversation.item.truncate")
        assert truncated["audio_end_ms"] == 0  # nobody read anything
        assert truncated["item_id"] in "".join(fake.sessions[0].sent)


@pytest.mark.row("GK-06")
def test_a_continuation_that_is_never_answered_fails_the_call_in_time() -> None:
    with FakeGrok(answers=False) as fake, talking(fake, limits=Limits(startup_timeout_ms=2_000)) as call:
        began = time.monotonic()
        call.call("append_context", speak("hello"), "s")
        failed = call.wait_for("failed").payload
        assert failed["error"]["details"] == {"provider_code": "timeout"}
        assert 1.9 <= time.monotonic() - began < 6


@pytest.mark.row("GK-04")
@pytest.mark.parametrize("kind", [ContextKind.QUIET, ContextKind.INSTRUCTION])
def test_what_is_not_declared_is_refused(kind: ContextKind) -> None:
    with FakeGrok() as fake, talking(fake) as call:
        with pytest.raises(Unsupported):
            call.call("append_context", ContextUpdate(kind, "x"), "q")
        call.close_adapter()
    assert [message["type"] for message in fake.sessions[0].received] == ["session.update"]


@pytest.mark.row("GK-04")
def test_a_lost_connection_ends_the_call() -> None:
    with FakeGrok(faults=[Fault(FaultKind.RESET, 200)]) as fake, talking(fake) as call:
        call.wait_for("failed")
        assert not call.sink.events("provider_connection")
        assert len(fake.sessions) == 1


def test_a_result_without_words_is_no_continuation() -> None:
    with FakeGrok((Step(100, "call", "call-1"),)) as fake, talking(fake) as call:
        call.wait_for("delegation_requested")
        call.call("resolve_delegation", "call-1", DelegationOutcome.NO_CONTENT)
        call.call("resolve_delegation", "call-1", DelegationOutcome.NO_CONTENT)
        fake.wait_for("conversation.item.create")
        call.close_adapter()
    assert [message["type"] for message in fake.sessions[0].received] == ["session.update", "conversation.item.create"]


def test_what_is_malformed_never_gets_there_and_a_repeated_append_goes_out_once() -> None:
    with FakeGrok() as fake, talking(fake) as call:
        with pytest.raises(InvalidArgument):
            call.call("append_context", speak("  "), "blank")
        with pytest.raises(Conflict):
            call.call("append_context", speak("x", "call-9"), "unknown")
        for _ in range(2):
            call.call("append_context", speak("x" * 50_000), "same")
        call.wait_for("context_submitted", command_id="same")
        with pytest.raises(Conflict):
            call.call("append_context", speak("other"), "same")
        call.close_adapter()
    assert len(fake.sessions[0].of("conversation.item.create")) == 1


# ---- startup and the end


@pytest.mark.row("GK-05")
@pytest.mark.parametrize(
    "greets", [(), ("session.created",), ("conversation.created",), ("conversation.created", "session.created")]
)
def test_the_order_of_greetings_does_not_matter_and_no_audio_is_early(greets: tuple[str, ...]) -> None:
    history = ({"speaker": "user", "text": "I called about a cake"}, {"speaker": "assistant", "text": "Yes?"})
    with FakeGrok(greets=greets, faults=[Fault(FaultKind.SLOW_START, 300)]) as fake:
        with talking(fake, history=history) as call:
            call.audio_in.write(tone(100))
            until("audio", lambda: fake.sessions[0].audio_bytes)
            fake.wait_for("conversation.item.create", nth=2)
            call.close_adapter()
        assert fake.sessions[0].early_audio == 0
        roles = [message["item"]["role"] for message in fake.sessions[0].of("conversation.item.create")]
        assert roles == ["user", "assistant"]


def test_a_wrong_key_is_refused_with_no_word_of_the_key() -> None:
    with FakeGrok(api_key="another") as fake, pytest.raises(ParloraError, match="401") as failed, talking(fake):
        pass
    assert KEY not in repr(failed.value) + str(failed.value.to_data())


@pytest.mark.row("GK-01")
def test_a_service_that_never_confirms_ends_at_the_startup_deadline() -> None:
    with (
        FakeGrok(faults=[Fault(FaultKind.SLOW_START, at_ms=1_500)]) as fake,
        pytest.raises(Timeout),
        talking(fake, limits=Limits(startup_timeout_ms=500)),
    ):
        pass


@pytest.mark.parametrize("code", ["timeout", "max_duration"])
def test_the_services_own_limit_is_told_as_what_it_is(code: str) -> None:
    with FakeGrok((Step(200, "ping"), Step(300, "end", code))) as fake, talking(fake) as call:
        assert call.wait_for("failed").payload["error"]["details"] == {"provider_code": code}


def test_an_error_that_names_nothing_is_surfaced_and_the_call_goes_on() -> None:
    with FakeGrok(faults=[Fault(FaultKind.ERROR, at_ms=100)]) as fake, talking(fake) as call:
        event = call.wait_for("extension")
        assert event.payload["grok.error"]["details"] == {"provider_code": "server_error"}
        call.call("append_context", speak("still there"), "s")
        call.wait_for("context_submitted", command_id="s")


@pytest.mark.parametrize("kind", [FaultKind.WRONG_ORDER, FaultKind.UNKNOWN_EVENT])
def test_an_early_word_counts_for_nothing_and_an_unknown_one_neither(kind: FaultKind) -> None:
    with FakeGrok(faults=[Fault(kind, 100)], greets=()) as fake, talking(fake) as call:
        until("half a second", lambda: fake.sessions[0].audio_bytes >= 24_000)
        assert call.close_adapter().payload["ignored_messages"] == 3
        assert call.heard.data == b""
        assert not call.sink.events("delegation_requested")
        assert not call.sink.events("transcript_delta")


@pytest.mark.parametrize(
    "kind",
    [
        *(FaultKind.SILENT, FaultKind.HALF_FRAME, FaultKind.HUGE_MESSAGE, FaultKind.CLOSE_CODE),
        *(FaultKind.NO_CLOSE_FRAME, FaultKind.DEAF),
    ],
)
def test_each_misbehaviour_of_the_connection_ends_in_one_failure(kind: FaultKind) -> None:
    with FakeGrok(faults=[Fault(kind, 200)]) as fake, talking(fake) as call:
        call.wait_for("failed")
        assert len(call.sink.events("failed")) == 1


def test_half_a_sample_is_dropped_and_counted() -> None:
    with FakeGrok(faults=[Fault(FaultKind.ODD_PCM, 100)]) as fake, talking(fake) as call:
        until("the packet", lambda: call.heard.data)
        assert call.close_adapter().payload["half_samples"] == 1


@pytest.mark.row("LM-08")
def test_an_answer_longer_than_the_store_is_told_and_the_call_goes_on() -> None:
    with FakeGrok(faults=[Fault(FaultKind.FLOOD, 200)]) as fake, talking(fake, drain=False) as call:
        lost = call.wait_for("audio_discontinuity").payload
        assert lost["stream"] == "generated"
        assert call.audio_out.status().queued_bytes <= PCM.bytes_for_us(20_000_000)
        assert not call.sink.events("failed")
