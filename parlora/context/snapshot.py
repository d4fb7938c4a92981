"""The conversation as the policy sees it: an immutable value, not a handle (spec 001, 002).

Required keys that may be empty are present with None; optional keys are absent until observed, and their absence
means neither failure nor zero nor completion (acceptance TY-22).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict


class ContextWait(TypedDict):
    """A timer of the policy's on a delegation or task; exactly these keys."""

    due_at_us: int
    expired: bool
    recheck_key: str | None


class PolicyClarification(TypedDict):
    """A question the policy had submitted; exactly these keys. Submission, not speech and not hearing."""

    context_revision: int
    command_id: str
    delivery: Literal["unconfirmed"]
    message: str
    input: dict[str, Any]


class BackendClarification(TypedDict):
    """A question of the backend's; may carry more keys of its own."""

    task_revision: int
    question: NotRequired[str]


class Progress(TypedDict):
    """The latest progress of the task's backend; may carry more keys of its own."""

    task_revision: int
    facts: NotRequired[dict[str, Any]]
    summary: NotRequired[str]


class Transcript(TypedDict):
    """One caption fragment as it arrived; may carry more keys of the adapter's.

    `arrival_order` is the context revision of its arrival, not a turn number. Times are provider milliseconds or None.
    """

    speaker: Literal["user", "assistant"]
    delta: str
    start_ms: float | None
    end_ms: float | None
    provider_generation: int
    arrival_order: int


class Delegation(TypedDict):
    """A call of the provider for application work; may carry more keys of the adapter's."""

    id: str
    target: Literal["client"]
    offset_ms: float | None
    provider_generation: int
    status: Literal["pending", "claimed", "cancelled"]
    received_at_us: int
    task_id: NotRequired[str]
    task_revision: NotRequired[int]
    context_wait: NotRequired[ContextWait]
    clarification: NotRequired[PolicyClarification]


class Task(TypedDict):
    """A unit of application work; exactly these keys.

    `revision` starts at 1. `status` speaks of the current revision only. `request_ids` run from newest to oldest and
    include those of earlier revisions. `confirmation` is reserved and always None.
    """

    id: str
    revision: int
    input: dict[str, Any]
    status: Literal["submitted", "uncertain", "completed", "failed", "cancelled"]
    request_ids: list[str]
    delegation_id: str | None
    confirmation: None
    context_wait: NotRequired[ContextWait]
    clarification: NotRequired[PolicyClarification | BackendClarification]
    progress: NotRequired[Progress]


ProviderSpeech = Literal["unknown", "speaking", "idle"]


@dataclass(frozen=True, slots=True)
class ContextSnapshot:
    """Everything an interpretation may rest on.

    `transcripts` run from the newest arrival to the oldest. `pending_delegations` and `tasks` are keyed by id and hold
    claimed and cancelled delegations too. `provider_speech` is the provider's own report.
    """

    session_id: str
    revision: int
    provider_generation: int
    provider_speech: ProviderSpeech
    application_context: dict[str, Any]
    transcripts: list[dict[str, Any]]
    pending_delegations: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]
