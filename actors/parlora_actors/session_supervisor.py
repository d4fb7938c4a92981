"""The supervisor of one session and its guardian (design §3).

It runs no adapter code, so nothing an application does can keep it from killing at the deadline. Three things end a
session: the coordinator, which asks for the rest to be ended and then leaves; the coordinator's death; the node.
Whatever it was, this process reports the session's `closed` payload, and exits when nothing of the session is alive.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, NoReturn

from thespian.actors import ActorAddress

from parlora.errors import ErrorCode, InvalidArgument
from parlora.session.roles import Role
from parlora.session.spec import SessionSpec
from parlora.wire import from_data, to_data
from parlora_actors import cgroup, guardian
from parlora_actors.child_spec import ChildSpec
from parlora_actors.door import listen
from parlora_actors.loop import Loop
from parlora_actors.messages.monitor import SessionReport
from parlora_actors.messages.supervision import (
    TO_COORDINATOR,
    TO_SUPERVISOR,
    Closed,
    Gone,
    LinkUp,
    Reap,
    ReplacePolicy,
    RequestMirror,
    RoleDown,
    Status,
    Teardown,
)
from parlora_actors.obituary import (
    COORDINATOR_DOWN,
    NODE_STOPPING,
    POLICY_DOWN,
    Mirror,
    closed_without_coordinator,
    fit_for_note,
)
from parlora_actors.session_plan import CHILDREN, COORDINATOR, POLICY, SUPERVISION, Rings, given
from parlora_actors.session_processes import CLOSE_NOTE, STOP_BY_NOTE
from parlora_actors.status_report import REPORT_US, SESSION_NOTE, view_ring
from parlora_actors.supervised_process import UNRESPONSIVE, ChildExit, Inheritance
from parlora_actors.supervision_actions import Finish
from parlora_actors.supervision_link import MAX_PACKET_BYTES
from parlora_actors.supervisor import Supervisor
from parlora_actors.timers import Timer
from parlora_actors.timing import GUARDIAN_US, now_us
from parlora_actors.watched_link import WatchedLink

LAST_WORDS_US: Final = 1_000_000
"""How long a coordinator may take, after everything else is gone or the deadline has passed, to tell and to leave."""

_ROLES: Final = {child.id: child.id for child in CHILDREN}


class SessionSupervisor(Supervisor):
    """`init`: `session_id`; `spec`, a `SessionSpec` as plain data; `path` to listen at; `hold_for_sink`."""

    def on_init(self, init: dict[str, Any]) -> None:
        """Make what the children share, then fork them all."""
        self._spec = from_data(init["spec"], SessionSpec)
        self._path: str = init["path"]
        self._hold_for_sink: bool = init["hold_for_sink"]
        self._rings = Rings.create(self._spec)
        self._listener: socket.socket | None = listen(self._path)
        self._group = cgroup.make_for_session()
        self._mirror = Mirror()
        self._closed: dict[str, Any] | None = None
        self._reaping = False
        self._told_gone = False
        self._ending = POLICY_DOWN
        """Why this process would end the coordinator, if it did."""
        self._killed = 0
        self._deadline: Timer | None = None
        self._ends: dict[str, tuple[socket.socket, socket.socket]] = {}
        self._sending: list[socket.socket] = []
        self._loop = Loop()
        self.watch(self._loop.fileno(), self._loop.run_ready)
        ours, self._coordinator_end = socket.socketpair()
        self._coordinator = WatchedLink(
            self._loop, ours.detach(), TO_SUPERVISOR, TO_COORDINATOR, self._on_coordinator, on_end=lambda: None
        )
        self._coordinator.on_drained = self._close_sent
        self._status: dict[str, Any] = {}
        self.after(REPORT_US, self._tell_monitor)
        self.supervise(replace(SUPERVISION, unresponsive_ms=self._spec.limits.unresponsive_timeout_ms))
        self.start_children(CHILDREN)

    def _tell_monitor(self) -> None:
        """What a monitor shows of this session. It is lost if the node's supervisor does not read."""
        self.after(REPORT_US, self._tell_monitor)
        rings = tuple(view_ring(field.name, getattr(self._rings, field.name)) for field in fields(self._rings))
        report = SessionReport(self._spec.session_id, self.report_children(_ROLES), rings, self._status)
        with contextlib.suppress(InvalidArgument):  # too large to be sent, which no status of a session should be
            self.tell_supervisor(SESSION_NOTE, report=to_data(report))

    # --- children come

    def prepare_child(self, child: ChildSpec, incarnation: int) -> Inheritance:
        """A fresh link for each incarnation, and the rings that are its own."""
        role = Role(child.id)
        if role is Role.COORDINATOR:
            lower = self._coordinator_end
        else:
            upper, lower = socket.socketpair()
            self._ends[child.id] = (upper, lower)
        listener = self._listener.fileno() if self._listener is not None else -1
        what = given(role, self._spec, self._rings, lower.fileno(), listener, self._hold_for_sink)
        return Inheritance(what.init, what.keep, None if role is Role.COORDINATOR else self._group)

    def child_forked(self, child: ChildSpec, incarnation: int, pid: int) -> None:
        """Keep no end of any link here, so that the end of a process is the end of its link."""
        if child.id == COORDINATOR:
            self._coordinator_end.close()
            if self._listener is not None:
                self._listener.close()
                self._listener = None
            return
        upper, lower = self._ends.pop(child.id)
        lower.close()
        self._sending.append(upper)
        self._coordinator.send(LinkUp(Role(child.id), incarnation, pid), upper.fileno())
        self._close_sent()

    def _close_sent(self) -> None:
        """A passed descriptor may be closed here once it has left."""
        if self._coordinator.queued == 0:
            while self._sending:
                self._sending.pop().close()

    # --- the coordinator speaks

    def _on_coordinator(self, message: Any) -> None:
        match message:
            case Teardown():
                self._fix_deadline(message.deadline_us)
            case Reap():
                self._reap(message.force)
            case ReplacePolicy():
                if POLICY in self.child_ids and not self._reaping:
                    self.log.write("warning", "policy_replaced", reason=message.reason)
                    self.replace_child(POLICY)
            case RequestMirror():
                self._mirror.note(message)
            case Closed():
                self._closed = message.payload
            case Status():
                self._status = message.status

    def _fix_deadline(self, deadline_us: int) -> None:
        if self._deadline is None:
            self._deadline = self.at(deadline_us, lambda: self._reap(force=True))

    # --- children go

    def _reap(self, force: bool) -> None:
        """End everything but the coordinator: ask what may still want to leave by itself, or kill."""
        if self._told_gone:
            return
        first, self._reaping = not self._reaping, True
        others = [child_id for child_id in self.child_ids if child_id != COORDINATOR]
        if force:  # at the deadline nothing comes before the kill, which ends all at the same moment
            self._kill_all_but_coordinator()
        if first:
            for child_id in others:
                self.terminate_child(child_id)
        self._tell_when_gone()

    def _kill_all_but_coordinator(self) -> None:
        spare = [self.child_pid(COORDINATOR)] if COORDINATOR in self.child_ids else []
        self._killed += self._kill_group() + len(self._kill_below(spare).killed)

    def on_child_down(self, exit: ChildExit) -> None:
        """Tell the coordinator; if it is the one that died, kill the rest at once."""
        if exit.child_id == COORDINATOR:
            self._coordinator.drain()
            self._killed += self._kill_group() + len(self._kill_below(()).killed)
            if self._closed is None:
                cause = self._ending if exit.asked else COORDINATOR_DOWN
                self._closed = self._obituary(exit, cause)
            return
        if not exit.asked and exit.child_id != POLICY:
            # What it started must not outlive it, wherever it hung itself (acceptance SL-40).
            self._killed += len(self._kill_below(self._pids()).killed)
        if not self._told_gone:
            self._coordinator.send(role_down(exit))
        self._tell_when_gone()

    def _kill_below(self, spare: Collection[int]) -> guardian.KillReport:
        return guardian.kill_below(os.getpid(), now_us() + GUARDIAN_US, spare=spare, on_pass=self.show_life)

    def _kill_group(self) -> int:
        """Everything but the coordinator is in it."""
        return 0 if self._group is None else cgroup.kill(self._group)

    def _pids(self) -> list[int]:
        return [self.child_pid(child_id) for child_id in self.child_ids]

    def _tell_when_gone(self) -> None:
        if not self._reaping or self._told_gone or COORDINATOR not in self.child_ids:
            return
        if any(child_id != COORDINATOR for child_id in self.child_ids):
            return
        spare = [self.child_pid(COORDINATOR)]
        report = self._kill_below(spare)
        self._killed += len(report.killed)
        self._told_gone = True
        self._coordinator.send(Gone(self._killed, [str(each.pid) for each in report.left], self._rings.left()))
        self.after(LAST_WORDS_US, self._end_coordinator)

    def _end_coordinator(self) -> None:
        if COORDINATOR in self.child_ids:
            self.log.write("error", "coordinator_did_not_leave")
            os.kill(self.child_pid(COORDINATOR), signal.SIGKILL)

    # --- the end

    def on_stop(self, deadline_us: int | None) -> None:
        """The node stops: the session closes in order, and is killed shortly before the node's deadline."""
        self._ending = NODE_STOPPING
        if COORDINATOR not in self.child_ids or not self.tell_child(COORDINATOR, CLOSE_NOTE):
            super().on_stop(deadline_us)
        elif deadline_us is not None:
            self.at(deadline_us - LAST_WORDS_US // 2, lambda: self._reap(force=True))
            self.at(deadline_us - LAST_WORDS_US // 4, lambda: Supervisor.on_stop(self, deadline_us))

    def on_message(self, kind: str, body: dict[str, Any], sender: ActorAddress) -> None:
        """The node will stop: close in order, and be gone by the deadline that the node's supervisor notes."""
        if kind == STOP_BY_NOTE:
            self.on_stop(body["deadline_us"])
        else:
            super().on_message(kind, body, sender)

    def _obituary(self, exit: ChildExit | None, cause: str) -> dict[str, Any]:
        return closed_without_coordinator(exit, self._mirror, self._killed, self._rings.left(), cause)

    def on_finished(self, reason: Finish, cause: ChildExit | None) -> NoReturn:
        """Nothing is alive: report how it ended, and end."""
        if self._closed is None:
            self._closed = self._obituary(cause, COORDINATOR_DOWN)
        payload = fit_for_note(self._closed, MAX_PACKET_BYTES)
        self.tell_supervisor("closed", payload=payload)
        Path(self._path).unlink(missing_ok=True)
        if self._group is not None:
            cgroup.remove(self._group)
        self.finish(str(reason))


def role_down(exit: ChildExit) -> RoleDown:
    """What the coordinator is told about a death."""
    error = None
    if exit.is_unresponsive:
        cause = UNRESPONSIVE
    elif exit.crash is not None:
        cause = "crash" if exit.pid else "start_failed"
        error = {
            "code": str(ErrorCode.ADAPTER_FAILED),
            "message": f"the {exit.child_id} process crashed: {exit.crash.get('type')}",
            "details": {"frames": exit.crash.get("frames", [])},
        }
    elif exit.signal_name is not None:
        cause = f"signal {int(signal.Signals[exit.signal_name])}"
    else:
        cause = f"exit {exit.exit_code}"
    return RoleDown(Role(exit.child_id), exit.incarnation, cause, exit.asked, error)
