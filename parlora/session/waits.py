"""`wait_for_context`: at most one recheck timer per delegation or task (spec 000 §7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from parlora.context.decision import ContextDecision
from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.events import EventType
from parlora.session.state import Delegation, Phase, Task, TimerKind, Wait
from parlora.session.turn import Turn

Target = TypeVar("Target", Delegation, Task)


def begin(turn: Turn, decision: ContextDecision) -> None:
    """Note the wait. Without a delay no timer changes; a repeated key never resets one, not even after expiry."""
    target = _target(turn, decision.delegation_id, decision.task_id)
    if target is None or decision.recheck_after_ms is None:
        return
    known = target.wait
    if known is not None and known.recheck_key == decision.recheck_key:
        return
    due_us = turn.now_us + decision.recheck_after_ms * 1_000
    if known is not None:
        turn.disarm(known.timer_id)
    timer_id = turn.arm(TimerKind.WAIT, _subject(target), due_us)
    _put(turn, replace(target, wait=Wait(due_us, False, decision.recheck_key, timer_id)))
    turn.emit(
        EventType.CONTEXT_WAIT_STARTED,
        {
            "delegation_id": decision.delegation_id,
            "task_id": decision.task_id,
            "due_at_us": due_us,
            "recheck_key": decision.recheck_key,
        },
    )


def end(turn: Turn, target: Target) -> Target:
    """The target was claimed, cancelled or revised: its timer goes, and so does what is noted on it."""
    if target.wait is not None:
        turn.disarm(target.wait.timer_id)
        target = replace(target, wait=None)
    return target


def expired(turn: Turn, subject: str) -> None:
    """A recheck came due: noted on the target, so that a merged trigger cannot lose it, then interpreted."""
    kind, _, target_id = subject.partition(":")
    target = _target(turn, target_id if kind == "delegation" else None, target_id if kind == "task" else None)
    if target is None or target.wait is None:
        return
    _put(turn, replace(target, wait=replace(target.wait, expired=True, timer_id=None)))
    turn.revise()
    trigger = ContextTrigger(
        TriggerKind.CONTEXT_WAIT_EXPIRED,
        delegation_id=target_id if kind == "delegation" else None,
        task_id=target_id if kind == "task" else None,
    )
    turn.trigger(trigger)


def end_all(turn: Turn) -> None:
    """The session closes: no timer outlives it (acceptance SD-27)."""
    for delegation in turn.conversation.delegations.values():
        if delegation.wait is not None:
            turn.disarm(delegation.wait.timer_id)
    for task in turn.work.tasks.values():
        if task.wait is not None:
            turn.disarm(task.wait.timer_id)


def project(wait: Wait | None) -> dict[str, dict[str, object]]:
    """The `context_wait` of a snapshot entry, or nothing."""
    if wait is None:
        return {}
    return {"context_wait": {"due_at_us": wait.due_at_us, "expired": wait.expired, "recheck_key": wait.recheck_key}}


def _subject(target: Delegation | Task) -> str:
    return f"delegation:{target.id}" if isinstance(target, Delegation) else f"task:{target.id}"


def _target(turn: Turn, delegation_id: str | None, task_id: str | None) -> Delegation | Task | None:
    if delegation_id is not None:
        return turn.conversation.delegations.get(delegation_id)
    return turn.work.tasks.get(task_id)


def _put(turn: Turn, target: Delegation | Task) -> None:
    if isinstance(target, Delegation):
        table = turn.conversation.delegations.put(target.id, target)
        turn.conversation = replace(turn.conversation, delegations=table)
    elif turn.phase is not Phase.ENDED:
        turn.put_task(target)
