"""The GPT-Live adapter against the local fake: the same promises as every provider, over a real socket."""

import json
import math
import struct
import time
from pathlib import Path

import pytest

pytest.importorskip("openai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test")

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextKind, ContextUpdate, MuteInput
from parlora.errors import Closed, Conflict, InvalidArgument, ParloraError, Timeout
from parlora.limits import Limits
from parlora.providers.openai import OpenAI
from parlora.testing.adapters import AdapterHarness
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.openai import CloseVariant, FakeOpenAI
from parlora.testing.providers.openai_session import Step
from tests.providers.openai_calls import KEY, KEY_ENV, calling, until
from tests.unit.providers.openai import openai_oracle as oracle

PCM, PCMU = AudioFormat.pcm16(), AudioFormat.pcmu()
SCRIPT = (
    Step(200, "user", "where is my order"),
    Step(300, "assistant", "one moment"),
    Step(400, "delegation", "item_1"),
)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


def tone(duration_ms: int) -> bytes:
    count = PCM.sample_rate * duration_ms // 1_000
    return struct.pack(f"<{count}h", *(int(8_000 * math.sin(n / 10)) for n in range(count)))


@pytest.mark.row("PC-02", "PC-06", "PC-09", "OA-01", "OA-05", "LM-06")
@pytest.mark.parametrize("audio_format", [PCM, PCMU], ids=["pcm16", "pcmu"])
def test_audio_flows_both_ways_while_a_delegation_comes_out_and_its_answer_goes_in(audio_format: AudioFormat) -> None:
    with (
        FakeOpenAI(SCRIPT, api_key=KEY, speaks_commentary=True) as fake,
        calling(fake, audio_format=audio_format, instructions="be brief") as call,
    ):
        ready = call.wait_for("ready").payload
        assert ready["configuration"]["id"].startswith("live_")
        assert ready["capabilities"]["context_acknowledgment"] is True
        assert call.audio_out.status().capacity_bytes == audio_format.bytes_for_us(2_000_000)
        call.audio_in.write(audio_format.silence(100_000))
        delegation = call.wait_for("delegation_requested").payload
        assert delegation == {"delegation_id": "item_1", "target": "client", "offset_ms": 400}
        call.call("append_context", ContextUpdate(ContextKind.QUIET, "it is late", "item_1"), "q")
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "It is on its way", "item_1"), "s")
        for command_id in ("q", "s"):
            call.wait_for("context_acknowledged", command_id=command_id)

        def said_by(speaker: str) -> str:
            captions = [event.payload for event in call.sink.events("transcript_delta")]
            return "".join(caption["delta"] for caption in captions if caption["speaker"] == speaker)

        until("the answer", lambda: said_by("assistant") == "one momentIt is on its way")
        silence = bytes([audio_format.silence_byte])
        until("the sound of it", lambda: call.heard.data.strip(silence))
        assert call.heard.largest <= audio_format.bytes_for_us(20_000)
        assert len(call.heard.data) % audio_format.bytes_for_us(100_000) == 0
        closed = call.close_adapter()
        assert closed.payload["finalization_observed"] is True
        assert closed.payload["unconfirmed_commands"] == []
        assert call.sink.events("usage_final")[0].payload["final"] is True
        assert said_by("user") == "where is my order"
        assert not call.sink.events("audio_discontinuity")
    for message in fake.sessions[0].received:
        oracle.check_client(json.dumps(message))
    start = fake.sessions[0].of("session.start")[0]["session"]
    assert start["instructions"] == "be brief"


def test_silence_goes_out_in_real_time_while_nobody_speaks() -> None:
    with FakeOpenAI() as fake, calling(fake) as call:
        began = time.monotonic()
        until("a second of silence", lambda: fake.sessions[0].audio_bytes >= PCM.bytes_per_second)
        took = time.monotonic() - began
        assert took >= 0.9
        assert fake.sessions[0].loud_bytes == 0
        assert call.heard.data.strip(b"\0") == b""
        sent = fake.sessions[0].audio_bytes / PCM.bytes_per_second
        assert sent <= time.monotonic() - began + 0.35  # never ahead of time


@pytest.mark.row("PC-11", "CM-19")
def test_a_muted_caller_is_silence_at_the_service_and_the_service_says_that_it_is_muted() -> None:
    with FakeOpenAI() as fake, calling(fake) as call:
        call.audio_in.write(tone(100))
        until("the caller", lambda: fake.sessions[0].loud_bytes)
        call.call("control", MuteInput(True), "mute")
        done = call.wait_for("control_completed", command_id="mute").payload
        assert done == {"control": "mute_input", "on": True, "scope": "provider_input"}
        loud, sent = fake.sessions[0].loud_bytes, fake.sessions[0].audio_bytes
        for _ in range(5):
            call.audio_in.write(tone(100))
        until("what came in its place", lambda: fake.sessions[0].audio_bytes >= sent + PCM.bytes_for_us(500_000))
        assert fake.sessions[0].loud_bytes == loud
        call.call("control", MuteInput(False), "unmute")
        call.wait_for("control_completed", command_id="unmute")
        call.audio_in.write(tone(100))
        until("the caller again", lambda: fake.sessions[0].loud_bytes > loud)


@pytest.mark.row("PC-15", "PC-16", "PC-17", "PC-18")
def test_what_the_service_refuses_is_told_and_what_is_malformed_never_gets_there() -> None:
    with FakeOpenAI() as fake, calling(fake) as call:
        long = "x" * 2_100
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, long), "long")
        error = call.wait_for("context_rejected", command_id="long").payload["error"]
        assert "500 tokens" in error["message"]
        assert fake.wait_for("session.commentary.append")["content"] == long
        with pytest.raises(InvalidArgument):
            call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "  "), "blank")
        call.call("append_context", ContextUpdate(ContextKind.QUIET, "once"), "same")
        call.call("append_context", ContextUpdate(ContextKind.QUIET, "once"), "same")
        with pytest.raises(Conflict):
            call.call("append_context", ContextUpdate(ContextKind.QUIET, "other"), "same")
        call.wait_for("context_acknowledged", command_id="same")
        assert len(fake.sessions[0].of("session.thinking.append")) == 1


@pytest.mark.row("PC-25")
def test_an_error_that_names_nothing_is_surfaced_and_the_call_goes_on() -> None:
    with FakeOpenAI(faults=[Fault(FaultKind.ERROR, at_ms=100)]) as fake, calling(fake) as call:
        event = call.wait_for("extension")
        assert event.command_id is None
        assert event.payload["openai.error"]["details"] == {"provider_code": "server_error"}
        call.call("append_context", ContextUpdate(ContextKind.QUIET, "still there"), "q")
        call.wait_for("context_acknowledged", command_id="q")


# ---- startup


@pytest.mark.row("OA-04")
def test_a_startup_the_service_refuses_fails_with_its_words() -> None:
    with (
        FakeOpenAI() as fake,
        pytest.raises(ParloraError, match="no such voice"),
        calling(fake, options={"voice": "nova"}),
    ):
        pass
    assert fake.sessions[0].ended


def test_a_wrong_key_is_an_http_status_and_no_word_of_the_key() -> None:
    with FakeOpenAI(api_key="another") as fake, pytest.raises(ParloraError, match="HTTP 401") as failed, calling(fake):
        pass
    assert KEY not in repr(failed.value) + str(failed.value.to_data())


def test_a_service_that_never_confirms_ends_at_the_startup_deadline() -> None:
    faults = [Fault(FaultKind.SLOW_START, at_ms=1_500)]
    limits = Limits(startup_timeout_ms=500)
    began = time.monotonic()
    with FakeOpenAI(faults=faults) as fake, pytest.raises(Timeout), calling(fake, limits=limits):
        pass
    assert time.monotonic() - began < 10


def test_nobody_at_the_url_is_an_error_that_says_so() -> None:
    with FakeOpenAI() as fake:
        pass
    with pytest.raises(ParloraError, match="cannot be reached"), calling(fake):
        pass


def test_a_history_beyond_the_limit_is_refused_before_anything_is_opened() -> None:
    history = tuple({"speaker": "user", "text": "x"} for _ in range(129))
    with FakeOpenAI() as fake, pytest.raises(InvalidArgument, match="128"), calling(fake, history=history):
        pass
    assert fake.sessions == []


def test_a_missing_key_is_named_by_its_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY_ENV)
    with FakeOpenAI() as fake, pytest.raises(InvalidArgument, match=KEY_ENV), calling(fake):
        pass
    assert fake.sessions == []


def test_the_key_may_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY + "\n")
    with FakeOpenAI(api_key=KEY) as fake, AdapterHarness(OpenAI(api_key_file=str(path), url=fake.url)) as harness:
        harness.start()
        harness.close_adapter()


# ---- close


@pytest.mark.row("SD-19", "SD-22")
@pytest.mark.parametrize("variant", list(CloseVariant))
def test_close_waits_for_the_services_last_word_and_not_for_its_socket(variant: CloseVariant) -> None:
    with FakeOpenAI(close=variant) as fake, calling(fake) as call:
        until("some audio", lambda: fake.sessions[0].audio_bytes)
        began = time.monotonic()
        closed = call.close_adapter()
        assert time.monotonic() - began < 1.9  # the fake's socket may stay open for 2 s
        assert closed.payload["finalization_observed"] is True
        assert closed.command_id == "close"
        assert [event.type for event in call.sink.events()][-2:] == ["usage_final", "closed"]


@pytest.mark.row("SD-17", "OA-15")
def test_a_missing_acknowledgment_at_close_is_no_outcome() -> None:
    limits = Limits(shutdown_timeout_ms=600)
    with (
        FakeOpenAI(faults=[Fault(FaultKind.SILENT, at_ms=200)]) as fake,
        calling(fake, limits=limits, adapter=OpenAI) as call,
    ):
        until("the silence", lambda: fake.sessions[0].audio_bytes > PCM.bytes_for_us(250_000))
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "lost?"), "open")
        closed = call.close_adapter().payload
        assert closed["unconfirmed_commands"] == ["open"]
        assert not [event for event in call.sink.events() if event.command_id == "open"]


@pytest.mark.row("SD-21", "SD-22")
@pytest.mark.parametrize("kind", [FaultKind.SILENT, FaultKind.DEAF, FaultKind.HALF_FRAME])
def test_an_end_the_service_never_confirms_is_unconfirmed_at_the_deadline(kind: FaultKind) -> None:
    limits = Limits(shutdown_timeout_ms=800)
    with FakeOpenAI(faults=[Fault(kind, at_ms=100)]) as fake, calling(fake, limits=limits, adapter=OpenAI) as call:
        until("the fault", lambda: fake.sessions[0].audio_bytes >= PCM.bytes_for_us(100_000))
        began = time.monotonic()
        closed = call.close_adapter().payload
        assert closed["finalization_observed"] is False
        assert 0.3 < time.monotonic() - began < 4 * 0.8
        assert call.sink.events("usage_final") == []


@pytest.mark.row("SD-18", "SD-20")
def test_tail_audio_after_close_is_dropped_and_fails_nothing() -> None:
    limits = Limits(shutdown_timeout_ms=1_000)
    flood = [Fault(FaultKind.FLOOD, at_ms=300), Fault(FaultKind.SILENT, at_ms=200)]
    with FakeOpenAI(faults=flood) as fake, calling(fake, limits=limits, drain=False, adapter=OpenAI) as call:
        call.audio_in.write(PCM.silence(100_000))
        call.call("close", "finish", "close")
        level = call.audio_out.status().queued_bytes
        call.wait_for("closed")
        assert call.audio_out.status().queued_bytes == level
        assert call.audio_in.status().queued_bytes == 0
        assert not call.sink.events("failed")
        assert not call.sink.events("audio_discontinuity")
        assert not call.sink.events("output_recovery_requested")


@pytest.mark.row("SD-02", "SD-03")
def test_a_closing_provider_takes_no_work_and_closes_once() -> None:
    with FakeOpenAI() as fake, calling(fake) as call:
        call.close_adapter()
        call.call("close", "finish", "again")
        with pytest.raises(Closed):
            call.call("append_context", ContextUpdate(ContextKind.QUIET, "late"), "late")
        assert len(call.sink.events("closed")) == 1
        assert len(fake.sessions[0].of("session.close")) == 1


def test_a_session_the_service_ends_is_closed_with_its_reason() -> None:
    with FakeOpenAI([Step(200, "end", "content")]) as fake, calling(fake) as call:
        closed = call.wait_for("closed").payload
        assert (closed["reason"], closed["finalization_observed"]) == ("content", True)
        assert call.sink.events("usage_final")
        assert fake.sessions[0].of("session.close") == []
