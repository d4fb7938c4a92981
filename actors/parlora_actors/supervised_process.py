"""One child of a supervisor: what it is given, the process while it runs, and how it ended."""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from parlora_actors.birth import Birth, handed_to_children
from parlora_actors.heartbeat import Heartbeat
from parlora_actors.supervision_link import SupervisionLink
from parlora_actors.thespian_books import ForkedActor
from parlora_actors.timers import Timer

UNRESPONSIVE: Final = "unresponsive"
"""How a process ended that was there and did nothing any more."""


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What a child gets at fork beyond its spec: more of `init`, descriptors that it keeps open, its cgroup."""

    init: dict[str, Any] = field(default_factory=dict)
    keep: Collection[int] = ()
    cgroup: str | None = None


@dataclass(frozen=True, slots=True)
class ChildExit:
    """How a child's process ended.

    pid: 0 if there never was one. exit_code: `None` if a signal ended it or nobody knows. signal_name: as in SIGKILL.
    was_up: it had said hello. asked: the supervisor was stopping or killing it. reason, details: the child's own last
    words, if it ended by `finish`. crash: its report, if it crashed or could not be started (`describe_crash`).
    is_unresponsive: it lived, answered nothing, and was killed for that.
    """

    child_id: str
    incarnation: int
    pid: int
    exit_code: int | None
    signal_name: str | None
    was_up: bool
    asked: bool
    reason: str | None
    details: dict[str, Any]
    crash: dict[str, Any] | None
    is_unresponsive: bool = False

    @property
    def is_normal(self) -> bool:
        """Whether it ended with success."""
        return self.exit_code == 0

    @property
    def summary(self) -> str:
        """One word for logs: the reason, `crash`, `unresponsive`, a signal's name or an exit code."""
        if self.is_unresponsive:
            return UNRESPONSIVE
        if self.crash is not None:
            return "crash"
        return self.reason or self.signal_name or f"exit_code_{self.exit_code}"


@dataclass(slots=True)
class ChildProcess:
    """One incarnation: prepared, then forked, then running until its pidfd says otherwise."""

    child_id: str
    incarnation: int
    start_deadline_us: int
    actor: ForkedActor
    given: Birth
    link: SupervisionLink
    pidfd: int = -1
    deadline: Timer | None = None
    was_up: bool = False
    asked: bool = False
    last_words: dict[str, Any] | None = None
    crash: dict[str, Any] | None = None
    fork_error: OSError | None = None
    heartbeat: Heartbeat | None = None
    is_unresponsive: bool = False

    def fork(self) -> None:
        """Fork it; a refusal of the system is kept in `fork_error`."""
        try:
            with handed_to_children(self.given):
                self.actor.fork_now()
        except OSError as error:
            self.fork_error = error

    def after_fork(self) -> None:
        """In the parent: close what only the child needs, and hold the process by a descriptor."""
        os.close(self.given.link)
        if self.fork_error is None:
            self.pidfd = os.pidfd_open(self.actor.pid)
