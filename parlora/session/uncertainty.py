"""One spoken notice for work whose outcome is not known: it asserts nothing but that (spec 000 §7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.contract.provider import ContextKind
from parlora.errors import Backpressure, ErrorCode
from parlora.events import EventType
from parlora.session import commands, delegations, delivery, interpretation, ledger
from parlora.session.effects import Call
from parlora.session.failures import is_unknown, never_submitted
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role
from parlora.session.state import Command, Delivery, Job, JobStatus, Phase, Purpose
from parlora.session.turn import CommandHandler, Turn, Withdraw

NOTICE: Final = "I do not have a confirmed result for that request."
"""Neutral on purpose (filling A22): it claims neither completion nor cancellation, reversal or continued work."""


def release(turn: Turn) -> None:
    """Submit the notices of requests that are still uncertain, once the interpretation has settled."""
    if not turn.work.notices or turn.phase is not Phase.READY:
        return
    settled, left = interpretation.is_settled(turn), []
    for request_id in turn.work.notices:
        job = turn.work.jobs.get(request_id)
        if job is None or _dropped(turn, job):
            continue
        if not settled or not _submit(turn, job):
            left.append(request_id)
    turn.work = replace(turn.work, notices=tuple(left))


def _dropped(turn: Turn, job: Job) -> bool:
    if job.status is not JobStatus.UNCERTAIN:
        _set_stage(turn, job, Delivery.SUPERSEDED)
        return True
    if not delivery.current(turn, job):
        _set_stage(turn, job, Delivery.STALE)
        return True
    return turn.work.tasks[job.task_id].noticed == (job.task_revision, job.provider_generation)


def _submit(turn: Turn, job: Job) -> bool:
    try:
        command_id = commands.enqueue(turn, Role.PROVIDER, Call.APPEND_CONTEXT, Purpose.NOTICE, job.id)
    except Backpressure:
        return False
    task = turn.work.tasks[job.task_id]
    turn.put_task(replace(task, noticed=(job.task_revision, job.provider_generation)))
    job = turn.put_job(replace(job, uncertainty_command_id=command_id))
    _set_stage(turn, job, Delivery.AWAITING_PROVIDER)
    return True


def _set_stage(turn: Turn, job: Job, stage: Delivery, error: ErrorData | None = None) -> None:
    job = turn.put_job(replace(turn.work.jobs[job.id], uncertainty_delivery=stage))
    payload: dict[str, Any] = {
        "stage": str(stage),
        "request_id": job.id,
        "command_id": job.uncertainty_command_id,
        "reason": job.uncertainty_reason,
    }
    if error is not None:
        payload["error"] = error
    turn.emit(EventType.UNCERTAINTY_DELIVERY, payload, command_id=job.uncertainty_command_id, request_id=job.id)


def _prepare(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    job = turn.work.jobs[command.subject]
    if job.status is not JobStatus.UNCERTAIN:
        return Withdraw("superseded")
    if not delivery.current(turn, job):
        return Withdraw("stale")
    if not interpretation.is_settled(turn):
        return Withdraw("interpretation")
    delegation_id = delegations.route(turn, job.delegation_id)
    return {"update": {"kind": str(ContextKind.SPEAKABLE), "text": NOTICE, "delegation_id": delegation_id}}


def _withdrawn(turn: Turn, command: Command, reason: str) -> None:
    job = turn.put_job(replace(turn.work.jobs[command.subject], uncertainty_command_id=None))
    if reason == "interpretation":
        turn.put_task(replace(turn.work.tasks[job.task_id], noticed=None))
        turn.work = replace(turn.work, notices=(*turn.work.notices, job.id))
    elif reason in ("superseded", "stale"):
        _set_stage(turn, job, Delivery(reason))
    else:
        error = never_submitted(ErrorCode.CLOSED, "the notice was not submitted", reason=reason)
        _set_stage(turn, job, Delivery.REJECTED, error)


def _handed_over(turn: Turn, command: Command) -> None:
    job = turn.work.jobs[command.subject]
    delegations.answered(turn, delegations.route(turn, job.delegation_id))


def _replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    job = turn.work.jobs.get(command.subject)
    if job is not None and error is not None and job.uncertainty_delivery is Delivery.AWAITING_PROVIDER:
        _set_stage(turn, job, Delivery.UNKNOWN if is_unknown(error) else Delivery.REJECTED, error)


def observed(turn: Turn, job: Job, stage: Delivery, error: ErrorData | None = None) -> None:
    """The provider's word on the notice; whatever the job has become since, it is recorded as it is."""
    if job.uncertainty_delivery in (Delivery.AWAITING_PROVIDER, Delivery.UNCONFIRMED):
        _set_stage(turn, job, stage, error)


def provider_gone(turn: Turn) -> None:
    """The provider has closed: an unacknowledged notice is unknown."""
    for job in turn.work.jobs.values():
        if job.uncertainty_delivery is Delivery.AWAITING_PROVIDER:
            ledger.settle(turn, job.uncertainty_command_id, ledger.UNKNOWN)
            _set_stage(turn, job, Delivery.UNKNOWN)


NOTICE_HANDLER: Final = CommandHandler(_prepare, _replied, _withdrawn, _handed_over)
