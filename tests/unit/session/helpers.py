"""Decisions and shorthands that the session tests share."""

from typing import Any

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.errors import ErrorCode
from parlora.limits import Limits
from parlora.session.effects import Answer
from parlora.testing.session_model import SessionModel, session_spec


def start(delegation_id: str, **input: Any) -> ContextDecision:
    return ContextDecision(DecisionKind.START_TASK, delegation_id=delegation_id, input=input or {"order": "124"})


def follow_up(task: dict[str, Any], **input: Any) -> ContextDecision:
    return ContextDecision(
        DecisionKind.START_TASK,
        anchor_task_id=task["id"],
        expected_anchor_revision=task["revision"],
        input=input or {"order": "124", "operation": "items"},
    )


def supersede(task: dict[str, Any], **input: Any) -> ContextDecision:
    return on_task(DecisionKind.SUPERSEDE_TASK, task, input=input or {"order": "123"})


def on_task(kind: DecisionKind, task: dict[str, Any], **fields: Any) -> ContextDecision:
    return ContextDecision(kind, task_id=task["id"], expected_task_revision=task["revision"], **fields)


def only_task(model: SessionModel) -> dict[str, Any]:
    (task,) = model.snapshot()["tasks"].values()
    found: dict[str, Any] = task
    return found


def with_limits(**limits: int) -> SessionModel:
    return SessionModel(session_spec(Limits(**limits)))


def started(model: SessionModel | None = None, delegation_id: str = "d1", **input: Any) -> SessionModel:
    """A ready session whose first delegation has become a submitted request."""
    model = model or SessionModel()
    model.ready()
    model.delegate(delegation_id)
    model.decide(start(delegation_id, **input))
    return model


def error_code(answer: Answer | None) -> str | None:
    assert answer is not None
    return answer.error["code"] if answer.error is not None else None


UNKNOWN = {"code": ErrorCode.TIMEOUT, "message": "did not return", "details": {"execution": "unknown"}}
REFUSED = {"code": ErrorCode.UNSUPPORTED, "message": "not supported", "details": {}}
