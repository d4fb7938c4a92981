"""Coordinator and policy worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.context.decision import ContextDecision
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger
from parlora.wire import MessageSet


# coordinator -> worker
@dataclass(frozen=True, slots=True)
class Run:
    """Interpret once; `Decided` with the same run id follows."""

    run_id: str
    snapshot: ContextSnapshot
    trigger: ContextTrigger


# worker -> coordinator
@dataclass(frozen=True, slots=True)
class Up:
    """The policy is imported and built."""


@dataclass(frozen=True, slots=True)
class BuildFailed:
    """The policy cannot be imported or built; `error["details"]["field"]` is `context_policy`. No run will succeed."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Decided:
    """What the policy answered, or the error it ended with."""

    run_id: str
    decisions: list[ContextDecision]
    error: dict[str, Any] | None = field(default=None)


TO_POLICY = MessageSet(1, Run)
FROM_POLICY = MessageSet(1, Up, BuildFailed, Decided)
