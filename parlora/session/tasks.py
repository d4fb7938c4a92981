"""Tasks and their revisions: started, superseded, updated, cancelled (spec 000 §7).

A new revision counts at once, also while its request waits for a slot: what belongs to an older one is obsolete.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.contract.backend import BackendCapabilities, CancellationSupport
from parlora.contract.provider import DelegationOutcome
from parlora.errors import Backpressure, Conflict, ErrorCode, NotFound, Unsupported
from parlora.events import EventType
from parlora.session import commands, delegations, jobs, records, waits
from parlora.session.effects import Call
from parlora.session.failures import failure, is_unknown, never_submitted
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role
from parlora.session.state import Command, Job, JobStatus, Phase, Purpose, Task
from parlora.session.turn import CommandHandler, Turn, Withdraw


def start(turn: Turn, input: dict[str, Any], delegation_id: str | None) -> None:
    """New work at revision 1, for a pending call which it claims or, without one, as a follow-up."""
    task = Task(turn.new_id(), 1, dict(input), "submitted", (), delegation_id)
    turn.put_task(task)
    if delegation_id is not None:
        delegations.claim(turn, delegation_id, task.id, 1)
    jobs.create(turn, task)


def current_job(turn: Turn, task: Task) -> Job | None:
    """The newest request of the task if it belongs to the current revision."""
    job = turn.work.jobs.get(task.request_ids[0]) if task.request_ids else None
    return job if job is not None and job.task_revision == task.revision else None


def revise(turn: Turn, task: Task, input: dict[str, Any], delegation_id: str | None) -> Task:
    """The task's next revision; a new call takes the place of the one that asked first."""
    task = waits.end(turn, task)
    task = replace(
        task,
        revision=task.revision + 1,
        input=dict(input),
        status="submitted",
        delegation_id=delegation_id or task.delegation_id,
        clarification=None,
        progress=None,
    )
    turn.put_task(task)
    if delegation_id is not None:
        delegations.claim(turn, delegation_id, task.id, task.revision)
    return task


def supersede(turn: Turn, task: Task, input: dict[str, Any], delegation_id: str | None) -> None:
    """Replace the task's work by a new request; older requests are withdrawn or, if running, asked to stop."""
    older = [turn.work.jobs[request_id] for request_id in task.request_ids]
    task = revise(turn, task, input, delegation_id)
    job = jobs.create(turn, task)
    turn.emit(
        EventType.TASK_SUPERSEDED,
        {
            "task_id": task.id,
            "task_revision": task.revision,
            "request_id": job.id,
            "obsolete_request_ids": [other.id for other in older if not other.status.terminal],
        },
        request_id=job.id,
    )
    for other in older:
        if not jobs.withdraw(turn, other, "superseded") and not other.status.terminal:
            ask_to_stop(turn, other, "superseded")
            jobs.resolve_route(turn, other, DelegationOutcome.SUPERSEDED)
    if jobs.free_places(turn) < 0:
        # the caller would hear the obsolete answer, or none: ending the call is the honest choice (acceptance BK-19)
        limits = turn.spec.limits
        details = {"max_jobs": limits.max_jobs, "max_pending_jobs": limits.max_pending_jobs, "task_id": task.id}
        error = failure(ErrorCode.BACKPRESSURE, "no room for a corrected request", **details)
        turn.fail("correction_queue_exhausted", error)


def update(turn: Turn, task: Task, input: dict[str, Any], delegation_id: str | None) -> None:
    """Change running work: the revision advances at once, the request follows when the backend has applied it."""
    job = current_job(turn, task)
    assert job is not None  # checked when the batch was
    task = revise(turn, task, input, delegation_id)
    arguments = {"request_id": job.id, "update": dict(input), "task_revision": task.revision}
    command_id = turn.new_id()
    turn.put_job(replace(job, update=(task.revision, command_id)))
    try:
        commands.enqueue(
            turn, Role.BACKEND, Call.UPDATE, Purpose.UPDATE, job.id, arguments,
            command_id=command_id, before_us=job.deadline_at_us,
        )  # fmt: skip
    except Backpressure as error:
        turn.put_job(replace(turn.work.jobs[job.id], update=None))
        _tell_update(turn, EventType.UPDATE_REJECTED, job, command_id, task.revision, error.to_data())


def update_problem(turn: Turn, task: Task) -> Conflict | Unsupported | None:
    """Why the task's work cannot be updated."""
    capabilities = turn.adapters[Role.BACKEND].capabilities
    if not isinstance(capabilities, BackendCapabilities) or not capabilities.updates:
        return Unsupported("this backend takes no updates: supersede the task")
    job = current_job(turn, task)
    if job is None or job.status is not JobStatus.SUBMITTED or not job.dispatched:
        return Conflict("the task has no running request to update", details={"task_id": task.id})
    return None


def cancel(turn: Turn, task: Task) -> None:
    """The policy wants no answer any more: queued work ends, running work is asked to stop. Nothing is undone."""
    task = waits.end(turn, task)
    turn.put_task(replace(task, withdrawn_revision=task.revision, clarification=None))
    for request_id in task.request_ids:
        job = turn.work.jobs[request_id]
        if not jobs.withdraw(turn, job, "cancelled") and not job.status.terminal:
            ask_to_stop(turn, job, "cancelled")
            jobs.resolve_route(turn, job, DelegationOutcome.CANCELLED)


def can_cancel(turn: Turn) -> bool:
    """Whether the backend takes advice to cancel."""
    capabilities = turn.adapters[Role.BACKEND].capabilities
    return isinstance(capabilities, BackendCapabilities) and capabilities.cancellation is CancellationSupport.ADVISORY


def ask_to_stop(turn: Turn, job: Job, reason: str) -> None:
    """Advise the backend once, if it takes advice; the request ends when its outcome is observed."""
    if job.cancel_asked:
        return
    turn.put_job(replace(turn.work.jobs[job.id], cancel_asked=True))
    if not can_cancel(turn) or turn.phase is not Phase.READY:
        return
    try:
        arguments = {"request_id": job.id, "reason": reason}
        commands.enqueue(turn, Role.BACKEND, Call.CANCEL, Purpose.CANCEL, job.id, arguments)
    except Backpressure as error:
        turn.emit(EventType.CANCELLATION_REJECTED, {"error": error.to_data()}, request_id=job.id)


def cancel_request(turn: Turn, request_id: str, expected_task_revision: int, command_id: str) -> None:
    """The application cancels one request: raises if it cannot, else settles the record now or at admission."""
    job = turn.work.jobs.get(request_id)
    if job is None:
        raise NotFound("no request has this id", details={"request_id": request_id})
    if job.task_revision != expected_task_revision:
        raise Conflict("the request belongs to another task revision", details={"task_revision": job.task_revision})
    if job.status.terminal:
        raise Conflict("the request has ended", details={"request_id": request_id, "status": str(job.status)})
    if jobs.withdraw(turn, job, "cancelled"):
        records.settle(turn, command_id)
        return
    if not can_cancel(turn):
        raise Unsupported("this backend takes no cancellation", details={"request_id": request_id})
    arguments = {"request_id": request_id, "reason": "requested"}
    commands.enqueue(turn, Role.BACKEND, Call.CANCEL, Purpose.CANCEL, request_id, arguments, command_id=command_id)
    turn.put_job(replace(job, cancel_asked=True))


def _prepare_for_running(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    job = turn.work.jobs.get(command.subject)
    if job is None or job.status.terminal:
        return Withdraw("ended")
    if command.purpose is Purpose.UPDATE and job.update != (turn.work.tasks[job.task_id].revision, command.id):
        return Withdraw("superseded")
    return command.arguments


def _cancel_replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    records.settle(turn, command.id, error=error)
    if error is not None and command.id not in turn.commands.records:
        turn.emit(EventType.CANCELLATION_REJECTED, {"error": error}, command_id=command.id, request_id=command.subject)


def _cancel_withdrawn(turn: Turn, command: Command, reason: str) -> None:
    job = turn.work.jobs.get(command.subject)
    error = never_submitted(ErrorCode.CONFLICT, "the cancellation was not submitted", reason=reason)
    records.settle(turn, command.id, error=jobs.submission_error(job) if job and job.status.terminal else error)


def _update_replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    job = turn.work.jobs.get(command.subject)
    if job is None or error is None:
        return
    revision = command.arguments["task_revision"]
    if is_unknown(error):
        _tell_update(turn, EventType.UPDATE_UNCERTAIN, job, command.id, revision, error)
        return
    if job.update is not None and job.update[1] == command.id:
        turn.put_job(replace(job, update=None))
    _tell_update(turn, EventType.UPDATE_REJECTED, job, command.id, revision, error)


def _update_withdrawn(turn: Turn, command: Command, reason: str) -> None:
    error = never_submitted(ErrorCode.CONFLICT, "the update was not submitted", reason=reason)
    _update_replied(turn, command, error)


def _tell_update(turn: Turn, type: str, job: Job, command_id: str, revision: int, error: ErrorData) -> None:
    payload = {"task_id": job.task_id, "task_revision": revision, "error": error}
    turn.emit(type, payload, command_id=command_id, request_id=job.id)


CANCEL_HANDLER: Final = CommandHandler(_prepare_for_running, _cancel_replied, _cancel_withdrawn)
UPDATE_HANDLER: Final = CommandHandler(_prepare_for_running, _update_replied, _update_withdrawn)
