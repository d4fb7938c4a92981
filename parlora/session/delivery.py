"""Results on their way to the provider: one speakable append per result, checked again at hand-over (spec 000 §7, §10).

Delivery is apart from completion: what is told here is how far the text came, never that somebody heard it. Nothing is
retried.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.contract.provider import ContextKind, DelegationOutcome
from parlora.errors import Backpressure, ErrorCode
from parlora.events import EventType
from parlora.session import commands, delegations, interpretation, jobs, ledger, staleness
from parlora.session.effects import Call
from parlora.session.failures import is_unknown, never_submitted
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role
from parlora.session.state import Command, Delivery, Job, JobStatus, Phase, Purpose, TimerKind
from parlora.session.turn import CommandHandler, Turn, Withdraw

_WITHOUT_CONTENT: Final = {
    JobStatus.COMPLETED: DelegationOutcome.NO_CONTENT,
    JobStatus.FAILED: DelegationOutcome.FAILED,
    JobStatus.CANCELLED: DelegationOutcome.CANCELLED,
}


def current(turn: Turn, job: Job) -> bool:
    """Whether the job's result may be told now."""
    return staleness.is_current(
        job,
        turn.work.tasks.get(job.task_id),
        turn.adapters[Role.PROVIDER].generation,
        turn.conversation.delegations.get(job.delegation_id),
    )


def consider(turn: Turn, job: Job) -> None:
    """A result arrived: recorded, and held until the interpretation has settled that it is still wanted."""
    is_current = current(turn, job)
    turn.emit(
        EventType.RESULT_RECORDED,
        {
            "request_id": job.id,
            "task_id": job.task_id,
            "task_revision": job.task_revision,
            "status": str(job.status),
            "current": is_current,
        },
        request_id=job.id,
    )
    if not is_current:
        _obsolete(turn, job)
    elif job.summary is None:
        set_stage(turn, job, Delivery.NOT_APPLICABLE)
        jobs.resolve_route(turn, job, _WITHOUT_CONTENT[job.status])
    else:
        set_stage(turn, job, Delivery.AWAITING_INTERPRETATION)
        turn.work = replace(turn.work, held=(*turn.work.held, job.id))


def _obsolete(turn: Turn, job: Job) -> None:
    set_stage(turn, job, Delivery.STALE)
    task = turn.work.tasks.get(job.task_id)
    withdrawn = task is not None and task.revision == job.task_revision
    jobs.resolve_route(turn, job, DelegationOutcome.CANCELLED if withdrawn else DelegationOutcome.SUPERSEDED)


def release(turn: Turn) -> None:
    """Send what was held, once the interpretation has settled."""
    if not turn.work.held or turn.phase is not Phase.READY or not interpretation.is_settled(turn):
        return
    for position, request_id in enumerate(turn.work.held):
        job = turn.work.jobs[request_id]
        if not current(turn, job):
            _obsolete(turn, job)
            continue
        try:
            command_id = commands.enqueue(turn, Role.PROVIDER, Call.APPEND_CONTEXT, Purpose.RESULT, job.id)
        except Backpressure:
            turn.work = replace(turn.work, held=turn.work.held[position:])
            return  # the next reply makes room
        set_stage(turn, job, Delivery.AWAITING_PROVIDER, command_id)
    turn.work = replace(turn.work, held=())


def set_stage(
    turn: Turn, job: Job, stage: Delivery, command_id: str | None = None, error: ErrorData | None = None
) -> Job:
    """Record and tell how far a result has come."""
    job = turn.work.jobs[job.id]
    command_id = command_id or job.result_command_id
    job = turn.put_job(replace(job, delivery=stage, result_command_id=command_id, delivery_updated_at_us=turn.now_us))
    payload: dict[str, Any] = {"stage": str(stage), "request_id": job.id, "result_command_id": command_id}
    if error is not None:
        payload["error"] = error
    turn.emit(EventType.RESULT_DELIVERY, payload, command_id=command_id, request_id=job.id)
    return job


def _prepare(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    """The last look before the text leaves: revision, generation, cancelled call, and open questions."""
    job = turn.work.jobs[command.subject]
    if not current(turn, job):
        return Withdraw("stale")
    if not interpretation.is_settled(turn):
        return Withdraw("interpretation")
    delegation_id = delegations.route(turn, job.delegation_id)
    update = {"kind": str(ContextKind.SPEAKABLE), "text": job.summary, "delegation_id": delegation_id}
    return {"update": update}


def _withdrawn(turn: Turn, command: Command, reason: str) -> None:
    job = turn.work.jobs[command.subject]
    turn.put_job(replace(job, result_command_id=None))
    if reason == "interpretation":
        set_stage(turn, job, Delivery.AWAITING_INTERPRETATION)
        turn.work = replace(turn.work, held=(*turn.work.held, job.id))
    elif reason == "stale":
        _obsolete(turn, job)
    else:
        error = never_submitted(ErrorCode.CLOSED, "the result was not submitted", reason=reason)
        set_stage(turn, job, Delivery.REJECTED, error=error)


def _handed_over(turn: Turn, command: Command) -> None:
    job = turn.work.jobs[command.subject]
    timer_id = turn.arm(TimerKind.ACKNOWLEDGMENT, job.id, turn.now_us + turn.spec.limits.ack_timeout_ms * 1_000)
    turn.put_job(replace(job, acknowledgment_timer=timer_id))
    delegations.answered(turn, delegations.route(turn, job.delegation_id))


def _replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    job = turn.work.jobs.get(command.subject)
    if job is None or error is None or job.delivery is not Delivery.AWAITING_PROVIDER:
        return  # admitted: the provider's own word follows
    _stop_waiting(turn, job)
    set_stage(turn, job, Delivery.UNKNOWN if is_unknown(error) else Delivery.REJECTED, error=error)


def observed(turn: Turn, job: Job, stage: Delivery, error: ErrorData | None = None) -> None:
    """The provider's word on an append: acknowledged, submitted without acknowledgment, or rejected."""
    job = _stop_waiting(turn, job)
    if job.delivery in (Delivery.AWAITING_PROVIDER, Delivery.UNCONFIRMED):
        set_stage(turn, job, stage, error=error)


def _stop_waiting(turn: Turn, job: Job) -> Job:
    turn.disarm(job.acknowledgment_timer)
    return turn.put_job(replace(turn.work.jobs[job.id], acknowledgment_timer=None))


def overdue(turn: Turn, request_id: str) -> None:
    """No acknowledgment in time: told, and still pending, for its absence proves nothing (acceptance RD-07)."""
    job = turn.work.jobs.get(request_id)
    if job is None or job.delivery is not Delivery.AWAITING_PROVIDER:
        return
    turn.put_job(replace(job, acknowledgment_timer=None))
    payload = {"stage": str(job.delivery), "request_id": job.id, "result_command_id": job.result_command_id}
    turn.emit(
        EventType.RESULT_DELIVERY,
        {**payload, "overdue": True},
        command_id=job.result_command_id,
        request_id=job.id,
    )


def provider_gone(turn: Turn) -> None:
    """The provider has closed: what it has not acknowledged is unknown (acceptance RD-07, SD-17)."""
    for job in turn.work.jobs.values():
        if job.delivery is Delivery.AWAITING_PROVIDER:
            job = _stop_waiting(turn, job)
            ledger.settle(turn, job.result_command_id, ledger.UNKNOWN)
            set_stage(turn, job, Delivery.UNKNOWN)


RESULT_HANDLER: Final = CommandHandler(_prepare, _replied, _withdrawn, _handed_over)
