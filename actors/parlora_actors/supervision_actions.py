"""What a supervision core answers with: actions for the actor part to carry out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from parlora_actors.child_spec import ChildSpec


class Finish(StrEnum):
    """Why a supervisor ends."""

    STOPPED = "stopped"
    """It was asked to."""
    START_FAILED = "start_failed"
    INTENSITY = "intensity"
    AUTO_SHUTDOWN = "auto_shutdown"


@dataclass(frozen=True, slots=True)
class Start:
    """Start the child; then tell `child_ready`, or `child_down`, or `start_overdue` at `deadline_us`."""

    child: ChildSpec
    incarnation: int
    deadline_us: int


@dataclass(frozen=True, slots=True)
class Stop:
    """Ask the child to stop; then tell `child_down`, or `stop_overdue` at `deadline_us` (`None`: no deadline)."""

    child_id: str
    incarnation: int
    deadline_us: int | None


@dataclass(frozen=True, slots=True)
class Kill:
    """Kill the child with everything below it; then tell `child_down`."""

    child_id: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Started:
    """All children of the spec are up: the supervisor itself is."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """The child is gone for good and its spec forgotten. `never_up`: it failed to start."""

    child_id: str
    never_up: bool


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to supervise: end. `child_id` names the child that was the cause, if one was."""

    reason: Finish
    child_id: str | None


Action = Start | Stop | Kill | Started | Dropped | Finished
