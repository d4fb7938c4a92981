"""The Gemini adapter against the local fake: the same promises as every provider, over a real socket."""

import json
import math
import ssl
import struct
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "google.genai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test"
)

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextKind, ContextUpdate, DelegationOutcome, MuteInput
from parlora.errors import Conflict, InvalidArgument, ParloraError, Timeout
from parlora.limits import Limits
from parlora.providers.gemini import Gemini
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.gemini import PATHS, FakeGemini
from parlora.testing.providers.gemini_session import Step
from tests.providers.openai_calls import KEY, KEY_ENV, calling, until
from tests.unit.providers.gemini import gemini_oracle as oracle

PCM, PCMU = AudioFormat.pcm16(), AudioFormat.pcmu()
SCRIPT = (
    Step(200, "user", "where is my order"),
    Step(300, "assistant", "one moment"),
    Step(400, "call", "fc-1"),
)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


def talking(fake: FakeGemini, **more: Any) -> Any:
    return calling(fake, **{"adapter": Gemini, **more})


def tone(duration_ms: int) -> bytes:
    count = PCM.sample_rate * duration_ms // 1_000
    return struct.pack(f"<{count}h", *(int(8_000 * math.sin(n / 10)) for n in range(count)))


def said_by(call: Any, speaker: str) -> str:
    captions = [event.payload for event in call.sink.events("transcript_delta")]
    return "".join(caption["delta"] for caption in captions if caption["speaker"] == speaker)


def responses(fake: FakeGemini, session: int = 1) -> list[dict[str, Any]]:
    return [each for message in fake.sessions[session - 1].of("toolResponse") for each in message["functionResponses"]]


@pytest.mark.row("PC-02", "PC-06", "PC-12", "GM-01", "GM-02", "LM-07", "PC-26", "LX-06", "LX-08")
@pytest.mark.parametrize("audio_format", [PCM, PCMU], ids=["pcm16", "pcmu"])
def test_audio_flows_both_ways_while_a_delegation_comes_out_and_its_answer_goes_in(audio_format: AudioFormat) -> None:
    with (
        FakeGemini(SCRIPT, api_key=KEY, speaks=True) as fake,
        talking(fake, audio_format=audio_format, instructions="be brief") as call,
    ):
        ready = call.wait_for("ready").payload
        assert ready["configuration"] == {"model": "gemini-3.8-live", "resumed": False}
        assert ready["capabilities"]["context_acknowledgment"] is False
        assert call.audio_out.status().capacity_bytes == audio_format.bytes_for_us(10_000_000)
        call.audio_in.write(audio_format.silence(100_000))
        delegation = call.wait_for("delegation_requested").payload
        given = {"name": "ask_application", "arguments": {"request": "what the caller wants"}}
        assert delegation == {"delegation_id": "fc-1", "target": "client", "offset_ms": None, "function": given}
        call.call("append_context", ContextUpdate(ContextKind.QUIET, "it is late", "fc-1"), "q")
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "It is on its way", "fc-1"), "s")
        for command_id in ("q", "s"):
            submitted = call.wait_for("context_submitted", command_id=command_id)
            assert submitted.payload == {"evidence": "socket_write"}
        until("the answer", lambda: said_by(call, "assistant") == "one momentIt is on its way")
        said = audio_format.bytes_for_us((2 + 5) * 250_000)
        # all of it but what the resampler still has of the last packet
        until("the sound of it", lambda: len(call.heard.data) >= said - audio_format.bytes_for_us(5_000))
        assert len(call.heard.data) <= said
        assert loud(call.heard.data, audio_format)
        assert call.heard.largest <= audio_format.bytes_for_us(20_000)
        until("the first turn's usage", lambda: call.sink.events("usage_updated"))
        assert call.sink.events("usage_updated")[0].payload["unit"] == "tokens"
        closed = call.close_adapter()
        assert closed.payload["finalization_observed"] is False  # the service has no word for it
        assert closed.payload["unconfirmed_commands"] == []
        assert said_by(call, "user") == "where is my order"
        assert not call.sink.events("audio_discontinuity")
        assert not call.sink.events("context_acknowledged")
    assert fake.sessions[0].rate == 16_000
    for message in fake.sessions[0].received:
        oracle.check_client(json.dumps(message))
    assert fake.sessions[0].of("setup")[0]["systemInstruction"] == {"parts": [{"text": "be brief"}]}
    assert [each.get("scheduling") for each in responses(fake)] == ["SILENT", "WHEN_IDLE"]


def loud(data: bytes, format: AudioFormat) -> bool:
    return len(data.strip(bytes([format.silence_byte]))) > len(data) * 0.9


@pytest.mark.row("LX-05")
def test_silence_goes_out_in_real_time_while_nobody_speaks_and_muting_is_silence_too() -> None:
    with FakeGemini() as fake, talking(fake) as call:
        began = time.monotonic()
        second = 32_000
        until("a second of silence", lambda: fake.sessions[0].audio_bytes >= second)
        assert time.monotonic() - began >= 0.9
        assert fake.sessions[0].loud_bytes == 0
        call.call("control", MuteInput(True), "mute")
        done = call.wait_for("control_completed", command_id="mute").payload
        assert (done["control"], done["on"], done["scope"]) == ("mute_input", True, "local")
        for _ in range(3):
            call.audio_in.write(tone(100))
        sent = fake.sessions[0].audio_bytes
        until("what came in its place", lambda: fake.sessions[0].audio_bytes >= sent + second // 2)
        assert fake.sessions[0].loud_bytes == 0
        call.call("control", MuteInput(False), "unmute")
        call.audio_in.write(tone(100))
        until("the caller again", lambda: fake.sessions[0].loud_bytes)
        assert len(fake.sessions) == 1


@pytest.mark.row("GM-07", "GM-08")
def test_after_an_interruption_nothing_is_heard_until_its_own_barrier_is_done() -> None:
    script = (
        Step(100, "assistant", "a long answer that goes on"),
        Step(300, "interrupt"),
        Step(400, "assistant", "and more of it"),
        Step(500, "interrupt"),
        Step(600, "assistant", "the new answer"),
    )
    with FakeGemini(script) as fake, talking(fake) as call:
        first = call.wait_for("output_interrupted").payload["token"]
        second = call.wait_for("output_interrupted", nth=2).payload["token"]
        until("the last words", lambda: said_by(call, "assistant").endswith("the new answer"))
        heard = PCM.bytes_for_us(6 * 250_000)
        until("the first answer's sound", lambda: len(call.heard.data) >= heard)
        call.call("resume_output", first)
        call.call("resume_output", "unknown")
        time.sleep(0.05)  # nothing to wait for: what must not come
        assert len(call.heard.data) == heard
        call.call("resume_output", second)
        until("the new answer", lambda: len(call.heard.data) == heard + PCM.bytes_for_us(3 * 250_000))
        lost = call.wait_for("audio_discontinuity").payload
        assert lost["cause"] == "output_interrupted"
        assert lost["dropped_bytes"] == PCM.bytes_for_us(4 * 250_000)
        statuses = [event.payload["status"] for event in call.sink.events("provider_speech")]
        assert statuses[:5] == ["speaking", "idle", "speaking", "idle", "speaking"]


@pytest.mark.row("GM-09")
def test_a_result_without_words_and_a_call_taken_back_end_as_the_service_expects() -> None:
    script = (Step(100, "call", "fc-1"), Step(150, "call", "fc-2"), Step(200, "cancel", "fc-2"))
    with FakeGemini(script) as fake, talking(fake) as call:
        assert call.wait_for("delegation_cancelled").payload == {"delegation_id": "fc-2"}
        call.call("resolve_delegation", "fc-2", DelegationOutcome.CANCELLED)
        call.call("resolve_delegation", "fc-1", DelegationOutcome.NO_CONTENT)
        fake.wait_for("toolResponse")
        call.close_adapter()
    assert [(each["id"], each["scheduling"]) for each in responses(fake)] == [("fc-1", "SILENT")]


@pytest.mark.row("PC-15", "PC-18")
def test_what_is_malformed_never_gets_there_and_a_repeated_append_goes_out_once() -> None:
    with FakeGemini() as fake, talking(fake) as call:
        with pytest.raises(InvalidArgument):
            call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "  "), "blank")
        with pytest.raises(Conflict):
            call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "x", "fc-9"), "unknown")
        long = "x" * 50_000
        for _ in range(2):
            call.call("append_context", ContextUpdate(ContextKind.QUIET, long), "same")
        call.wait_for("context_submitted", command_id="same")
        with pytest.raises(Conflict):
            call.call("append_context", ContextUpdate(ContextKind.QUIET, "other"), "same")
        call.close_adapter()
    (content,) = fake.sessions[0].of("clientContent")
    assert content["turns"][0]["parts"][0]["text"].endswith(long)


def test_more_appends_than_records_find_room_for_each_is_settled_by_its_submission() -> None:
    limits = Limits(max_records=20)
    with FakeGemini() as fake, talking(fake, limits=limits) as call:
        for index in range(60):
            call.call("append_context", ContextUpdate(ContextKind.QUIET, "note"), f"a{index}")
        call.wait_for("context_submitted", command_id="a59")
        assert call.sink.events("context_rejected") == []


# ---- startup


def test_a_certificate_of_ones_own_is_trusted_by_name_only() -> None:
    certificate = Path(__file__).parent / "certificate"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate / "certificate.pem", certificate / "key.pem")
    with FakeGemini(tls=tls) as fake:
        with pytest.raises(ParloraError, match="certificate"), talking(fake):
            pass
        with talking(fake, options={"ca_file": str(certificate / "certificate.pem")}) as call:
            until("some audio", lambda: fake.sessions[0].audio_bytes)
            call.close_adapter()


@pytest.mark.parametrize("path", PATHS)
def test_both_versions_of_the_api_and_a_history_begin_a_call(path: str) -> None:
    history = ({"speaker": "user", "text": "I called about a cake"}, {"speaker": "assistant", "text": "Yes?"})
    with FakeGemini() as fake:
        fake.url = f"ws://127.0.0.1:{fake.port}{path}"
        with talking(fake, history=history) as call:
            content = fake.wait_for("clientContent")
            assert [turn["role"] for turn in content["turns"]] == ["user", "model"]
            call.close_adapter()
        assert fake.sessions[0].path == path
        assert fake.sessions[0].close_code == 1000


def test_a_wrong_key_is_the_services_own_word_and_no_word_of_the_key() -> None:
    with (
        FakeGemini(api_key="another") as fake,
        pytest.raises(ParloraError, match="1007: API key not valid") as failed,
        talking(fake),
    ):
        pass
    assert KEY not in repr(failed.value) + str(failed.value.to_data())


def test_a_service_that_never_confirms_ends_at_the_startup_deadline() -> None:
    faults = [Fault(FaultKind.SLOW_START, at_ms=1_500)]
    with (
        FakeGemini(faults=faults) as fake,
        pytest.raises(Timeout),
        talking(fake, limits=Limits(startup_timeout_ms=500)),
    ):
        pass


def test_an_early_word_counts_for_nothing_and_an_unknown_one_neither() -> None:
    for kind in (FaultKind.WRONG_ORDER, FaultKind.UNKNOWN_EVENT):
        with FakeGemini(faults=[Fault(kind, 100)]) as fake, talking(fake) as call:
            until("half a second", lambda fake=fake: fake.sessions[0].audio_bytes >= 16_000)
            assert call.close_adapter().payload["ignored_messages"] == 3
            assert call.heard.data == b""
            assert not call.sink.events("delegation_requested")
            assert not call.sink.events("transcript_delta")


@pytest.mark.row("PC-25")
def test_an_error_that_names_nothing_is_surfaced_and_the_call_goes_on() -> None:
    with FakeGemini(faults=[Fault(FaultKind.ERROR, at_ms=100)]) as fake, talking(fake) as call:
        event = call.wait_for("extension")
        assert event.command_id is None
        assert event.payload["gemini.error"]["details"] == {"provider_code": "server_error"}
        call.call("append_context", ContextUpdate(ContextKind.QUIET, "still there"), "q")
        call.wait_for("context_submitted", command_id="q")


def test_half_a_sample_is_dropped_and_counted() -> None:
    with FakeGemini(faults=[Fault(FaultKind.ODD_PCM, 100)]) as fake, talking(fake) as call:
        until("the packet", lambda: call.heard.data)
        assert call.close_adapter().payload["half_samples"] == 1


def test_an_answer_longer_than_the_store_is_told_packet_by_packet_and_the_call_goes_on() -> None:
    with FakeGemini(faults=[Fault(FaultKind.FLOOD, 200)]) as fake, talking(fake, drain=False) as call:
        lost = call.wait_for("audio_discontinuity").payload
        assert lost["stream"] == "generated"
        assert call.audio_out.status().queued_bytes <= PCM.bytes_for_us(10_000_000)
        assert not call.sink.events("failed")


def test_a_close_is_at_once_for_the_service_has_no_last_word() -> None:
    with FakeGemini() as fake, talking(fake) as call:
        until("some audio", lambda: fake.sessions[0].audio_bytes)
        began = time.monotonic()
        closed = call.close_adapter()
        assert time.monotonic() - began < 1.0
        assert closed.payload["finalization_observed"] is False
        call.call("close", "finish", "again")
        assert len(call.sink.events("closed")) == 1
