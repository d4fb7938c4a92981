"""A Gemini connection that is lost or about to end: the session goes on over another one, or the call fails by name."""

import time
from typing import Any

import pytest

pytest.importorskip(
    "google.genai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test"
)

from parlora.contract.provider import ContextKind, ContextUpdate, DelegationOutcome, MuteInput
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.gemini import FakeGemini
from parlora.testing.providers.gemini_session import Step
from tests.providers.gemini_calls import QuickGemini
from tests.providers.openai_calls import KEY, KEY_ENV, calling, until

CALL = Step(100, "call", "fc-1")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


def talking(fake: FakeGemini, **more: Any) -> Any:
    return calling(fake, **{"adapter": QuickGemini, **more})


def connection(call: Any) -> list[str]:
    return [event.payload["status"] for event in call.sink.events("provider_connection")]


@pytest.mark.row("GM-05")
@pytest.mark.parametrize(
    "fault",
    [
        Fault(FaultKind.NO_CLOSE_FRAME, 300, connections=(1,)),
        Fault(FaultKind.RESET, 300, connections=(1,)),
        Fault(FaultKind.SILENT, 300, connections=(1,)),
        Fault(FaultKind.CLOSE_CODE, 300, connections=(1,), code=1000),
        Fault(FaultKind.CLOSE_CODE, 300, connections=(1,), code=1011),
    ],
    ids=lambda fault: f"{fault.kind}-{fault.code}",
)
def test_a_lost_connection_is_resumed_with_its_open_call_and_without_a_second_ready(fault: Fault) -> None:
    with FakeGemini([CALL], [fault], refuse_resume_ms=500, speaks=True) as fake, talking(fake) as call:
        call.wait_for("delegation_requested")
        reconnecting = call.wait_for("provider_connection").payload
        assert reconnecting["status"] == "reconnecting"
        assert reconnecting["reason"]
        until("the session again", lambda: connection(call) == ["reconnecting", "resumed"])
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "It is ready", "fc-1"), "s")
        until("the answer", lambda: call.sink.events("transcript_delta"))
        assert len(fake.sessions) >= 2  # refused at least once, but where the loss itself took as long
        until("the caller's audio", lambda: fake.sessions[-1].audio_bytes > 16_000)
        assert len(call.sink.events("ready")) == 1
        assert len(call.sink.events("delegation_requested")) == 1
        assert not call.sink.events("failed")
        lost = [event.payload["cause"] for event in call.sink.events("audio_discontinuity")]
        assert set(lost) <= {"provider_recovery"}
        call.close_adapter()
    setups = [session.of("setup")[0] for session in fake.sessions]
    assert setups[0]["sessionResumption"] == {}
    assert all(setup["sessionResumption"]["handle"] for setup in setups[1:])
    without = [{**setup, "sessionResumption": None} for setup in setups]
    assert without == [without[0]] * len(without)
    assert fake.sessions[-1].of("toolResponse")[0]["functionResponses"][0]["id"] == "fc-1"


@pytest.mark.row("GM-05")
def test_an_announced_end_is_left_for_another_connection_once_the_answer_is_said() -> None:
    script = (Step(100, "assistant", "one two"), Step(200, "go_away", "5s"))
    with FakeGemini(script) as fake, talking(fake) as call:
        call.wait_for("provider_connection")
        assert call.sink.events("provider_connection")[0].payload == {"status": "reconnecting", "reason": "go_away"}
        assert [event.payload["status"] for event in call.sink.events("provider_speech")] == ["speaking", "idle"]
        until("the other connection", lambda: connection(call) == ["reconnecting", "resumed"])
        until("the first one's end", lambda: fake.sessions[0].ended)
        assert fake.sessions[0].close_code == 1000  # ours, before the service's own
        assert len(call.sink.events("ready")) == 1


def test_what_comes_while_there_is_no_connection_waits_for_the_next() -> None:
    script = (CALL, Step(150, "call", "fc-2"), Step(300, "close", "1011"))
    with FakeGemini(script, refuse_resume_ms=600) as fake, talking(fake) as call:
        call.wait_for("delegation_requested", nth=2)
        call.wait_for("provider_connection")
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "ready", "fc-1"), "s")
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "ready", "fc-1"), "s")
        call.call("resolve_delegation", "fc-2", DelegationOutcome.COMPLETED)
        call.call("control", MuteInput(True), "mute")
        assert call.sink.events("context_submitted") == []
        call.wait_for("context_submitted", command_id="s")
        call.wait_for("control_completed", command_id="mute")
        until("both answers", lambda: len(fake.sessions[-1].of("toolResponse")) == 2)
        assert connection(call) == ["reconnecting", "resumed"]


@pytest.mark.parametrize(
    ("faults", "options", "code"),
    [
        ([Fault(FaultKind.CLOSE_CODE, 200, code=1007)], {}, 1007),
        ([Fault(FaultKind.CLOSE_CODE, 200, code=1008)], {}, 1008),
        ([Fault(FaultKind.NO_CLOSE_FRAME, 200)], {"resumable": False}, None),
        (
            [Fault(FaultKind.NO_CLOSE_FRAME, 200), Fault(FaultKind.REFUSED, connections=(2,), code=403)],
            {},
            403,
        ),
    ],
    ids=["1007", "1008", "no handle", "403"],
)
def test_an_end_that_cannot_be_resumed_from_fails_the_call_at_once(
    faults: list[Fault], options: dict[str, Any], code: int | None
) -> None:
    with FakeGemini(faults=faults, **options) as fake, talking(fake) as call:
        error = call.wait_for("failed").payload["error"]
        assert error["details"]["code"] == code
        assert "resumed" not in connection(call)
        assert call.close_adapter().payload["finalization_observed"] is False
        assert len(call.sink.events("failed")) == 1


@pytest.mark.parametrize("how", ["refused", "1011", "silent"])
def test_a_session_that_does_not_come_back_in_time_fails_the_call_with_the_reason(how: str) -> None:
    lost = Fault(FaultKind.NO_CLOSE_FRAME, 200, connections=(1,))
    later = tuple(range(2, 40))
    faults = {
        "refused": [lost, Fault(FaultKind.REFUSED, connections=later, code=503)],
        "1011": [lost],
        "silent": [lost, Fault(FaultKind.DEAF, connections=later)],
    }[how]
    with FakeGemini(faults=faults, refuse_resume_ms=60_000 if how == "1011" else 0) as fake, talking(fake) as call:
        began = time.monotonic()
        call.wait_for("provider_connection")
        call.call("append_context", ContextUpdate(ContextKind.QUIET, "lost"), "open")
        error = call.wait_for("failed", timeout_ms=8_000).payload["error"]
        assert 3.0 < time.monotonic() - began < 6.5
        assert len(call.sink.events("failed")) == 1
        assert connection(call) == ["reconnecting"]
        assert {"refused": "503", "1011": "1011", "silent": "nothing was heard"}[how] in error["message"]
        attempts = len(fake.sessions) - 1 + len(fake.refused)
        assert attempts >= (1 if how == "silent" else 5)
        assert call.close_adapter().payload["unconfirmed_commands"] == ["open"]


def test_closing_while_there_is_no_connection_ends_at_once() -> None:
    lost = Fault(FaultKind.NO_CLOSE_FRAME, 200, connections=(1,))
    with FakeGemini(faults=[lost], refuse_resume_ms=60_000) as fake, talking(fake) as call:
        call.wait_for("provider_connection")
        began = time.monotonic()
        call.close_adapter()
        assert time.monotonic() - began < 1.0
        assert not call.sink.events("failed")
        count = len(fake.sessions)
        time.sleep(0.5)  # two pauses between attempts: what must not come
        assert len(fake.sessions) == count


@pytest.mark.row("GM-08")
def test_a_barrier_that_ends_while_there_is_no_connection_lets_the_next_answer_through() -> None:
    script = (Step(100, "assistant", "a long answer"), Step(200, "interrupt"), Step(300, "close", "1011"))
    with FakeGemini(script, refuse_resume_ms=500, speaks=True) as fake, talking(fake) as call:
        token = call.wait_for("output_interrupted").payload["token"]
        call.wait_for("provider_connection")
        call.call("resume_output", token)
        heard = len(call.heard.data)
        until("the session again", lambda: connection(call) == ["reconnecting", "resumed"])
        call.call("append_context", ContextUpdate(ContextKind.SPEAKABLE, "hello"), "s")
        until("the next answer", lambda: len(call.heard.data) > heard)
