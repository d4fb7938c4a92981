"""Overload of the generated-audio store: whole packets, one recovery by token, and nothing else exchanged."""

import time

import pytest

pytest.importorskip("openai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test")

from parlora.audio.format import AudioFormat
from parlora.context.snapshot import ContextSnapshot
from parlora.contract.provider import ContextKind, ContextUpdate, MuteInput
from parlora.errors import NotReady
from parlora.testing.adapters import AdapterHarness
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.openai import FakeOpenAI
from tests.providers.openai_calls import KEY, KEY_ENV, calling, until

PCM = AudioFormat.pcm16()
FLOOD = Fault(FaultKind.FLOOD, at_ms=200, connections=(1,))


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


def snapshot(*captions: tuple[str, str]) -> ContextSnapshot:
    """Captions newest first, as a session keeps them."""
    transcripts = [
        {"speaker": speaker, "delta": delta, "start_ms": None, "end_ms": None, "provider_generation": 0}
        for speaker, delta in reversed(captions)
    ]
    return ContextSnapshot("session", 1, 0, "unknown", {}, transcripts, {}, {})


def overloaded(call: AdapterHarness) -> str:
    """Let the session begin, wait for the flood, and clear as the session would."""
    until("audio", lambda: call.audio_out.status().queued_bytes)
    call.audio_out.read(96_000)  # the session has begun: what comes now is no longer from before anybody listened
    token = call.wait_for("output_recovery_requested").payload["token"]
    call.audio_out.clear(1)
    call.call("clear_output", 1)
    return str(token)


@pytest.mark.row("AU-24", "AU-25", "OA-06", "PC-20", "PC-21", "PC-22", "LM-22")
def test_a_packet_that_does_not_fit_is_refused_whole_and_told_in_numbers() -> None:
    with FakeOpenAI(faults=[FLOOD]) as fake, calling(fake, drain=False) as call:
        until("audio", lambda: call.audio_out.status().queued_bytes)
        call.audio_out.read(96_000)
        lost = call.wait_for("audio_discontinuity").payload
        requested = call.wait_for("output_recovery_requested")
        assert requested.payload["token"]
        status = call.audio_out.status()
        packet = PCM.bytes_for_us(100_000)
        assert status.queued_bytes % packet == 0
        assert status.queued_bytes + packet > status.capacity_bytes
        assert (lost["stream"], lost["cause"], lost["dropped_bytes"]) == ("generated", "provider_overload", packet)
        assert lost["dropped_duration_us"] == 100_000
        numbers = lost["diagnostics"]
        assert numbers["incoming_bytes"] == numbers["discarded_bytes"] == packet
        assert numbers["queued_bytes"] == status.queued_bytes
        assert numbers["capacity_bytes"] == 96_000
        assert numbers["oldest_age_us"] > 0
        assert 0 < len(numbers["trace"]) <= 64
        assert {entry["what"] for entry in numbers["trace"]} == {"received", "read", "refused"}
        times = [entry["at_us"] for entry in numbers["trace"]]
        assert times == sorted(times)
        assert times[-1] <= 0
        assert all(isinstance(v, int) for entry in numbers["trace"] for k, v in entry.items() if k != "what")
        assert call.sink.events("output_recovery_requested") == [requested]


@pytest.mark.row("OA-08", "OA-09")
def test_only_the_transport_is_exchanged_and_the_fresh_one_knows_the_call() -> None:
    with FakeOpenAI(faults=[FLOOD]) as fake, calling(fake, drain=False, instructions="be brief") as call:
        call.call("control", MuteInput(True), "mute")
        call.wait_for("control_completed", command_id="mute")
        token = overloaded(call)
        with pytest.raises(NotReady):
            call.call("append_context", ContextUpdate(ContextKind.QUIET, "x"), "during")
        with pytest.raises(NotReady):
            call.call("recover_output", "another", snapshot())
        talk = snapshot(("user", "where is"), ("user", " my order"), ("assistant", "one moment"))
        call.call("recover_output", token, talk)
        recovered = call.wait_for("output_recovered")
        assert recovered.payload == {"token": token}
        assert fake.wait_for("session.close")["type"] == "session.close"
        start = fake.wait_for("session.start", session=2)["session"]
        assert start["instructions"] == "be brief"
        assert [(m["role"], m["content"][0]["text"]) for m in start["input"]] == [
            ("user", "where is my order"),
            ("assistant", "one moment"),
        ]
        fake.wait_for("session.input_audio.mute", session=2)
        assert len(call.sink.events("ready")) == 1
        assert {(event.adapter_id, event.generation) for event in call.sink.events()} == {("provider-1", 0)}
        call.call("append_context", ContextUpdate(ContextKind.QUIET, "x"), "after")
        call.wait_for("context_acknowledged", command_id="after")
        until("audio of the fresh transport", lambda: call.audio_out.status().queued_bytes)
        call.audio_out.read(96_000)
        losses = [event.payload for event in call.sink.events("audio_discontinuity")]
        causes = {loss["cause"] for loss in losses if loss["stream"] == "generated"}
        assert causes == {"provider_overload", "provider_recovery"}
        assert all(loss["dropped_bytes"] % PCM.bytes_for_us(100_000) == 0 for loss in losses)
        assert call.close_adapter().payload["finalization_observed"] is True
        assert len(call.sink.events("output_recovered")) == 1


@pytest.mark.row("OA-12")
@pytest.mark.parametrize("fault", [FaultKind.REFUSED, FaultKind.RESET, FaultKind.SLOW_START])
def test_a_reconnection_that_fails_ends_the_call_in_words(fault: FaultKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parlora.providers.cloud.call.RECOVERY_RECONNECT_TIMEOUT_MS", 700)
    at_ms = 2_000 if fault is FaultKind.SLOW_START else 0
    second = Fault(fault, at_ms=at_ms, connections=(2,), code=503)
    if fault is FaultKind.RESET:
        second = Fault(FaultKind.SLOW_START, at_ms=900, connections=(2,))
    with FakeOpenAI(faults=[FLOOD, second]) as fake, calling(fake, drain=False) as call:
        token = overloaded(call)
        began = time.monotonic()
        call.call("recover_output", token, snapshot())
        error = call.wait_for("failed").payload["error"]
        assert error["code"] in ("timeout", "adapter_failed")
        assert time.monotonic() - began < 4 * 0.7
        assert not call.sink.events("output_recovered")
        assert call.close_adapter().payload["finalization_observed"] is False


def test_a_recovery_nobody_carries_out_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parlora.providers.cloud.call.RECOVERY_RECONNECT_TIMEOUT_MS", 300)
    with FakeOpenAI(faults=[FLOOD]) as fake, calling(fake, drain=False) as call:
        overloaded(call)
        assert call.wait_for("failed").payload["error"]["code"] == "timeout"


@pytest.mark.row("OA-13")
def test_after_close_there_is_no_recovery() -> None:
    late = Fault(FaultKind.FLOOD, at_ms=500)
    with FakeOpenAI(faults=[late]) as fake, calling(fake, drain=False) as call:
        until("audio", lambda: call.audio_out.status().queued_bytes)
        call.audio_out.read(96_000)
        call.close_adapter()
        assert not call.sink.events("output_recovery_requested")
        assert not call.sink.events("audio_discontinuity")


def test_a_session_that_has_not_begun_is_not_overloaded_by_what_comes_before_it() -> None:
    with FakeOpenAI(faults=[FLOOD]) as fake, calling(fake, drain=False) as call:
        lost = call.wait_for("audio_discontinuity").payload
        assert lost["cause"] == "startup_buffer_discard"
        assert not call.sink.events("output_recovery_requested")
        call.audio_out.read(96_000)
        until("what comes once it has begun", lambda: call.audio_out.status().queued_bytes)
