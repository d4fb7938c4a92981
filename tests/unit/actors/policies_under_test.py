"""Policies that behave and misbehave."""

from typing import Any

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.errors import Conflict


def plain(snapshot: Any, trigger: Any, options: Any) -> list[Any]:
    return [ContextDecision(DecisionKind.WAIT_FOR_CONTEXT, task_id=options["task"], recheck_after_ms=snapshot.revision)]


class WithInterpret:
    def interpret(self, snapshot: Any, trigger: Any, options: Any) -> list[Any]:
        return [{"kind": "cancel_task", "task_id": "t", "expected_task_revision": 1}]


def factory() -> WithInterpret:
    return WithInterpret()


instance = WithInterpret()


def raises(snapshot: Any, trigger: Any, options: Any) -> list[Any]:
    local_secret = "hunter2"
    raise KeyError("order") if local_secret else None


def conflicts(snapshot: Any, trigger: Any, options: Any) -> list[Any]:
    raise Conflict("not now", details={"task_id": "t"})


def returns(snapshot: Any, trigger: Any, options: Any) -> Any:
    return options["value"]


def too_much(snapshot: Any, trigger: Any, options: Any) -> list[Any]:
    return [ContextDecision(DecisionKind.CANCEL_TASK, message="x" * 2**20)]


nothing = object()
