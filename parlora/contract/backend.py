"""The application's work (spec 000 §6)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parlora.contract.adapter import Adapter
from parlora.errors import Unsupported


class CancellationSupport(StrEnum):
    """Whether a backend can be asked to cancel; even then the request is advice, not an outcome."""

    UNSUPPORTED = "unsupported"
    ADVISORY = "advisory"


@dataclass(frozen=True, slots=True)
class BackendCapabilities:
    """What a backend can do; sent in its `ready` event as `payload["capabilities"]`."""

    updates: bool = False
    cancellation: CancellationSupport = CancellationSupport.UNSUPPORTED
    progress: bool = False
    clarification: bool = False


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """One piece of work.

    Its identity and revision let the backend check authorization and the state of the task before any side effect:
    admission is no authorization (acceptance BK-13). `delegation_id` is None where no provider call asked for it.
    `deadline_at_us` is local monotonic.
    """

    id: str
    task_id: str
    task_revision: int
    delegation_id: str | None
    input: dict[str, Any]
    deadline_at_us: int | None
    context: dict[str, Any]
    provider_generation: int


class ResultStatus(StrEnum):
    """How a request ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class BackendResult:
    """A verified outcome, at most 65,536 bytes as msgpack. `summary` is what may be spoken; None for nothing."""

    request_id: str
    task_id: str
    task_revision: int
    status: ResultStatus
    facts: dict[str, Any] = field(default_factory=dict)
    summary: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


class Backend(Adapter):
    """Runs requests and reports what became of them.

    Emit `ready` with `{"capabilities": BackendCapabilities}`.

    Events, each with `request_id`: `request_started` `{task_revision}`; `request_progress` `{task_revision, facts,
    summary}`; `request_clarification` `{task_revision, question}`; `request_completed` / `request_failed` /
    `request_cancelled` `{result: BackendResult}`; `request_uncertain` `{task_revision, reason}`; `update_applied` /
    `update_rejected` and `cancellation_requested` / `cancellation_rejected` with `command_id` and
    `{task_revision, outcome, error}`.
    """

    @abstractmethod
    def submit(self, request: BackendRequest, command_id: str) -> Awaitable[None] | None:
        """Admit a request; what happens to it follows as events."""

    def update(
        self, request_id: str, update: Mapping[str, Any], task_revision: int, command_id: str
    ) -> Awaitable[None] | None:
        """Change a running request; only called if the capabilities declare `updates`."""
        raise Unsupported("this backend takes no updates")

    def cancel(self, request_id: str, reason: str, command_id: str) -> Awaitable[None] | None:
        """Ask to stop; only called if the capabilities declare advisory cancellation. Never an outcome by itself."""
        raise Unsupported("this backend takes no cancellation")
