"""Why an interpretation runs (spec 000 §7)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TriggerKind(StrEnum):
    """What changed."""

    DELEGATION = "delegation"
    DELEGATION_CANCELLED = "delegation_cancelled"
    TRANSCRIPT_UPDATED = "transcript_updated"
    APPLICATION_CONTEXT_UPDATED = "application_context_updated"
    BACKEND_CLARIFICATION = "backend_clarification"
    CONTEXT_WAIT_EXPIRED = "context_wait_expired"


@dataclass(frozen=True, slots=True)
class ContextTrigger:
    """The reason, and the ids it concerns; each is None where it does not apply."""

    kind: TriggerKind
    delegation_id: str | None = None
    request_id: str | None = None
    task_id: str | None = None
