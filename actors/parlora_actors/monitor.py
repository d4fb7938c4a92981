"""The node's monitor: it keeps what was reported to it and shows it to whoever watches.

It asks nobody and decides nothing. Processes report to it by way of their supervisors; CPU and memory it reads itself
from `/proc`, and only while somebody watches. A watcher that does not read is shown out. Its own death loses nothing:
its successor has everything again after a second.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

from thespian.actors import ActorAddress

from parlora.wire import from_data
from parlora_actors import procfs
from parlora_actors.door import Door, listen
from parlora_actors.loop import Loop
from parlora_actors.messages.monitor import (
    FROM_MONITOR,
    TO_MONITOR,
    ChildReport,
    NodeReport,
    NodeView,
    ProcessView,
    SessionReport,
    SessionView,
    Watch,
)
from parlora_actors.shell_actor import ShellActor
from parlora_actors.status_report import NODE_NOTE, REPORT_US, SESSION_GONE_NOTE, SESSION_NOTE
from parlora_actors.timing import now_us
from parlora_actors.version import package_version

MAX_WAITING: Final = 8
"""Views that may wait for a watcher; one that is further behind is shown out."""

MAX_PROCESSES: Final = 4_096
"""Most processes in one view. A fork bomb below an adapter must not make the monitor slow or large."""

KEEPER: Final = "keeper"
"""What a node's topmost process calls itself."""

_FRESH_US: Final = 200_000
"""A watcher that asks again at once gets the same view again: asking often must not make the monitor busy."""

_STATES: Final = {"T": "frozen", "t": "frozen", "Z": "dead", "X": "dead"}


@dataclass(frozen=True, slots=True)
class _Known:
    """What a report says of one process."""

    child: ChildReport
    session_id: str | None
    at_us: int


class MonitorShell:
    """The monitor on a loop."""

    def __init__(self, init: dict[str, Any], loop: Loop) -> None:
        """`init`: `path`, where to listen."""
        self._loop = loop
        self._run_dir = os.path.dirname(init["path"])
        self._node: NodeReport | None = None
        self._node_at_us = 0
        self._sessions: dict[str, tuple[SessionReport, int]] = {}
        self._watchers: set[str] = set()
        self._latest: NodeView | None = None
        self._cpu: dict[tuple[int, int], tuple[int, int]] = {}
        self._root, self._launcher, self._admin = _ancestors()
        self.door = Door(
            loop, listen(init["path"]), TO_MONITOR, FROM_MONITOR, lambda watcher: None, self._on_watch, self._on_gone
        )
        loop.after(REPORT_US, self._tick)

    def take(self, kind: str, body: dict[str, Any]) -> None:
        """Keep a report."""
        if kind == NODE_NOTE:
            self._node, self._node_at_us = from_data(body["report"], NodeReport), now_us()
        elif kind == SESSION_NOTE:
            report = from_data(body["report"], SessionReport)
            self._sessions[report.session_id] = report, now_us()
        elif kind == SESSION_GONE_NOTE:
            self._sessions.pop(body["session_id"], None)

    def _on_watch(self, watcher: str, message: Watch) -> None:
        self._watchers.add(watcher)
        if self._latest is None or now_us() - self._latest.at_us > _FRESH_US:
            self._latest = self.view()
        self.door.send(watcher, self._latest)

    def _on_gone(self, watcher: str) -> None:
        self._watchers.discard(watcher)

    def _tick(self) -> None:
        self._loop.after(REPORT_US, self._tick)
        for watcher in tuple(self._watchers):
            if self.door.waiting(watcher)[0] >= MAX_WAITING:
                self.door.drop(watcher)
        if not self._watchers:
            self._cpu.clear()
            self._latest = None
            return
        self._latest = self.view()
        for watcher in self._watchers:
            self.door.send(watcher, self._latest)

    def view(self) -> NodeView:
        """The node now."""
        now, node = now_us(), self._node
        pids = [self._root, *procfs.descendants(self._root)]
        known = self._known()
        before, self._cpu = self._cpu, {}
        views = [self._process(pid, known, before, now) for pid in pids[:MAX_PROCESSES]]
        return NodeView(
            at_us=now,
            run_dir=self._run_dir,
            pid=self._root,
            package=package_version(),
            max_sessions=node.max_sessions if node else 0,
            is_draining=node.is_draining if node else False,
            report_age_ms=(now - self._node_at_us) // 1_000 if node else None,
            processes=tuple(view for view in views if view is not None),
            sessions=tuple(
                SessionView(report.session_id, (now - at_us) // 1_000, report.rings, report.status)
                for report, at_us in self._sessions.values()
            ),
            left_out=max(0, len(pids) - MAX_PROCESSES),
        )

    def _known(self) -> dict[int, _Known]:
        found = {}
        if self._node is not None:
            found = {child.pid: _Known(child, None, self._node_at_us) for child in self._node.children}
        for report, at_us in self._sessions.values():
            found.update({child.pid: _Known(child, report.session_id, at_us) for child in report.children})
        return found

    def _process(
        self, pid: int, known: dict[int, _Known], before: dict[tuple[int, int], tuple[int, int]], now: int
    ) -> ProcessView | None:
        usage = procfs.read_usage(pid)
        if usage is None:
            return None
        key = (pid, usage.start_ticks)
        self._cpu[key] = usage.cpu_us, now
        earlier = before.get(key)
        cpu = None
        if earlier is not None and now > earlier[1]:
            cpu = round(100 * (usage.cpu_us - earlier[0]) / (now - earlier[1]), 1)
        told = known.get(pid)
        heartbeat = told.child.heartbeat_age_ms if told else None
        return ProcessView(
            pid=pid,
            parent=usage.parent,
            role=told.child.role if told else self._role_of(pid, usage),
            session_id=told.session_id if told else None,
            state=_STATES.get(usage.state, told.child.state if told else "running"),
            restarts=told.child.incarnation - 1 if told else None,
            heartbeat_age_ms=None if heartbeat is None or told is None else heartbeat + (now - told.at_us) // 1_000,
            cpu_percent=cpu,
            memory_bytes=usage.memory_bytes,
        )

    def _role_of(self, pid: int, usage: procfs.ProcessUsage) -> str:
        """For a process that nobody reports: those above all reports, or the name that the system knows."""
        if pid == self._launcher:
            return "launcher"
        if pid == self._admin:
            return "thespian_admin"
        return "thespian_logger" if usage.parent == self._admin else usage.name


def _ancestors() -> tuple[int, int, int]:
    """Keeper, launcher and Thespian's admin: each starts the next, and the admin forks the node's supervisor, our
    parent. A launcher without a keeper is the root itself."""
    supervisor = procfs.read_usage(os.getppid())
    admin = procfs.read_usage(supervisor.parent) if supervisor else None
    launcher = procfs.read_usage(admin.parent) if admin else None
    if supervisor is None or admin is None or launcher is None:  # they are dying, and so will this process
        return os.getppid(), 0, 0
    keeper = procfs.read_usage(launcher.parent)
    root = launcher.parent if keeper is not None and keeper.name == KEEPER else admin.parent
    return root, admin.parent, supervisor.parent


class Monitor(ShellActor):
    """The monitor."""

    shell: MonitorShell

    def make_shell(self, init: dict[str, Any], loop: Loop) -> MonitorShell:
        """The monitor."""
        return MonitorShell(init, loop)

    def on_message(self, kind: str, body: dict[str, Any], sender: ActorAddress) -> None:
        """Take a report of the node's supervisor; it is the only one who can send notes here."""
        self.shell.take(kind, body)
