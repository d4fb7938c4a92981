"""A later call that turns out to ask for work which exists: linked, answered, never resubmitted (spec 000 §7)."""

from __future__ import annotations

from typing import Any, Final

from parlora.contract.provider import ContextKind, DelegationOutcome, ProviderCapabilities
from parlora.errors import Backpressure
from parlora.events import EventType
from parlora.session import commands, delegations
from parlora.session.effects import Call
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role
from parlora.session.state import Command, Purpose, Task
from parlora.session.turn import CommandHandler, Turn, Withdraw


def associate(turn: Turn, delegation_id: str, task: Task) -> None:
    """Give the call to the task as it is now. The request that runs keeps its own call, or none."""
    delegations.claim(turn, delegation_id, task.id, task.revision)
    payload = {"delegation_id": delegation_id, "task_id": task.id, "task_revision": task.revision}
    turn.emit(EventType.DELEGATION_ASSOCIATED, payload)
    capabilities = turn.adapters[Role.PROVIDER].capabilities
    quiet = isinstance(capabilities, ProviderCapabilities) and ContextKind.QUIET in capabilities.context_update_kinds
    if not quiet:
        # a spoken reply would tell the caller the same thing twice
        delegations.resolve(turn, delegation_id, DelegationOutcome.NO_CONTENT)
        return
    try:
        commands.enqueue(turn, Role.PROVIDER, Call.APPEND_CONTEXT, Purpose.ASSOCIATION, delegation_id)
    except Backpressure:
        delegations.resolve(turn, delegation_id, DelegationOutcome.NO_CONTENT)


def _prepare(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    """The reply is written only now, from what the task and its request are now (acceptance RD-12)."""
    delegation = turn.conversation.delegations.get(command.subject)
    if delegation is None or delegation.status != "claimed":
        return Withdraw("cancelled")
    task = turn.work.tasks.get(delegation.task_id)
    if task is None or task.revision != delegation.task_revision:
        return Withdraw("superseded")
    text = f"This call asks for work that is already known. Its status: {task.status}."
    job = turn.work.jobs.get(task.request_ids[0]) if task.request_ids else None
    if job is not None and job.summary is not None and job.task_revision == task.revision:
        text += f" Its result: {job.summary} Delivery of that result: {job.delivery}."
    return {"update": {"kind": str(ContextKind.QUIET), "text": text, "delegation_id": delegation.id}}


def _handed_over(turn: Turn, command: Command) -> None:
    delegations.answered(turn, command.subject)


def _replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    if error is not None:
        turn.emit(
            EventType.DELEGATION_REJECTED,
            {"delegation_id": command.subject, "error": error},
            command_id=command.id,
        )


def _withdrawn(turn: Turn, command: Command, reason: str) -> None:
    if reason == "superseded":
        delegations.resolve(turn, command.subject, DelegationOutcome.SUPERSEDED)


ASSOCIATION_HANDLER: Final = CommandHandler(_prepare, _replied, _withdrawn, _handed_over)
