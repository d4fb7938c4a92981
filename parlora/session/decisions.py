"""A batch of decisions: checked as a whole against the current state, then applied as a whole (spec 000 §7).

The policy allocates nothing: ids, revisions and admission are decided here (acceptance CP-10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.errors import Backpressure, Conflict, InvalidArgument, NotFound
from parlora.session import associations, clarifications, jobs, tasks, waits
from parlora.session.state import Task
from parlora.session.turn import Turn
from parlora.wire import packed_size

MOST_RECHECK_MS: Final = 60_000
MOST_INPUT_BYTES: Final = 4_096
MOST_KEY_BYTES: Final = 128

_TARGET: Final = {"task_id", "expected_task_revision"}
_ALLOWED: Final[dict[DecisionKind, set[str]]] = {
    DecisionKind.START_TASK: {"delegation_id", "anchor_task_id", "expected_anchor_revision", "input"},
    DecisionKind.SUPERSEDE_TASK: {*_TARGET, "input", "delegation_id"},
    DecisionKind.UPDATE_TASK: {*_TARGET, "input", "delegation_id"},
    DecisionKind.CANCEL_TASK: _TARGET,
    DecisionKind.ASSOCIATE_DELEGATION: {*_TARGET, "delegation_id"},
    DecisionKind.WAIT_FOR_CONTEXT: {*_TARGET, "delegation_id", "recheck_after_ms", "recheck_key"},
    DecisionKind.REQUEST_CLARIFICATION: {*_TARGET, "delegation_id", "message", "input", "clarification_key"},
}
_REVISING: Final = frozenset({DecisionKind.SUPERSEDE_TASK, DecisionKind.UPDATE_TASK, DecisionKind.CANCEL_TASK})
_OPEN: Final = frozenset({DecisionKind.WAIT_FOR_CONTEXT, DecisionKind.REQUEST_CLARIFICATION})


def check(turn: Turn, batch: Sequence[ContextDecision]) -> None:
    """Raise the first reason why the batch cannot be applied; nothing has been changed then."""
    for decision in batch:
        _check_fields(decision)
        _CHECKS[decision.kind](turn, decision)
    _check_conflicts(batch)
    _check_capacity(turn, batch)


def apply(turn: Turn, batch: Sequence[ContextDecision]) -> bool:
    """Carry a checked batch out; returns whether it leaves the interpretation open."""
    if any(decision.kind not in _OPEN for decision in batch):
        turn.revise()
    for decision in batch:
        _APPLY[decision.kind](turn, decision)
    return any(decision.kind in _OPEN for decision in batch)


def _check_fields(decision: ContextDecision) -> None:
    if not isinstance(decision.kind, DecisionKind):
        raise InvalidArgument(f"kind must be one of {', '.join(DecisionKind)}", field="kind")
    allowed = _ALLOWED[decision.kind]
    for spec in fields(decision):
        if spec.name != "kind" and spec.name not in allowed and getattr(decision, spec.name) is not None:
            raise InvalidArgument(f"{decision.kind} takes no {spec.name}", field=spec.name)


def _check_start(turn: Turn, decision: ContextDecision) -> None:
    _check_map(decision, required=True)
    anchored = decision.anchor_task_id is not None or decision.expected_anchor_revision is not None
    if anchored == (decision.delegation_id is not None):
        raise InvalidArgument(
            "start_task needs either a pending delegation or an anchor with its revision", field="delegation_id"
        )
    if decision.delegation_id is not None:
        _check_pending(turn, decision.delegation_id)
        return
    anchor = turn.work.tasks.get(decision.anchor_task_id)
    if anchor is None:
        raise InvalidArgument("anchor_task_id must name a task of this session", field="anchor_task_id")
    if decision.expected_anchor_revision != anchor.revision:
        raise InvalidArgument(
            f"expected_anchor_revision must be the anchor's revision, which is {anchor.revision}",
            field="expected_anchor_revision",
        )


def _check_revise(turn: Turn, decision: ContextDecision) -> None:
    task = _check_task(turn, decision)
    _check_map(decision, required=True)
    if decision.delegation_id is not None:
        _check_pending(turn, decision.delegation_id)
    if decision.kind is DecisionKind.UPDATE_TASK:
        problem = tasks.update_problem(turn, task)
        if problem is not None:
            raise problem


def _check_cancel(turn: Turn, decision: ContextDecision) -> None:
    _check_task(turn, decision)


def _check_associate(turn: Turn, decision: ContextDecision) -> None:
    _check_task(turn, decision)
    _check_pending(turn, decision.delegation_id)


def _check_target(turn: Turn, decision: ContextDecision) -> None:
    if decision.delegation_id is not None:
        if decision.task_id is not None or decision.expected_task_revision is not None:
            raise InvalidArgument(f"{decision.kind} takes a delegation or a task, not both", field="task_id")
        _check_pending(turn, decision.delegation_id)
    else:
        _check_task(turn, decision)


def _check_wait(turn: Turn, decision: ContextDecision) -> None:
    _check_target(turn, decision)
    delay = decision.recheck_after_ms
    if delay is not None and (type(delay) is not int or not 1 <= delay <= MOST_RECHECK_MS):
        raise InvalidArgument(f"recheck_after_ms must be from 1 to {MOST_RECHECK_MS:,}", field="recheck_after_ms")
    _check_key(decision.recheck_key, "recheck_key")


def _check_clarification(turn: Turn, decision: ContextDecision) -> None:
    _check_target(turn, decision)
    if not isinstance(decision.message, str) or not decision.message.strip():
        raise InvalidArgument("message must be the question to ask", field="message")
    _check_map(decision, required=False)
    if decision.input is not None and packed_size(decision.input) > MOST_INPUT_BYTES:
        raise InvalidArgument(f"input must be at most {MOST_INPUT_BYTES:,} bytes as msgpack", field="input")
    _check_key(decision.clarification_key, "clarification_key")


def _check_task(turn: Turn, decision: ContextDecision) -> Task:
    if decision.task_id is None or decision.expected_task_revision is None:
        raise InvalidArgument(f"{decision.kind} needs task_id and expected_task_revision", field="task_id")
    task = turn.work.tasks.get(decision.task_id)
    if task is None:
        raise NotFound("no task of this session has this id", details={"task_id": decision.task_id})
    if task.revision != decision.expected_task_revision:
        raise Conflict(
            "the task has another revision by now", details={"task_id": task.id, "task_revision": task.revision}
        )
    return task


def _check_pending(turn: Turn, delegation_id: str | None) -> None:
    delegation = turn.conversation.delegations.get(delegation_id)
    if delegation is None or delegation.status != "pending":
        raise InvalidArgument("delegation_id must name a pending delegation", field="delegation_id")


def _check_map(decision: ContextDecision, *, required: bool) -> None:
    if (required or decision.input is not None) and not isinstance(decision.input, dict):
        raise InvalidArgument("input must be a map", field="input")


def _check_key(key: Any, field: str) -> None:
    if key is not None and (not isinstance(key, str) or not 1 <= len(key.encode()) <= MOST_KEY_BYTES):
        raise InvalidArgument(f"{field} must be 1 to {MOST_KEY_BYTES} bytes of text", field=field)


def _check_conflicts(batch: Sequence[ContextDecision]) -> None:
    """Each task and each delegation is decided about once; an anchor is used once and not revised beside it."""
    decided: set[tuple[str, str]] = set()
    read: set[tuple[str, str]] = set()
    for decision in batch:
        kind = decision.kind
        own: list[tuple[str, str]] = []
        if kind in _OPEN:
            # a question and a wait on one target go together; two questions or two waits do not
            own.append((str(kind), decision.delegation_id or decision.task_id or ""))
            name = "delegation" if decision.delegation_id else "task"
            read.add((name, decision.delegation_id or decision.task_id or ""))
        else:
            if decision.delegation_id is not None:
                own.append(("delegation", decision.delegation_id))
            if kind in _REVISING:
                own.append(("task", decision.task_id or ""))
            elif kind is DecisionKind.ASSOCIATE_DELEGATION:
                read.add(("task", decision.task_id or ""))
            elif decision.anchor_task_id is not None:
                own.append(("anchor", decision.anchor_task_id))
                read.add(("task", decision.anchor_task_id))
        for subject in own:
            if subject in decided:
                raise _conflict(subject)
            decided.add(subject)
    for subject in decided & read:
        raise _conflict(subject)


def _conflict(subject: tuple[str, str]) -> Conflict:
    return Conflict(f"the batch decides about one {subject[0]} twice", details={"kind": subject[0], "id": subject[1]})


def _check_capacity(turn: Turn, batch: Sequence[ContextDecision]) -> None:
    limits = turn.spec.limits
    starts = sum(1 for decision in batch if decision.kind is DecisionKind.START_TASK)
    if starts > max(0, jobs.free_places(turn)):
        raise Backpressure(
            "no room for another request",
            details={"max_jobs": limits.max_jobs, "max_pending_jobs": limits.max_pending_jobs},
        )
    new = starts + sum(1 for decision in batch if decision.kind is DecisionKind.SUPERSEDE_TASK)
    if not jobs.has_records_for(turn, new):
        raise Backpressure("every request record is in use", details={"max_records": limits.max_records})
    keys = {
        clarifications.key_of(turn, decision)
        for decision in batch
        if decision.kind is DecisionKind.REQUEST_CLARIFICATION
    }
    asked = turn.policy.questions
    if len(asked) + sum(1 for key in keys if key not in asked) > limits.max_records:
        raise Backpressure("every clarification record is in use", details={"max_records": limits.max_records})


def _start(turn: Turn, decision: ContextDecision) -> None:
    tasks.start(turn, decision.input or {}, decision.delegation_id)


def _supersede(turn: Turn, decision: ContextDecision) -> None:
    tasks.supersede(turn, turn.work.tasks[decision.task_id or ""], decision.input or {}, decision.delegation_id)


def _update(turn: Turn, decision: ContextDecision) -> None:
    tasks.update(turn, turn.work.tasks[decision.task_id or ""], decision.input or {}, decision.delegation_id)


def _cancel(turn: Turn, decision: ContextDecision) -> None:
    tasks.cancel(turn, turn.work.tasks[decision.task_id or ""])


def _associate(turn: Turn, decision: ContextDecision) -> None:
    associations.associate(turn, decision.delegation_id or "", turn.work.tasks[decision.task_id or ""])


_CHECKS: Final = {
    DecisionKind.START_TASK: _check_start,
    DecisionKind.SUPERSEDE_TASK: _check_revise,
    DecisionKind.UPDATE_TASK: _check_revise,
    DecisionKind.CANCEL_TASK: _check_cancel,
    DecisionKind.ASSOCIATE_DELEGATION: _check_associate,
    DecisionKind.WAIT_FOR_CONTEXT: _check_wait,
    DecisionKind.REQUEST_CLARIFICATION: _check_clarification,
}
_APPLY: Final = {
    DecisionKind.START_TASK: _start,
    DecisionKind.SUPERSEDE_TASK: _supersede,
    DecisionKind.UPDATE_TASK: _update,
    DecisionKind.CANCEL_TASK: _cancel,
    DecisionKind.ASSOCIATE_DELEGATION: _associate,
    DecisionKind.WAIT_FOR_CONTEXT: waits.begin,
    DecisionKind.REQUEST_CLARIFICATION: clarifications.ask,
}
