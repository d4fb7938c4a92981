"""What a policy may decide (spec 000 §7; kinds: filling 4.4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class DecisionKind(StrEnum):
    """The seven kinds."""

    START_TASK = "start_task"
    UPDATE_TASK = "update_task"
    SUPERSEDE_TASK = "supersede_task"
    CANCEL_TASK = "cancel_task"
    ASSOCIATE_DELEGATION = "associate_delegation"
    WAIT_FOR_CONTEXT = "wait_for_context"
    REQUEST_CLARIFICATION = "request_clarification"


@dataclass(frozen=True, slots=True)
class ContextDecision:
    """One decision. Which fields a kind takes is checked when the batch is admitted, not here.

    start_task: `input` and either `delegation_id` (a pending one, which admission claims) or `anchor_task_id` with
    `expected_anchor_revision` (a follow-up; never both).
    supersede_task, update_task: `task_id`, `expected_task_revision`, `input`, and optionally the `delegation_id` of a
    pending one that asked for the change, which admission claims. cancel_task: task and revision alone.
    associate_delegation: `delegation_id`, `task_id`, `expected_task_revision`.
    wait_for_context: a `delegation_id` or a task; optional `recheck_after_ms` (1 to 60,000) and `recheck_key`
    (1 to 128 bytes).
    request_clarification: a `delegation_id` or a task, `message`, optional `input` (at most 4,096 bytes as msgpack) and
    `clarification_key` (1 to 128 bytes).
    """

    kind: DecisionKind
    delegation_id: str | None = None
    task_id: str | None = None
    expected_task_revision: int | None = None
    anchor_task_id: str | None = None
    expected_anchor_revision: int | None = None
    input: dict[str, Any] | None = None
    message: str | None = None
    recheck_after_ms: int | None = None
    recheck_key: str | None = None
    clarification_key: str | None = None
