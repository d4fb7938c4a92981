"""Requests: queued, given a slot, finished. An uncertain one may still run: it keeps its slot (spec 000 §9)."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any, Final

from parlora.contract.backend import BackendRequest
from parlora.contract.provider import DelegationOutcome
from parlora.errors import Backpressure, ErrorCode
from parlora.events import EventType
from parlora.session import commands, delegations
from parlora.session.effects import Call, Mirror
from parlora.session.failures import NEVER_SUBMITTED, failure, is_unknown
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role
from parlora.session.state import Command, Delivery, Job, JobStatus, Phase, Purpose, Task, TimerKind
from parlora.session.turn import CommandHandler, Turn, Withdraw
from parlora.wire import to_data

MOST_REASON_CHARACTERS: Final = 256
"""Longest `uncertainty_reason` kept for status, which is bounded (acceptance UN-06)."""


def free_places(turn: Turn) -> int:
    """How many more requests can be admitted: free slots and free places in the queue."""
    limits, work = turn.spec.limits, turn.work
    return limits.max_jobs + limits.max_pending_jobs - len(work.running) - len(work.queue)


def create(turn: Turn, task: Task) -> Job:
    """A queued request for the task as it is now; the slot is given at the end of the reduction."""
    request_id = turn.new_id()
    due_us = turn.now_us + turn.spec.limits.job_timeout_ms * 1_000
    timer_id = turn.arm(TimerKind.JOB, request_id, due_us)
    provider = turn.adapters[Role.PROVIDER]
    job = Job(
        request_id,
        task.id,
        task.revision,
        task.delegation_id,
        task.input,
        provider.generation,
        due_us,
        timer_id,
    )
    turn.put_job(job)
    turn.put_task(replace(task, request_ids=(request_id, *task.request_ids)))
    turn.work = replace(turn.work, queue=(*turn.work.queue, request_id))
    _bound_kept(turn)
    return job


def _bound_kept(turn: Turn) -> None:
    """Forget the oldest settled requests beyond `max_records`, and a task with its last request."""
    excess = len(turn.work.jobs) - turn.spec.limits.max_records
    if excess <= 0:
        return
    for job in list(islice((job for job in turn.work.jobs.values() if is_settled(turn, job)), excess)):
        task = turn.work.tasks.get(job.task_id)
        turn.work = replace(turn.work, jobs=turn.work.jobs.drop(job.id))
        if task is None:
            continue
        left = tuple(other for other in task.request_ids if other != job.id)
        if left:
            turn.put_task(replace(task, request_ids=left))
        else:
            if task.wait is not None:
                turn.disarm(task.wait.timer_id)
            turn.work = replace(turn.work, tasks=turn.work.tasks.drop(task.id))


def is_settled(turn: Turn, job: Job) -> bool:
    """Whether nothing is expected of the request or of the delivery of its result, and no command is about it."""
    pending = turn.commands.pending
    return (
        job.status.terminal
        and job.delivery is not Delivery.AWAITING_INTERPRETATION
        and job.acknowledgment_timer is None
        and not any(each in pending for each in (job.command_id, job.result_command_id, job.uncertainty_command_id))
    )


def has_records_for(turn: Turn, more: int) -> bool:
    """Whether so many more request records have room, once those that may be forgotten are."""
    excess = len(turn.work.jobs) + more - turn.spec.limits.max_records
    settled = (job for job in turn.work.jobs.values() if is_settled(turn, job))
    return excess <= 0 or sum(1 for _ in islice(settled, excess)) == excess


def fill_slots(turn: Turn) -> None:
    """Submit queued requests while slots are free."""
    while turn.work.queue and len(turn.work.running) < turn.spec.limits.max_jobs and turn.phase is Phase.READY:
        job = turn.work.jobs[turn.work.queue[0]]
        try:
            command_id = commands.enqueue(
                turn, Role.BACKEND, Call.SUBMIT, Purpose.SUBMIT, job.id, before_us=job.deadline_at_us
            )
        except Backpressure:
            return  # the next reply makes room
        turn.work = replace(turn.work, queue=turn.work.queue[1:], running=turn.work.running | {job.id})
        turn.put_job(replace(job, status=JobStatus.SUBMITTED, admission="pending", command_id=command_id))


def request_of(turn: Turn, job: Job) -> dict[str, Any]:
    """The `BackendRequest` as plain data."""
    request = BackendRequest(
        job.id,
        job.task_id,
        job.task_revision,
        job.delegation_id,
        job.input,
        job.deadline_at_us,
        turn.conversation.application_context,
        job.provider_generation,
    )
    data: dict[str, Any] = to_data(request)
    return data


def _prepare(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    job = turn.work.jobs[command.subject]
    if job.task_revision != turn.work.tasks[job.task_id].revision:
        return Withdraw("superseded")
    return {"request": request_of(turn, job)}


def _handed_over(turn: Turn, command: Command) -> None:
    job = turn.put_job(replace(turn.work.jobs[command.subject], admission="started", dispatched=True))
    detail = {"task_id": job.task_id, "task_revision": job.task_revision, "delegation_id": job.delegation_id}
    turn.act(Mirror(job.id, False, detail))


def _replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    job = turn.work.jobs.get(command.subject)
    if job is None:
        return
    job = turn.put_job(replace(job, admission="settled"))
    admission = {"ok": error is None, "error": error}
    turn.emit(
        EventType.TASK_SUBMITTED,
        {"request": command.arguments.get("request") or request_of(turn, job), "admission": admission},
        command_id=command.id,
        request_id=job.id,
    )
    if error is None or job.status.terminal:
        return  # an outcome that came before the reply stays authoritative (acceptance RA-05)
    if is_unknown(error):
        make_uncertain(turn, job, "admission_unknown")
    elif not job.dispatched:
        finish_unsubmitted(turn, job, JobStatus.FAILED, "expired")
    else:
        finish(turn, job, JobStatus.FAILED)
        resolve_route(turn, job, DelegationOutcome.FAILED)


def _withdrawn(turn: Turn, command: Command, reason: str) -> None:
    job = turn.work.jobs.get(command.subject)
    if job is not None and not job.status.terminal:
        finish_unsubmitted(turn, job, JobStatus.CANCELLED, reason)


def withdraw(turn: Turn, job: Job, reason: str) -> bool:
    """Cancel a request that was never handed over; False if it was."""
    if job.status.terminal or job.dispatched:
        return False
    command = turn.commands.pending.get(job.command_id)
    if command is not None:
        commands.withdraw(turn, command, reason)
    else:
        finish_unsubmitted(turn, job, JobStatus.CANCELLED, reason)
    return True


def withdraw_queue(turn: Turn, reason: str) -> None:
    """Cancel every request that waits for a slot (acceptance SD-26)."""
    for request_id in turn.work.queue:
        finish_unsubmitted(turn, turn.work.jobs[request_id], JobStatus.CANCELLED, reason)


def finish_unsubmitted(turn: Turn, job: Job, status: JobStatus, reason: str) -> None:
    """A request ended here; its result says that it was never submitted, and nothing about other actions."""
    turn.work = replace(turn.work, queue=tuple(other for other in turn.work.queue if other != job.id))
    job = finish(turn, job, status)
    result = {
        "request_id": job.id,
        "task_id": job.task_id,
        "task_revision": job.task_revision,
        "status": str(status),
        "facts": {},
        "summary": None,
        "metadata": {"execution": NEVER_SUBMITTED, "reason": reason},
    }
    turn.emit(f"request_{status}", {"result": result}, request_id=job.id)
    if job.task_revision != turn.work.tasks[job.task_id].revision:
        resolve_route(turn, job, DelegationOutcome.SUPERSEDED)
    elif status is JobStatus.FAILED:
        resolve_route(turn, job, DelegationOutcome.FAILED)
    else:
        resolve_route(turn, job, DelegationOutcome.CANCELLED)


def finish(turn: Turn, job: Job, status: JobStatus, summary: str | None = None) -> Job:
    """A terminal outcome: the slot is free, and the task follows if this was its current revision."""
    turn.disarm(job.timer_id)
    job = replace(turn.work.jobs[job.id], status=status, timer_id=None, completed_at_us=turn.now_us, summary=summary)
    turn.put_job(job)
    turn.work = replace(turn.work, running=turn.work.running - {job.id})
    _follow(turn, job)
    if job.dispatched:
        turn.act(Mirror(job.id, True))
    return job


def _follow(turn: Turn, job: Job) -> None:
    task = turn.work.tasks.get(job.task_id)
    if task is not None and task.revision == job.task_revision:
        turn.put_task(replace(task, status=str(job.status)))


def make_uncertain(turn: Turn, job: Job, reason: str) -> None:
    """What became of a submitted request is not known: it keeps its slot, and later facts stay welcome."""
    turn.disarm(job.timer_id)
    first = job.status is not JobStatus.UNCERTAIN
    job = replace(
        turn.work.jobs[job.id],
        status=JobStatus.UNCERTAIN,
        timer_id=None,
        uncertainty_reason=reason[:MOST_REASON_CHARACTERS],
    )
    turn.put_job(job)
    _follow(turn, job)
    if first and job.id not in turn.work.notices:
        turn.work = replace(turn.work, notices=(*turn.work.notices, job.id))


def expired(turn: Turn, request_id: str) -> None:
    """A request's deadline: one never handed over ends, a submitted one becomes uncertain."""
    job = turn.work.jobs.get(request_id)
    if job is None or job.status.terminal:
        return
    job = turn.put_job(replace(job, timer_id=None))
    detail = {"request_id": job.id, "task_id": job.task_id, "task_revision": job.task_revision}
    if job.dispatched:
        turn.emit(EventType.JOB_DEADLINE, {**detail, "status": "uncertain"}, request_id=job.id)
        make_uncertain(turn, job, "job_deadline")
        return
    turn.emit(EventType.JOB_DEADLINE, {**detail, "execution": NEVER_SUBMITTED}, request_id=job.id)
    command = turn.commands.pending.get(job.command_id)
    if command is not None:
        commands.expired(turn, command.id)
    else:
        finish_unsubmitted(turn, job, JobStatus.FAILED, "job_deadline")


def resolve_route(turn: Turn, job: Job, outcome: DelegationOutcome) -> None:
    """Answer the provider call of a request that will say nothing, unless a current request still uses the call."""
    task = turn.work.tasks.get(job.task_id)
    if task is not None and task.request_ids and task.request_ids[0] != job.id:
        current = turn.work.jobs[task.request_ids[0]]
        shares = current.delegation_id == job.delegation_id and current.task_revision == task.revision
        if shares and not current.cancel_asked and current.status is not JobStatus.CANCELLED:
            return
    delegations.resolve(turn, job.delegation_id, outcome)


def submission_error(job: Job) -> ErrorData:
    """Why a command about a finished request is refused."""
    return failure(ErrorCode.CONFLICT, "the request has ended", status=str(job.status), request_id=job.id)


SUBMIT_HANDLER: Final = CommandHandler(_prepare, _replied, _withdrawn, _handed_over)
