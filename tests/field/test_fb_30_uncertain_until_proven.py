"""FB-30: a call reported as interrupted ran 98 minutes later, after its caller had made up for it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel
from tests.sessions import MISBEHAVING, TRIVIAL, Call


def test_a_backend_that_dies_after_the_effect_leaves_it_uncertain_and_nothing_is_done_again(
    call: Callable[..., Call], tmp_path: Path
) -> None:
    log = tmp_path / "effects"
    session = call(
        **{
            **TRIVIAL,
            "provider": f"{MISBEHAVING}:Delegating",
            "backend": (f"{MISBEHAVING}:StubbornBackend", {"log": str(log)}),
            "context_policy": f"{MISBEHAVING}:start_everything",
        }
    ).ready()
    request_id = session.event("request_started", "backend").request_id
    os.kill(session.pid("backend"), signal.SIGKILL)
    closed = session.closed()

    assert {key: job["status"] for key, job in closed["jobs"].items()} == {request_id: "uncertain"}
    assert log.read_text().split() == [request_id]
    assert not session.of("request_failed")


@pytest.mark.parametrize("superseded", [False, True])
def test_a_late_result_is_matched_to_its_revision_and_a_stale_one_is_never_spoken(superseded: bool) -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    model.decide(ContextDecision(DecisionKind.START_TASK, delegation_id="d1", input={}))
    request = model.request()
    model.event(Role.BACKEND, "request_uncertain", {"task_revision": 1, "reason": "lost"}, request_id=request["id"])
    if superseded:
        model.delegate("d2")
        change = ContextDecision(
            DecisionKind.SUPERSEDE_TASK,
            task_id=request["task_id"],
            expected_task_revision=1,
            delegation_id="d2",
            input={},
        )
        model.decide(change)
    submitted = len(model.effects)
    model.complete(request, summary="It was done after all.")

    assert model.status()["jobs"][request["id"]]["status"] == "completed"  # reported, late
    assert ("It was done after all." in model.appended_texts()) is not superseded
    assert model.stages(request["id"])[-1] == ("stale" if superseded else "accepted")
    assert not [effect for effect in model.effects[submitted:] if getattr(effect, "call", None) == "submit"]
