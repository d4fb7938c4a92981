"""The conversation as the policy and the application see it (spec 001, 002): built when asked for.

A record is frozen, so its entry is made once and shared by all snapshots: an interpretation of a full session would
otherwise copy a thousand entries for each caption. Whoever hands a snapshot to code that may change it hands a copy.
"""

from __future__ import annotations

from typing import Any, cast

from parlora.context.snapshot import ContextSnapshot, ProviderSpeech
from parlora.session import waits
from parlora.session.roles import Role
from parlora.session.state import Delegation, Task
from parlora.session.turn import Turn


def snapshot(turn: Turn) -> ContextSnapshot:
    """Everything an interpretation may rest on, now."""
    talk = turn.conversation
    provider = turn.adapters.get(Role.PROVIDER)
    return ContextSnapshot(
        session_id=turn.spec.session_id,
        revision=talk.revision,
        provider_generation=provider.generation if provider is not None else 0,
        provider_speech=cast(ProviderSpeech, talk.provider_speech),
        application_context=dict(talk.application_context),
        transcripts=list(talk.transcripts),
        pending_delegations={
            key: value.projected or delegation_entry(value) for key, value in talk.delegations.items()
        },
        tasks={key: value.projected or task_entry(value) for key, value in turn.work.tasks.items()},
    )


def delegation_entry(delegation: Delegation) -> dict[str, Any]:
    """A `Delegation` of the snapshot; optional keys are there once observed."""
    if delegation.projected is None:
        object.__setattr__(delegation, "projected", _delegation_entry(delegation))
    return cast(dict[str, Any], delegation.projected)


def task_entry(task: Task) -> dict[str, Any]:
    """A `Task` of the snapshot; optional keys are there once observed."""
    if task.projected is None:
        object.__setattr__(task, "projected", _task_entry(task))
    return cast(dict[str, Any], task.projected)


def _delegation_entry(delegation: Delegation) -> dict[str, Any]:
    entry: dict[str, Any] = {**delegation.entry, "id": delegation.id, "status": delegation.status}
    if delegation.task_id is not None:
        entry["task_id"] = delegation.task_id
    if delegation.task_revision is not None:
        entry["task_revision"] = delegation.task_revision
    entry.update(waits.project(delegation.wait))
    if delegation.clarification is not None:
        entry["clarification"] = dict(delegation.clarification)
    return entry


def _task_entry(task: Task) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": task.id,
        "revision": task.revision,
        "input": dict(task.input),
        "status": task.status,
        "request_ids": list(task.request_ids),
        "delegation_id": task.delegation_id,
        "confirmation": None,
    }
    entry.update(waits.project(task.wait))
    if task.clarification is not None:
        entry["clarification"] = dict(task.clarification)
    if task.progress is not None:
        entry["progress"] = dict(task.progress)
    return entry
