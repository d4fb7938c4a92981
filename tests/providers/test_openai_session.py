"""A whole session with GPT-Live on real processes, against the local fake."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.openai import FakeOpenAI
from parlora.testing.providers.openai_session import Step
from parlora.wire import to_data
from parlora_actors import procfs
from parlora_actors.host import ActorHost
from tests.providers.openai_calls import KEY
from tests.sessions import Call, call, host, wait_for  # noqa: F401 - fixtures

SCRIPT = (Step(1_500, "user", "where is my order"), Step(2_500, "delegation", "item_1"))


@pytest.fixture
def parts(tmp_path: Path) -> Callable[[FakeOpenAI], dict[str, Any]]:
    """What the session is made of; the key lies in a file."""
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)

    def of(fake: FakeOpenAI) -> dict[str, Any]:
        return {
            "provider": ("parlora.providers.openai:OpenAI", {"api_key_file": str(key), "url": fake.url}),
            "backend": ("parlora.backends.trivial:TrivialBackend", {"summary": "It is on its way"}),
            "context_policy": ("parlora.policies:Delegate", {}),
            "instructions": "You answer for a shop.",
        }

    return of


def answered(session: Call, fake: FakeOpenAI, number: int) -> None:
    """The caller's question came out as a task, and its result went in as a commentary that was acknowledged."""
    append = fake.wait_for("session.commentary.append", session=number, timeout_s=20)
    assert (append["content"], append["delegation_id"]) == ("It is on its way", "item_1")
    session.event("result_delivery", "session", stage="accepted")


@pytest.mark.row("PC-01", "PC-14", "SD-12")
def test_a_question_is_answered_over_every_process_and_the_service_ends_the_session(
    call: Callable[..., Call],  # noqa: F811
    parts: Callable[[FakeOpenAI], dict[str, Any]],
    host: ActorHost,  # noqa: F811
) -> None:
    with FakeOpenAI(SCRIPT, api_key=KEY, speaks_commentary=True) as fake:
        session = call(**parts(fake)).ready()
        answered(session, fake, 1)
        spoken = wait_for("the spoken answer", lambda: [e for e in session.of("transcript_delta") if _is_spoken(e)])
        assert spoken
        assert fake.sessions[0].of("session.start")[0]["session"]["instructions"] == "You answer for a shop."
        lines = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in session.below()]
        closed = session.end()
        assert closed["finalization_observed"] is True
        assert closed["health"]
        told = json.dumps([to_data(event) for event in session.events])
        assert host.run_dir is not None
        logged = b"".join(path.read_bytes() for path in Path(host.run_dir).glob("*.log"))
        for where in (*lines, told.encode(), logged):
            assert KEY.encode() not in where
        assert procfs.is_alive(host.pid or 0)


@pytest.mark.row("OA-07", "OA-09", "OA-11")
def test_an_overload_is_recovered_from_with_every_other_process_as_it_was(
    call: Callable[..., Call],  # noqa: F811
    parts: Callable[[FakeOpenAI], dict[str, Any]],
) -> None:
    flood = Fault(FaultKind.FLOOD, at_ms=700, connections=(1,))
    with FakeOpenAI(SCRIPT, [flood], api_key=KEY) as fake:
        session = call(**parts(fake)).ready()
        before = session.processes()
        requested = session.event("output_recovery_requested", "provider")
        cleared = session.event("control_completed", "session", interruption=True)
        recovered = session.event("output_recovered", "provider")
        assert recovered.payload == {"token": requested.payload["token"]}
        assert cleared.payload["dropped_bytes"] > 0
        assert recovered.at_us - requested.at_us < 5_000_000
        answered(session, fake, 2)
        assert session.processes() == before
        assert len(session.of("task_submitted")) == 1
        assert len(session.of("ready", "provider")) == 1
        assert session.end()["finalization_observed"] is True


def _is_spoken(event: Any) -> bool:
    return event.payload["speaker"] == "assistant" and event.payload["delta"].strip() == "way"
