"""The provider's calls for application work: pending, claimed, cancelled, and the answer each gets (spec 000 §3)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.contract.provider import DelegationOutcome
from parlora.errors import Backpressure, ErrorCode, InvalidArgument
from parlora.events import Event, EventType
from parlora.ids import check_id
from parlora.session import commands, health, progress, waits
from parlora.session.context import milliseconds
from parlora.session.effects import Call
from parlora.session.failures import failure
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role
from parlora.session.state import Command, Delegation, Phase, Purpose
from parlora.session.turn import CommandHandler, Turn, Withdraw

_OURS: Final = ("id", "delegation_id", "status", "task_id", "task_revision", "context_wait", "clarification")


def requested(turn: Turn, event: Event) -> None:
    """A new call: it waits for a policy decision. A repeated id is the same call."""
    payload = event.payload
    delegation_id = check_id(payload.get("delegation_id"), "delegation_id")
    if payload.get("target", "client") != "client":
        raise InvalidArgument("target must be client", field="target")
    offset_ms = milliseconds(payload, "offset_ms")
    health.saw(turn, "delegation")
    progress.observed(turn, "delegation")
    if delegation_id in turn.conversation.delegations or turn.phase is Phase.CLOSING:
        return
    bound = turn.spec.limits.max_pending_delegations
    if len(turn.conversation.pending) >= bound:
        _reject(turn, delegation_id, bound)
        return
    entry = {key: value for key, value in payload.items() if key not in _OURS}
    entry.update(
        target="client",
        offset_ms=offset_ms,
        provider_generation=event.generation,
        received_at_us=event.at_us,
    )
    put(turn, Delegation(delegation_id, entry))
    _bound_kept(turn)
    turn.conversation = replace(turn.conversation, pending=(*turn.conversation.pending, delegation_id))
    turn.revise()
    turn.emit(EventType.DELEGATION_PENDING, {"delegation_id": delegation_id, "offset_ms": offset_ms})
    turn.trigger(ContextTrigger(TriggerKind.DELEGATION, delegation_id=delegation_id))


def _reject(turn: Turn, delegation_id: str, bound: int) -> None:
    error = failure(ErrorCode.BACKPRESSURE, "too many delegations are pending", max_pending_delegations=bound)
    turn.emit(EventType.DELEGATION_REJECTED, {"delegation_id": delegation_id, "error": error})
    _answer_call(turn, delegation_id, DelegationOutcome.FAILED)


def _bound_kept(turn: Turn) -> None:
    """Forget the oldest calls that are no longer pending beyond `max_records`."""
    table = turn.conversation.delegations
    if len(table) <= max(turn.spec.limits.max_records, turn.spec.limits.max_pending_delegations):
        return
    for delegation in table.values():
        if delegation.status != "pending" and not _in_use(turn, delegation):
            turn.conversation = replace(turn.conversation, delegations=table.drop(delegation.id))
            return


def _in_use(turn: Turn, delegation: Delegation) -> bool:
    task = turn.work.tasks.get(delegation.task_id)
    return task is not None and task.delegation_id == delegation.id and not delegation.resolved


def cancelled(turn: Turn, event: Event) -> None:
    """The provider took a call back: recorded first, then interpreted. It stops no work and undoes nothing."""
    delegation_id = check_id(event.payload.get("delegation_id"), "delegation_id")
    delegation = turn.conversation.delegations.get(delegation_id)
    if delegation is None or delegation.status == "cancelled":
        return
    delegation = waits.end(turn, delegation)
    put(turn, replace(delegation, status="cancelled", resolved=True))
    _no_longer_pending(turn, delegation_id)
    turn.revise()
    turn.trigger(
        ContextTrigger(TriggerKind.DELEGATION_CANCELLED, delegation_id=delegation_id, task_id=delegation.task_id)
    )


def claim(turn: Turn, delegation_id: str, task_id: str, task_revision: int) -> None:
    """A decision gives a pending call its task."""
    delegation = waits.end(turn, turn.conversation.delegations[delegation_id])
    put(turn, replace(delegation, status="claimed", task_id=task_id, task_revision=task_revision))
    _no_longer_pending(turn, delegation_id)


def put(turn: Turn, delegation: Delegation) -> None:
    """Store a call's record."""
    table = turn.conversation.delegations.put(delegation.id, delegation)
    turn.conversation = replace(turn.conversation, delegations=table)


def _no_longer_pending(turn: Turn, delegation_id: str) -> None:
    pending = tuple(other for other in turn.conversation.pending if other != delegation_id)
    turn.conversation = replace(turn.conversation, pending=pending)


def route(turn: Turn, delegation_id: str | None) -> str | None:
    """The call through which an answer may still go, or None: a cancelled call is never used again."""
    delegation = turn.conversation.delegations.get(delegation_id)
    return delegation_id if delegation is not None and delegation.status != "cancelled" else None


def answered(turn: Turn, delegation_id: str | None) -> None:
    """An append answered the call: there is nothing left to resolve."""
    delegation = turn.conversation.delegations.get(delegation_id)
    if delegation is not None and not delegation.resolved:
        put(turn, replace(delegation, resolved=True))


def resolve(turn: Turn, delegation_id: str | None, outcome: DelegationOutcome) -> None:
    """Tell the provider how a call ended for which nothing will be said. Each call is answered once."""
    delegation = turn.conversation.delegations.get(delegation_id)
    if delegation is None or delegation.resolved or delegation.status == "cancelled" or turn.phase is Phase.CLOSING:
        return
    put(turn, replace(delegation, resolved=True))
    _answer_call(turn, delegation.id, outcome)


def _answer_call(turn: Turn, delegation_id: str, outcome: DelegationOutcome) -> None:
    if turn.phase is Phase.CLOSING:
        return
    arguments = {"delegation_id": delegation_id, "outcome": str(outcome)}
    try:
        commands.enqueue(turn, Role.PROVIDER, Call.RESOLVE_DELEGATION, Purpose.RESOLVE, delegation_id, arguments)
    except Backpressure as error:
        data = error.to_data()
        turn.emit(EventType.DELEGATION_REJECTED, {"delegation_id": delegation_id, "error": data})


def _prepare(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    delegation = turn.conversation.delegations.get(command.subject)
    if delegation is not None and delegation.status == "cancelled":
        return Withdraw("delegation_cancelled")
    return command.arguments


def _replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    """The callback is optional; any other refusal than that is told."""
    if error is not None and error.get("code") != ErrorCode.UNSUPPORTED and turn.phase is not Phase.CLOSING:
        turn.emit(EventType.DELEGATION_REJECTED, {"delegation_id": command.subject, "error": error})


def _withdrawn(turn: Turn, command: Command, reason: str) -> None:
    """Nobody waits for this answer any more."""


RESOLVE_HANDLER: Final = CommandHandler(_prepare, _replied, _withdrawn)
