"""What the backend tells of its requests, matched to request, task revision and generation before use (spec 000 §6).

An event that contradicts itself or our records raises here: it is refused and told as `event_rejected`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.contract.backend import BackendResult
from parlora.errors import Conflict, InvalidArgument, NotFound
from parlora.events import Event, EventType
from parlora.limits import RESULT_BYTES
from parlora.session import delivery, jobs, ledger
from parlora.session.state import Job, JobStatus, Task
from parlora.session.turn import Turn
from parlora.wire import from_data, packed_size

_PROGRESS: Final = ("facts", "summary")


def started(turn: Turn, event: Event) -> None:
    """Execution began, as far as the backend can see: evidence of its own, apart from admission."""
    job = _running(turn, event)
    if job.started_at_us is None:
        turn.put_job(replace(job, started_at_us=event.at_us))


def progressed(turn: Turn, event: Event) -> None:
    """Verified facts of running work, kept on the task while the request is its current one."""
    job = _running(turn, event)
    task = _task_of_current(turn, job)
    if task is not None:
        turn.put_task(replace(task, progress={**_payload(event), "task_revision": job.task_revision}))


def asked(turn: Turn, event: Event) -> None:
    """The backend needs to know something: the policy is asked what to make of it."""
    job = _running(turn, event)
    task = _task_of_current(turn, job)
    if task is None:
        return
    turn.put_task(replace(task, clarification={**_payload(event), "task_revision": job.task_revision}))
    turn.revise()
    turn.trigger(ContextTrigger(TriggerKind.BACKEND_CLARIFICATION, request_id=job.id, task_id=task.id))


def uncertain(turn: Turn, event: Event) -> None:
    """The backend lost sight of a request: neither completed nor failed nor cancelled."""
    job = _running(turn, event)
    jobs.make_uncertain(turn, job, str(event.payload.get("reason", "unknown")))


def ended(turn: Turn, event: Event) -> None:
    """A verified outcome. The first one of a request counts."""
    status = JobStatus(event.type.removeprefix("request_"))
    job = _running(turn, event, revision=None)
    result = _result(event)
    expected = (job.id, job.task_id, job.task_revision, str(status))
    if (result.request_id, result.task_id, result.task_revision, str(result.status)) != expected:
        raise Conflict(
            "the result does not match its event",
            details={
                "expected": dict(zip(("request_id", "task_id", "task_revision", "status"), expected, strict=True))
            },
        )
    job = jobs.finish(turn, job, status, result.summary)
    delivery.consider(turn, job)


def _result(event: Event) -> BackendResult:
    data = event.payload.get("result")
    if isinstance(data, BackendResult):
        return data
    if not isinstance(data, dict):
        raise InvalidArgument("result must be a BackendResult", field="result")
    if packed_size(data) > RESULT_BYTES:
        raise InvalidArgument(f"result must be at most {RESULT_BYTES:,} bytes", field="result")
    if not isinstance(data.get("summary"), str | None):
        raise InvalidArgument("result.summary must be text or None", field="result.summary")
    return from_data(data, BackendResult)


def updated(turn: Turn, event: Event) -> None:
    """An update was applied: the request now works at the revision that asked for it, if that is still the newest."""
    job = _known(turn, event)
    if event.type == EventType.UPDATE_APPLIED:
        ledger.settle(turn, event.command_id, ledger.COMPLETED)
    else:
        ledger.settle(turn, event.command_id, ledger.FAILED)
    if job.update is None or job.update[1] != event.command_id:
        return
    revision, _ = job.update
    task = turn.work.tasks.get(job.task_id)
    applied = event.type == EventType.UPDATE_APPLIED and task is not None and task.revision == revision
    turn.put_job(replace(job, update=None, task_revision=revision if applied else job.task_revision))


def cancellation(turn: Turn, event: Event) -> None:
    """A cancel request was passed on or refused: advice, never an outcome of the request."""
    _known(turn, event)
    requested = event.type == EventType.CANCELLATION_REQUESTED
    ledger.settle(turn, event.command_id, ledger.COMPLETED if requested else ledger.FAILED)


def _known(turn: Turn, event: Event) -> Job:
    job = turn.work.jobs.get(event.request_id)
    if job is None or not job.dispatched:
        raise NotFound("no submitted request has this id", details={"request_id": event.request_id})
    return job


def _running(turn: Turn, event: Event, revision: str | None = "task_revision") -> Job:
    job = _known(turn, event)
    if job.status.terminal:
        raise Conflict("the request has ended", details={"request_id": job.id, "status": str(job.status)})
    if revision is not None and event.payload.get(revision, job.task_revision) != job.task_revision:
        raise Conflict("the request has another task revision", details={"task_revision": job.task_revision})
    return job


def _task_of_current(turn: Turn, job: Job) -> Task | None:
    task = turn.work.tasks.get(job.task_id)
    return task if task is not None and task.revision == job.task_revision else None


def _payload(event: Event) -> dict[str, Any]:
    return {key: value for key, value in event.payload.items() if value is not None or key not in _PROGRESS}
