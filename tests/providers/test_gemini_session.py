"""A whole session with Gemini on real processes, against the local fake."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.gemini import FakeGemini
from parlora.testing.providers.gemini_session import Step
from parlora.wire import to_data
from parlora_actors.host import ActorHost
from tests.providers.openai_calls import KEY
from tests.sessions import Call, call, host, wait_for  # noqa: F401 - fixtures

SCRIPT = (Step(1_500, "user", "where is my order"), Step(2_500, "call", "fc-1"))


@pytest.fixture
def parts(tmp_path: Path) -> Callable[[FakeGemini], dict[str, Any]]:
    """What the session is made of; the key lies in a file."""
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)

    def of(fake: FakeGemini) -> dict[str, Any]:
        return {
            "provider": ("parlora.providers.gemini:Gemini", {"api_key_file": str(key), "url": fake.url}),
            "backend": ("parlora.backends.trivial:TrivialBackend", {"summary": "It is on its way"}),
            "context_policy": ("parlora.policies:Delegate", {}),
            "instructions": "You answer for a shop.",
        }

    return of


@pytest.mark.row("PC-01", "GM-02", "GM-05", "GM-07", "GM-08")
def test_a_question_is_answered_over_every_process_with_a_lost_connection_and_an_interruption_on_the_way(
    call: Callable[..., Call],  # noqa: F811
    parts: Callable[[FakeGemini], dict[str, Any]],
    host: ActorHost,  # noqa: F811
) -> None:
    script = (Step(500, "assistant", "what can I do for you"), Step(900, "interrupt"), *SCRIPT)
    lost = Fault(FaultKind.NO_CLOSE_FRAME, 3_500, connections=(1,))
    with FakeGemini(script, [lost], api_key=KEY, speaks=True) as fake:
        session = call(**parts(fake)).ready()
        interrupted = session.event("output_interrupted", "provider")
        cleared = session.event("control_completed", "session", interruption=True)
        assert cleared.at_us > interrupted.at_us
        answer = fake.wait_for("toolResponse", timeout_s=20)["functionResponses"][0]
        assert (answer["id"], answer["response"]) == ("fc-1", {"output": "It is on its way"})
        submitted = session.event("context_submitted", "provider", evidence="socket_write")
        delivery = session.event("result_delivery", "session", stage="unconfirmed")
        assert delivery.at_us > submitted.at_us
        status = session.session.status()
        (job,) = status["jobs"].values()
        assert (job["status"], job["delivery"]) == ("completed", "unconfirmed")
        assert status["context_acknowledgment"] is False
        wait_for("the spoken answer", lambda: [e for e in session.of("transcript_delta") if _is_spoken(e)])
        session.event("provider_connection", "provider", status="resumed")
        assert fake.sessions[1].of("setup")[0]["sessionResumption"]["handle"]
        assert len(session.of("ready", "provider")) == len(session.of("ready", "session")) == 1
        assert not session.of("context_acknowledged")
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in session.below()]
        closed = session.end()
        assert closed["finalization_observed"] is False
        told = json.dumps([to_data(event) for event in session.events])
        assert host.run_dir is not None
        logged = b"".join(path.read_bytes() for path in Path(host.run_dir).glob("*.log"))
        for where in (*lines, told.encode(), logged):
            assert KEY.encode() not in where


@pytest.mark.row("GM-06")
def test_a_call_taken_back_keeps_its_task_and_stops_no_work(
    call: Callable[..., Call],  # noqa: F811
    parts: Callable[[FakeGemini], dict[str, Any]],
) -> None:
    script = (*SCRIPT, Step(3_000, "cancel", "fc-1"))
    slow = ("parlora.backends.functions:Functions", {"handler": "tests.providers.gemini_calls:answer_later"})
    with FakeGemini(script, api_key=KEY) as fake:
        session = call(**{**parts(fake), "backend": slow}).ready()
        request = session.event("task_submitted", "session").payload["request"]
        session.event("delegation_cancelled", "provider", delegation_id="fc-1")

        def cancelled() -> dict[str, Any] | None:
            entry = session.session.status()["delegations"]["fc-1"]
            return entry if entry["status"] == "cancelled" else None

        entry = wait_for("the cancelled call", cancelled)
        assert entry["task_id"] == request["task_id"]
        assert entry["task_revision"] == 1
        session.event("result_recorded", "session", status="completed", current=False)
        session.event("result_delivery", "session", stage="stale")
        assert not session.of("cancellation_requested")
        session.end()
        for kind in ("toolResponse", "clientContent"):  # nobody waits for it any more
            assert fake.sessions[0].of(kind) == []


def _is_spoken(event: Any) -> bool:
    return event.payload["speaker"] == "assistant" and event.payload["delta"].strip() == "way"
