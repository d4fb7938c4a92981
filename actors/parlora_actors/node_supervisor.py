"""The root of a node: it supervises the gateway and one `SessionSupervisor` per session, and admits new ones.

A session's supervisor gets `init = {session_id, spec, path, hold_for_sink}`: `spec` is a `SessionSpec` as plain data,
`path` where the session's socket shall listen. It says hello when the session's processes run and the socket listens.
It may note `closed` with `{payload}`, the payload of the session's `closed` event; the last one counts. If it ends
without, the payload is made here. After its end nothing of the session is alive: what its subtree left is killed first.
"""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

from parlora.errors import AdapterFailed, Backpressure, Closed, Conflict, InvalidArgument, ParloraError
from parlora.wire import to_data
from parlora_actors import cgroup
from parlora_actors.child_spec import ChildSpec, Restart, StartWait, StopOrder, SupervisorSpec
from parlora_actors.link import Link, LinkFull
from parlora_actors.messages.monitor import ChildReport, NodeReport
from parlora_actors.messages.node import FROM_NODE, TO_NODE, Admit, Admitted, End, Ended, Ending, Refused
from parlora_actors.node_system import STOP_NOTE
from parlora_actors.run_directory import MONITOR_SOCKET_NAME, NODE_SOCKET_NAME
from parlora_actors.session_processes import STOP_BY_NOTE
from parlora_actors.status_report import NODE_NOTE, REPORT_US, SESSION_GONE_NOTE, SESSION_NOTE
from parlora_actors.supervised_process import ChildExit, Inheritance
from parlora_actors.supervisor import Supervisor
from parlora_actors.thespian_books import socket_directory
from parlora_actors.timing import GATEWAY_FLUSH_US, MONITOR_BACK_US, NODE_END_US, SESSION_START_MARGIN_US, now_us

MONITOR: Final = "parlora_actors.monitor.Monitor"
GATEWAY: Final = "parlora_actors.gateway.Gateway"
SESSION: Final = "parlora_actors.session_supervisor.SessionSupervisor"
SUPERVISOR_DOWN: Final = "supervisor_down"
"""Cause in the `closed` payload of a session whose supervisor ended without one."""

SESSIONS_PER_CORE: Final = 4
STARTS_PER_CORE: Final = 1

_GATEWAY_ID: Final = "gateway"
_MONITOR_ID: Final = "monitor"
_ROLES: Final = {_GATEWAY_ID: _GATEWAY_ID, _MONITOR_ID: _MONITOR_ID}
_GATEWAY_INTENSITY: Final = 5
_GATEWAY_PERIOD_MS: Final = 10_000


@dataclass(slots=True)
class _Session:
    session_id: str
    path: str
    request_id: str
    about: dict[str, Any]
    is_up: bool = False
    closed: dict[str, Any] | None = None


class NodeSupervisor(Supervisor):
    """See the module. `init` may hold `max_sessions` and `max_starts` (`None`: by the number of cores)."""

    kills_orphans: ClassVar[bool] = True

    def on_init(self, init: dict[str, Any]) -> None:
        """Start the gateway and the monitor."""
        cores = len(os.sched_getaffinity(0))
        self._max_sessions: int = init.get("max_sessions") or cores * SESSIONS_PER_CORE
        self._max_starts: int = init.get("max_starts") or cores * STARTS_PER_CORE
        self._session_actor: str = init.get("session_actor") or SESSION
        self._sessions: dict[str, _Session] = {}
        self._serial = 0
        self._end: End | None = None
        self._is_monitor_settled = False
        self._is_started = False
        self._gateway: Link | None = None
        self._gateway_end: socket.socket | None = None
        gateway = ChildSpec(_GATEWAY_ID, init.get("gateway_actor") or GATEWAY)
        self.supervise(
            SupervisorSpec(
                (gateway,),
                intensity=_GATEWAY_INTENSITY,
                period_ms=_GATEWAY_PERIOD_MS,
                start_wait=StartWait.FORK,  # a session that is slow to start holds up no other
                stop_order=StopOrder.TOGETHER,
            )
        )
        self._start_monitor()
        self.after(REPORT_US, self._tell_monitor)

    # The monitor

    def _start_monitor(self) -> None:
        """It comes back whenever it dies, at most once a second, and is never a reason for the node to give up."""
        if not self._core.is_stopping:
            path = os.path.join(socket_directory(self), MONITOR_SOCKET_NAME)
            self.start_child(ChildSpec(_MONITOR_ID, MONITOR, {"path": path}, restart=Restart.TEMPORARY, shutdown=500))

    def on_child_dropped(self, child_id: str) -> None:
        """Start the monitor again."""
        if child_id == _MONITOR_ID:
            self.after(MONITOR_BACK_US, self._start_monitor)
            self._settle_monitor()

    def _settle_monitor(self) -> None:
        """Its first start is over, well or not: the node does not wait for it any more."""
        self._is_monitor_settled = True
        if self._is_started:
            self._is_started = False
            super().say_hello()

    def say_hello(self) -> None:
        """The gateway listens; the node is up when the monitor does too, or could not be started."""
        self._is_started = True
        if self._is_monitor_settled:
            self._settle_monitor()

    def _tell_monitor(self) -> None:
        self.after(REPORT_US, self._tell_monitor)
        own = (ChildReport(self.role, os.getpid(), "up", self.incarnation), *self.report_children(_ROLES))
        report = NodeReport(own, self._max_sessions, self._end is not None)
        self.tell_child(_MONITOR_ID, NODE_NOTE, report=to_data(report))

    def _report_session(self, child_id: str, report: dict[str, Any]) -> None:
        """Pass on what a session's supervisor reports, and what is seen of that one from here."""
        own = self.report_children({child_id: "session_supervisor"})
        report["children"] = [*to_data(own), *report["children"]]
        with contextlib.suppress(InvalidArgument):  # too large to be sent, which no report should be
            self.tell_child(_MONITOR_ID, SESSION_NOTE, report=report)

    # The gateway

    def prepare_child(self, child: ChildSpec, incarnation: int) -> Inheritance:
        """Give each incarnation of the gateway a fresh link, and the sessions that run already."""
        if child.id != _GATEWAY_ID:
            return Inheritance()
        upper, self._gateway_end = socket.socketpair()
        self._gateway = Link(upper, TO_NODE, FROM_NODE)
        self.watch(upper.fileno(), self._read_gateway)
        lower = self._gateway_end.fileno()
        running = [
            {"session_id": each.session_id, "path": each.path, "about": each.about}
            for each in self._sessions.values()
            if each.is_up
        ]
        path = os.path.join(socket_directory(self), NODE_SOCKET_NAME)
        return Inheritance({"node": lower, "path": path, "sessions": running}, [lower])

    def child_forked(self, child: ChildSpec, incarnation: int, pid: int) -> None:
        """Close the gateway's end here, so that its death is seen on the link."""
        if child.id == _GATEWAY_ID and self._gateway_end is not None:
            self._gateway_end.close()
            self._gateway_end = None

    def _read_gateway(self) -> None:
        link = self._gateway
        if link is None:
            return
        for message in link.receive():
            if isinstance(message, Admit):
                self._admit(message)
            else:
                self._begin_end(message)
        if link.closed:
            self._drop_gateway()

    def _tell_gateway(self, message: Admitted | Refused | Ended | Ending) -> None:
        if self._gateway is None:  # its hosts have lost their connections with it
            self.log.write("warning", "gateway_not_told", message=type(message).__name__)
            return
        try:
            self._gateway.send(message)
        except LinkFull:
            self.fail_child(_GATEWAY_ID)
            return
        self._flush_gateway()

    def _flush_gateway(self) -> None:
        if self._gateway is not None and not self._gateway.flush():
            self.after(GATEWAY_FLUSH_US, self._flush_gateway)

    def _drop_gateway(self) -> None:
        if self._gateway is not None:
            self.unwatch(self._gateway.fileno())
            self._gateway.close()
            self._gateway = None

    # Sessions

    def _admit(self, request: Admit) -> None:
        try:
            session = self._start_session(request)
        except ParloraError as error:
            self._tell_gateway(Refused(request.id, error.to_data()))
            return
        self.log.write("info", "session_starting", session_id=session.session_id)

    def _start_session(self, request: Admit) -> _Session:
        session_id, deadline_us = request.spec.get("session_id"), request.spec.get("deadline_us")
        if not isinstance(session_id, str) or not isinstance(deadline_us, int):
            raise InvalidArgument("a session spec must hold session_id and deadline_us", field="spec")
        if session_id in self._sessions:
            raise Conflict("session_id is in use by a running session", details={"field": "session_id"})
        if self._end is not None:
            raise Closed("the node is draining: it takes no new sessions", details={"cause": "draining"})
        self._check_load()
        self._serial += 1
        path = os.path.join(socket_directory(self), f"s{self._serial}.sock")
        about = {"started_us": now_us(), "deadline_us": deadline_us, "limits": request.spec.get("limits")}
        session = _Session(session_id, path, request.id, about)
        init = {
            "session_id": session_id,
            "spec": request.spec,
            "path": path,
            "hold_for_sink": request.hold_for_sink,
        }
        # The coordinator watches the startup budget itself; this is for a supervisor that hangs before it exists.
        start_ms = max(1, (deadline_us - now_us() + SESSION_START_MARGIN_US) // 1_000)
        self._sessions[session_id] = session
        self.start_child(
            ChildSpec(
                _child_id(session_id),
                self._session_actor,
                init,
                role="session_supervisor",
                restart=Restart.TEMPORARY,
                shutdown="infinity",
                start_ms=start_ms,
            )
        )
        return session

    def _check_load(self) -> None:
        starting = sum(not each.is_up for each in self._sessions.values())
        if len(self._sessions) >= self._max_sessions or starting >= self._max_starts:
            raise Backpressure(
                f"the node has {len(self._sessions)} of {self._max_sessions} sessions"
                f" and {starting} of {self._max_starts} starts in progress",
                details={
                    "sessions": len(self._sessions),
                    "max_sessions": self._max_sessions,
                    "starting": starting,
                    "max_starts": self._max_starts,
                },
            )

    def on_child_up(self, child_id: str, hello: dict[str, Any]) -> None:
        """A session's processes run: whoever asked for it may connect."""
        if child_id == _MONITOR_ID:
            self._settle_monitor()
        session = self._session_of(child_id)
        if session is not None:
            session.is_up = True
            self._tell_gateway(Admitted(session.request_id, session.session_id, session.path, session.about))

    def on_child_message(self, child_id: str, kind: str, body: dict[str, Any]) -> None:
        """Keep what a session's supervisor says about its end, and pass on its reports."""
        session = self._session_of(child_id)
        if session is None:
            return
        if kind == "closed":
            session.closed = body["payload"]
        elif kind == SESSION_NOTE:
            self._report_session(child_id, body["report"])

    def on_child_down(self, exit: ChildExit) -> None:
        """A session or the gateway is gone with everything below it."""
        if exit.child_id == _GATEWAY_ID:
            self._drop_gateway()
            return
        session = self._session_of(exit.child_id)
        if session is None:
            return
        cgroup.end_session(exit.pid)
        del self._sessions[session.session_id]
        self.tell_child(_MONITOR_ID, SESSION_GONE_NOTE, session_id=session.session_id)
        Path(session.path).unlink(missing_ok=True)
        error = _error_of(exit)
        if session.is_up:
            closed = session.closed or {"reason": "failed", "cause": SUPERVISOR_DOWN, "error": error.to_data()}
            self._tell_gateway(Ended(session.session_id, closed))
        else:
            self._tell_gateway(Refused(session.request_id, error.to_data()))
        self._end_when_empty()

    # The end

    def _begin_end(self, request: End) -> None:
        """Drain: nothing new, and the node stops with its last session, or at the time given."""
        before = self._end
        self._end = (
            request
            if before is None
            else replace(
                request,
                drain_until_us=min(request.drain_until_us, before.drain_until_us),
                deadline_us=min(request.deadline_us, before.deadline_us),
            )
        )
        self.log.write("info", "node_draining", sessions=len(self._sessions))
        self._tell_gateway(Ending(request.id, len(self._sessions)))
        self.at(self._end.drain_until_us, self._close_sessions)
        self.at(self._end.deadline_us - NODE_END_US, self._ask_for_end)
        self._end_when_empty()

    def _close_sessions(self) -> None:
        """The time to drain is over: close them in order. The gateway stays, so that their hosts hear of their end."""
        assert self._end is not None, "called after the end has begun"
        deadline_us = self._end.deadline_us - NODE_END_US
        for session in self._sessions.values():
            self.tell_child(_child_id(session.session_id), STOP_BY_NOTE, deadline_us=deadline_us)

    def _end_when_empty(self) -> None:
        if self._end is not None and not self._sessions:
            self._ask_for_end()

    def _ask_for_end(self) -> None:
        """The launcher ends the node, for it sees that nothing is left; it will ask this process to stop."""
        assert self._end is not None, "called after the end has begun"
        self.tell_supervisor(STOP_NOTE, deadline_us=self._end.deadline_us)

    def _session_of(self, child_id: str) -> _Session | None:
        return self._sessions.get(child_id.removeprefix("session:")) if child_id not in _ROLES else None


def _child_id(session_id: str) -> str:
    return f"session:{session_id}"


def _error_of(exit: ChildExit) -> ParloraError:
    details: dict[str, Any] = {"how": exit.summary}
    if exit.crash is not None:
        details["crash"] = exit.crash
    if exit.details:
        details |= {"child": exit.details.get("child"), "crash": exit.details.get("crash")}
    if exit.asked:
        return Closed("the session was stopped with its node", details=details)
    return AdapterFailed("the session's supervisor ended", details=details)
