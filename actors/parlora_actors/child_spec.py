"""Supervision as data: which children, in which order, and what follows when one of them ends.

Words and meanings are those of OTP's supervisor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

from parlora.errors import InvalidArgument
from parlora_actors.timing import CHILD_SHUTDOWN_MS, CHILD_START_MS, UNRESPONSIVE_MS

BRUTAL_KILL: Final = "brutal_kill"
INFINITY: Final = "infinity"

LEAST_UNRESPONSIVE_MS: Final = 1_000
"""Two pings: fewer would call a single lost moment a death."""


class Restart(StrEnum):
    """When a child that ended is started again."""

    PERMANENT = "permanent"
    """Always."""
    TRANSIENT = "transient"
    """Only after a failure: a crash, a signal, an exit code other than 0."""
    TEMPORARY = "temporary"
    """Never, not even when a sibling's failure ended it; its spec is forgotten with it."""


class Strategy(StrEnum):
    """Who is restarted when one child has to be."""

    ONE_FOR_ONE = "one_for_one"
    ONE_FOR_ALL = "one_for_all"
    REST_FOR_ONE = "rest_for_one"
    """That child and those after it."""


class AutoShutdown(StrEnum):
    """Whether the supervisor stops when significant children have ended by themselves."""

    NEVER = "never"
    ANY_SIGNIFICANT = "any_significant"
    ALL_SIGNIFICANT = "all_significant"


class StartWait(StrEnum):
    """When the next child is started."""

    HELLO = "hello"
    """After the one before it said hello, as in OTP."""
    FORK = "fork"
    """At once; the children must not need each other to start."""


class StopOrder(StrEnum):
    """How all children are stopped."""

    REVERSE = "reverse"
    """One after the other, the last first."""
    TOGETHER = "together"
    """All at once: for children that do not know each other."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child.

    id: unique among its siblings. actor: import path `module.Class` of a `ParloraActor`. init: what `on_init` gets;
    it must survive msgpack and hold no secrets. role: what the child calls itself; its id if empty.
    shutdown: milliseconds from the request to stop to the kill, 1 or more; `brutal_kill` kills at once; `infinity`
    waits as long as the supervisor's own deadline allows. start_ms: from fork to hello.
    significant: see `AutoShutdown`; not with `permanent`.
    """

    id: str
    actor: str
    init: dict[str, Any] = field(default_factory=dict, repr=False)
    role: str = ""
    restart: Restart = Restart.PERMANENT
    shutdown: int | Literal["brutal_kill", "infinity"] = CHILD_SHUTDOWN_MS
    start_ms: int = CHILD_START_MS
    significant: bool = False

    def __post_init__(self) -> None:
        if not self.id:
            raise InvalidArgument("a child's id must not be empty", field="id")
        if "." not in self.actor:
            raise InvalidArgument(f"child {self.id}: actor must look like 'module.Class'", field="actor")
        if self.shutdown not in (BRUTAL_KILL, INFINITY) and (type(self.shutdown) is not int or self.shutdown < 1):
            raise InvalidArgument(
                f"child {self.id}: shutdown must be milliseconds, 'brutal_kill' or 'infinity'", field="shutdown"
            )
        if self.start_ms < 1:
            raise InvalidArgument(f"child {self.id}: start_ms must be positive", field="start_ms")
        if self.significant and self.restart == Restart.PERMANENT:
            raise InvalidArgument(f"child {self.id}: a permanent child cannot be significant", field="significant")


@dataclass(frozen=True, slots=True)
class SupervisorSpec:
    """A supervisor's children and rules.

    intensity, period_ms: more than `intensity` restarts within `period_ms` and the supervisor gives up: it stops all
    children and ends. stop_ms: bound of a stop that the supervisor decided itself; `None` leaves it to the children's
    own `shutdown`. unresponsive_ms: how long a started child may answer no ping before it counts as dead, 1,000 or
    more; `None` never pings, for children that may block.
    """

    children: tuple[ChildSpec, ...] = ()
    strategy: Strategy = Strategy.ONE_FOR_ONE
    intensity: int = 1
    period_ms: int = 5_000
    auto_shutdown: AutoShutdown = AutoShutdown.NEVER
    start_wait: StartWait = StartWait.HELLO
    stop_order: StopOrder = StopOrder.REVERSE
    stop_ms: int | None = None
    unresponsive_ms: int | None = UNRESPONSIVE_MS

    def __post_init__(self) -> None:
        if self.intensity < 0:
            raise InvalidArgument("intensity must be 0 or more", field="intensity")
        if self.period_ms < 1:
            raise InvalidArgument("period_ms must be positive", field="period_ms")
        if self.unresponsive_ms is not None and self.unresponsive_ms < LEAST_UNRESPONSIVE_MS:
            raise InvalidArgument(f"unresponsive_ms must be {LEAST_UNRESPONSIVE_MS} or more", field="unresponsive_ms")
        ids = [child.id for child in self.children]
        if len(set(ids)) != len(ids):
            raise InvalidArgument("the ids of children must differ", field="children")
        for child in self.children:
            self.check_child(child)

    def check_child(self, child: ChildSpec) -> None:
        """Raise `InvalidArgument` unless the child fits this supervisor."""
        if child.significant and self.auto_shutdown == AutoShutdown.NEVER:
            raise InvalidArgument(
                f"child {child.id}: a significant child needs a supervisor with auto_shutdown", field="significant"
            )
