"""What `status` shows: eight keys, no transcripts, no task inputs, no results (spec 000 §14)."""

from __future__ import annotations

from typing import Any

from parlora.contract.provider import ProviderCapabilities
from parlora.session import health, interpretation, projection, waits
from parlora.session.roles import Role
from parlora.session.state import Job
from parlora.session.turn import Turn

_DELEGATION_KEYS = ("status", "received_at_us", "task_id", "task_revision", "context_wait", "clarification")


def project(turn: Turn) -> dict[str, Any]:
    """The current status as plain data."""
    provider = turn.adapters.get(Role.PROVIDER)
    capabilities = provider.capabilities if provider is not None else None
    acknowledges = isinstance(capabilities, ProviderCapabilities) and capabilities.context_acknowledgment
    return {
        "session_id": turn.spec.session_id,
        "status": str(turn.phase),
        "observed_at_us": turn.now_us,
        "interpretation": interpretation.state(turn),
        "health": health.project(turn),
        "delegations": {
            delegation.id: _part(projection.delegation_entry(delegation), _DELEGATION_KEYS)
            for delegation in turn.conversation.delegations.values()
        },
        "jobs": {job.id: _job(turn, job) for job in turn.work.jobs.values()},
        "playback": {stage: dict(entry) for stage, entry in turn.health.playback.items()},
        "context_acknowledgment": acknowledges,
    }


def _part(entry: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: entry[key] for key in keys if key in entry}


def _job(turn: Turn, job: Job) -> dict[str, Any]:
    task = turn.work.tasks.get(job.task_id)
    current = task is not None and task.revision == job.task_revision
    entry: dict[str, Any] = {
        "status": str(job.status),
        "task_id": job.task_id,
        "task_revision": job.task_revision,
        "delegation_id": job.delegation_id,
        "deadline_at_us": job.deadline_at_us,
        "current": current,
    }
    optional: dict[str, Any] = {
        "admission": job.admission,
        "started_at_us": job.started_at_us,
        "completed_at_us": job.completed_at_us,
        "uncertainty_reason": job.uncertainty_reason,
        "uncertainty_delivery": job.uncertainty_delivery,
    }
    entry.update((key, value) for key, value in optional.items() if value is not None)
    if job.delivery is not None:
        entry["delivery"] = str(job.delivery)
        entry["result_command_id"] = job.result_command_id
        entry["delivery_updated_at_us"] = job.delivery_updated_at_us
    if current and task is not None:
        entry.update(waits.project(task.wait))
        if task.clarification is not None:
            entry["clarification"] = dict(task.clarification)
    return entry
