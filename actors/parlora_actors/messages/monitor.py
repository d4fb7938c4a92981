"""What a node's processes report of themselves, and the monitor's socket (monitor.sock), where others watch it.

Reports travel upwards as notes, once a second: nobody asks a process for one, and none is waited for. A watcher says
hello, sends one `Watch`, and gets a `NodeView` at once and then one a second.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.wire import MessageSet
from parlora_actors.messages.host import Hello


# reports
@dataclass(frozen=True, slots=True)
class ChildReport:
    """A child as its supervisor sees it: `state` is `starting`, `up` or `stopping`.

    heartbeat_age_ms: how long ago it last answered its supervisor; None where that is not measured.
    """

    role: str
    pid: int
    state: str
    incarnation: int
    heartbeat_age_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RingView:
    """One frame ring: how full it is, and what went through it since the session began.

    rejected_frames were refused at the entrance, dropped_frames were in it and discarded by a clear or a drain.
    """

    name: str
    queued_bytes: int
    max_bytes: int
    frames_in: int
    frames_out: int
    dropped_frames: int
    rejected_frames: int
    epoch: int


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A session as its supervisor sees it. status: a summary of the session's own status, empty before its first."""

    session_id: str
    children: tuple[ChildReport, ...]
    rings: tuple[RingView, ...]
    status: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The node as its supervisor sees it."""

    children: tuple[ChildReport, ...]
    max_sessions: int
    is_draining: bool


# watcher -> monitor
@dataclass(frozen=True, slots=True)
class Watch:
    """Send views from now on. There is nothing else to ask for: watching changes nothing."""


# monitor -> watcher
@dataclass(frozen=True, slots=True)
class ProcessView:
    """One process of the node's tree.

    role: what it is, or the name the system knows, for one that an adapter or Thespian started. state: as its
    supervisor reports it (`starting`, `up`, `stopping`), `running` for one that nobody reports, or what the system
    says of it: `frozen` (SIGSTOP), `dead` (not buried yet). restarts: how often its predecessors were replaced.
    heartbeat_age_ms: since it last answered its supervisor. cpu_percent: of one core over the last second, None in a
    process's first view. memory_bytes: resident, with pages that it shares.
    """

    pid: int
    parent: int
    role: str
    session_id: str | None
    state: str
    restarts: int | None
    heartbeat_age_ms: int | None
    cpu_percent: float | None
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class SessionView:
    """One session. report_age_ms: how old rings and status are.

    status: `{"status", "interpretation", "health", "jobs", "delegations"}`, the last two as counts by state; empty
    before the session's first report. See `Session.status` for their meaning.
    """

    session_id: str
    report_age_ms: int
    rings: tuple[RingView, ...]
    status: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeView:
    """A whole node at one moment, `at_us` on the local monotonic clock.

    pid: of the node's topmost process. processes: parents before children. left_out: processes beyond the bound of one
    view.
    """

    at_us: int
    run_dir: str
    pid: int
    package: str
    max_sessions: int
    is_draining: bool
    report_age_ms: int | None
    processes: tuple[ProcessView, ...]
    sessions: tuple[SessionView, ...]
    left_out: int = 0


TO_MONITOR = MessageSet(1, Hello, Watch)
FROM_MONITOR = MessageSet(1, Hello, NodeView)
