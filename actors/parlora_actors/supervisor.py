"""The actor part of supervision: it forks, listens, watches, stops and kills; what to do, `SupervisionCore` decides.

A child's end is seen by its pidfd. Before it is acted on, the child's link is read to its end, so a supervisor always
knows what the child last said: a crash, a reason, or nothing, which means that something killed it.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NoReturn

from parlora._process import set_child_subreaper
from parlora.errors import InvalidArgument, NotFound
from parlora.wire import from_data, pack
from parlora_actors import birth, guardian
from parlora_actors.actor import ParloraActor, load_actor
from parlora_actors.child_spec import ChildSpec, SupervisorSpec
from parlora_actors.crash_report import describe_crash
from parlora_actors.messages.monitor import ChildReport
from parlora_actors.status_report import report_child
from parlora_actors.supervised_process import ChildExit, ChildProcess, Inheritance
from parlora_actors.supervision_actions import Action, Dropped, Finish, Finished, Kill, Start, Started, Stop
from parlora_actors.supervision_core import SupervisionCore
from parlora_actors.supervision_link import Life, Packet, link_pair
from parlora_actors.supervision_pulse import Pulse
from parlora_actors.thespian_books import forget_actor, prepare_actor, socket_directory
from parlora_actors.timers import Timer
from parlora_actors.timing import CRASH_KILL_US, KILL_CONFIRM_US, STOP_MARGIN_US, now_us
from parlora_actors.transport.address import remove_socket

EXIT_GAVE_UP: Final = 73
"""Exit code of a supervisor whose children failed to start or failed too often."""

_LAST_BATCHES: Final = 16
"""Most batches read from the link of a child that is gone: more than its socket holds, so a process that the child left
behind, and that still writes to its end, delays nothing."""


class Supervisor(ParloraActor):
    """Starts children, restarts them by rule, and leaves nothing behind.

    Usable as it is: its `init` is `{"spec": to_data(SupervisorSpec(...))}`. Subclasses call `supervise` from `on_init`
    and may override the hooks. It says hello when all children of the spec have.

    kills_orphans: whether a living process that fell to this one, because its parent died, is killed at once. If not,
    it is killed when the supervisor ends.
    """

    kills_orphans: ClassVar[bool] = False
    says_hello_itself: ClassVar[bool] = True

    def on_init(self, init: dict[str, Any]) -> None:
        """Supervise the children of `init["spec"]`."""
        self.supervise(from_data(init["spec"], SupervisorSpec))

    # Hooks

    def prepare_child(self, child: ChildSpec, incarnation: int) -> Inheritance:
        """Before each fork: make what this incarnation shall inherit. Its copies here stay open."""
        return Inheritance()

    def child_forked(self, child: ChildSpec, incarnation: int, pid: int) -> None:
        """After each fork: close what only the child needs."""

    def on_child_up(self, child_id: str, hello: dict[str, Any]) -> None:
        """A child said hello: `{pid, start_ticks, role, incarnation}`."""

    def on_child_down(self, exit: ChildExit) -> None:
        """A child's process is gone; what follows is decided after this."""

    def on_child_dropped(self, child_id: str) -> None:
        """A child is gone for good and may be started anew under its id."""

    def on_child_message(self, child_id: str, kind: str, body: dict[str, Any]) -> None:
        """Take a note of a child (`tell_supervisor` there)."""

    def on_finished(self, reason: Finish, cause: ChildExit | None) -> NoReturn:
        """All children are gone: end this process, successfully unless they failed."""
        details = {} if cause is None else {"child": cause.child_id, "exit": cause.summary, "crash": cause.crash}
        if reason in (Finish.STOPPED, Finish.AUTO_SHUTDOWN):
            self.finish(reason.value, **details)
        self.leave(EXIT_GAVE_UP, reason.value, **details)

    # What a subclass may call

    def supervise(self, spec: SupervisorSpec) -> None:
        """Start the children. Once, from `on_init`."""
        set_child_subreaper()
        self._core = SupervisionCore(spec)
        self._processes: dict[str, ChildProcess] = {}
        self._todo: deque[Action] = deque()
        self._is_working = False
        self._stop_timer: Timer | None = None
        self._cause: ChildExit | None = None
        self._pulse = Pulse(
            spec.unresponsive_ms, self.after, lambda: self._processes.values(), self._read_link, self._on_silent
        )
        self._child_signal = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.watch(self._child_signal, self._on_child_signal)
        signal.signal(signal.SIGCHLD, self._note_child_signal)
        self._do(self._core.begin(now_us()))

    def start_child(self, child: ChildSpec) -> None:
        """Add and start a child. Raises `Conflict` or `InvalidArgument`. A failed start comes as `on_child_down`."""
        self._do(self._core.start_child(child, now_us()))

    def start_children(self, children: Iterable[ChildSpec]) -> None:
        """Add and start several children at once; see `start_child`."""
        self._do([action for child in children for action in self._core.start_child(child, now_us())])

    def terminate_child(self, child_id: str) -> None:
        """Stop a child for good. Raises `NotFound`."""
        self._do(self._core.terminate_child(child_id, now_us()))

    def replace_child(self, child_id: str) -> None:
        """Kill a child and start it again, without counting it as a failure. Raises `NotFound`."""
        self._do(self._core.replace(child_id, now_us()))

    def fail_child(self, child_id: str) -> None:
        """Kill a child that does not do its part; it counts as its failure. Raises `NotFound`."""
        self._do(self._core.unresponsive(child_id, self._core.incarnation(child_id), now_us()))

    def tell_child(self, child_id: str, kind: str, descriptors: Sequence[int] = (), **body: Any) -> bool:
        """A note to a child (`on_message` there), with copies of descriptors; `False` if it has no process or is full.

        It arrives also at a child that has not said hello yet.
        """
        process = self._processes.get(child_id)
        return process is not None and process.link.send(Life.NOTE, {"kind": kind, "body": body}, descriptors)

    def child_pid(self, child_id: str) -> int:
        """The pid of a running child. Raises `NotFound`."""
        try:
            return self._processes[child_id].actor.pid
        except KeyError:
            raise NotFound(f"child {child_id} has no process", details={"child": child_id}) from None

    def report_children(self, roles: Mapping[str, str]) -> tuple[ChildReport, ...]:
        """For a monitor: those of the children named in `roles`, each with its role, that have a process."""
        found = ((role, self._processes.get(child_id)) for child_id, role in roles.items())
        return tuple(report_child(child, role) for role, child in found if child is not None and child.pidfd >= 0)

    @property
    def child_ids(self) -> tuple[str, ...]:
        """The children that have a process, in no order."""
        return tuple(self._processes)

    # What the supervisor itself is told

    def on_stop(self, deadline_us: int | None) -> None:
        """Stop all children, and be gone by `deadline_us`."""
        own_us = None if deadline_us is None else deadline_us - STOP_MARGIN_US
        self._do(self._core.stop(own_us, now_us()))

    def before_exit(self) -> None:
        """Kill everything below this process, whatever state it is in."""
        deadline_us = now_us() + CRASH_KILL_US
        report = guardian.kill_below(os.getpid(), deadline_us)
        for process in getattr(self, "_processes", {}).values():
            remove_socket(socket_directory(self), process.actor.pid)
        self._bury_adopted(())
        if report.left:
            self.log.write("error", "left_behind", pids=[each.pid for each in report.left])

    # Carrying out what the core decided

    def _do(self, actions: Iterable[Action]) -> None:
        self._todo.extend(actions)
        if self._is_working:  # an action led to another decision; it comes after what was decided before
            return
        self._is_working = True
        try:
            while self._todo:
                starts = self._take_starts()
                if starts:
                    self._start_all(starts)
                else:
                    self._carry_out(self._todo.popleft())
        finally:
            self._is_working = False
        self._arm_stop_timer()

    def _take_starts(self) -> list[Start]:
        starts: list[Start] = []
        while self._todo and isinstance(self._todo[0], Start):
            starts.append(self._todo.popleft())  # type: ignore[arg-type]
        return starts

    def _carry_out(self, action: Action) -> None:
        match action:
            case Stop():
                self._stop(action)
            case Kill():
                self._kill(action)
            case Started():
                self.say_hello()
            case Dropped():
                self.on_child_dropped(action.child_id)
            case Finished():
                self.on_finished(action.reason, self._cause)

    def _start_all(self, starts: list[Start]) -> None:
        """Prepare all, fork them right after each other, and only then tend to them.

        Whatever a parent writes between two forks, the kernel copies for each child apart: 2 MiB a child and a third of
        the time of a start, when each was prepared, forked and tended to in turn.
        """
        processes = [process for action in starts if (process := self._prepare(action)) is not None]
        for process in processes:
            process.fork()
        specs = {action.child.id: action.child for action in starts}
        for process in processes:
            self._tend(process, specs[process.child_id])

    def _prepare(self, action: Start) -> ChildProcess | None:
        child, incarnation = action.child, action.incarnation
        inheritance = self.prepare_child(child, incarnation)
        link, lower = link_pair()
        message = {"role": child.role or child.id, "incarnation": incarnation, "init": child.init | inheritance.init}
        try:
            given = birth.Birth(pack(message), lower, self.log.fd, frozenset(inheritance.keep), inheritance.cgroup)
            actor = prepare_actor(self, load_actor(child.actor))
        except InvalidArgument as error:
            link.close()
            os.close(lower)
            self._not_started(child.id, incarnation, error)
            return None
        return ChildProcess(child.id, incarnation, action.deadline_us, actor, given, link)

    def _tend(self, process: ChildProcess, child: ChildSpec) -> None:
        process.after_fork()
        if process.fork_error is not None:
            process.link.close()
            forget_actor(self, process.actor)
            self._not_started(child.id, process.incarnation, process.fork_error)
            return
        self._processes[child.id] = process
        self.watch(process.pidfd, lambda: self._gone(process))
        self.watch(process.link.fileno(), lambda: self._read_link(process))
        incarnation = process.incarnation
        process.deadline = self.at(
            process.start_deadline_us, lambda: self._do(self._core.start_overdue(child.id, incarnation, now_us()))
        )
        self.child_forked(child, incarnation, process.actor.pid)

    def _not_started(self, child_id: str, incarnation: int, error: Exception) -> None:
        crash = describe_crash(error)
        self.log.write("error", "child_start_failed", child=child_id, error=crash)
        self._down(ChildExit(child_id, incarnation, 0, None, None, False, False, None, {}, crash))

    def _stop(self, action: Stop) -> None:
        process = self._processes[action.child_id]
        process.asked = True
        deadline_us = action.deadline_us
        self._set_deadline(process, None)
        if deadline_us is not None:
            on_overdue = self._core.stop_overdue
            timer = self.at(deadline_us, lambda: self._do(on_overdue(process.child_id, process.incarnation, now_us())))
            self._set_deadline(process, timer)
        process.link.send(Life.STOP, {"deadline_us": deadline_us})

    def _kill(self, action: Kill) -> None:
        process = self._processes[action.child_id]
        process.asked = not process.is_unresponsive
        self._set_deadline(process, None)
        report = guardian.kill_tree(process.actor.pid, now_us() + KILL_CONFIRM_US, on_pass=self.show_life)
        if any(each.pid == process.actor.pid for each in report.left):
            self.log.write("error", "left_behind", child=process.child_id, pids=[each.pid for each in report.left])
            self._gone(process)

    def _set_deadline(self, process: ChildProcess, timer: Timer | None) -> None:
        if process.deadline is not None:
            process.deadline.cancel()
        process.deadline = timer

    def _arm_stop_timer(self) -> None:
        deadline_us = self._core.deadline_us
        if deadline_us is None or (self._stop_timer is not None and self._stop_timer.due_us == deadline_us):
            return
        if self._stop_timer is not None:
            self._stop_timer.cancel()
        self._stop_timer = self.at(deadline_us, lambda: self._do(self._core.deadline_passed(now_us())))

    # What children do

    def _read_link(self, process: ChildProcess) -> None:
        for packet in process.link.receive():
            self._on_child_packet(process, packet)
        if not process.link.is_open:
            self.unwatch(process.link.fileno())

    def _on_child_packet(self, process: ChildProcess, packet: Packet) -> None:
        if packet.life == Life.HELLO and not process.was_up:
            process.was_up = True
            if not process.asked:
                self._set_deadline(process, None)
            self._pulse.begin(process)
            self.on_child_up(process.child_id, packet.body)
            self._do(self._core.child_ready(process.child_id, process.incarnation, now_us()))
        elif packet.life == Life.PONG and process.heartbeat is not None:
            process.heartbeat.heard()
        elif packet.life == Life.CRASH:
            process.crash = packet.body
        elif packet.life == Life.EXIT:
            process.last_words = packet.body
        elif packet.life == Life.NOTE:
            body = packet.body["body"]
            if packet.descriptors:
                body["descriptors"] = list(packet.descriptors)
            self.on_child_message(process.child_id, packet.body["kind"], body)

    def _on_silent(self, process: ChildProcess) -> None:
        process.is_unresponsive = True
        self._do(self._core.unresponsive(process.child_id, process.incarnation, now_us()))

    def _gone(self, process: ChildProcess) -> None:
        """The child's process has ended: read its last words, bury it, correct the books, decide."""
        for _ in range(_LAST_BATCHES):
            self._read_link(process)
            if not process.link.has_more:
                break
        if self._processes.get(process.child_id) is not process:
            return
        del self._processes[process.child_id]
        self._set_deadline(process, None)
        self.unwatch(process.pidfd)
        self.unwatch(process.link.fileno())
        os.close(process.pidfd)
        process.link.close()
        pid = process.actor.pid
        remove_socket(socket_directory(self), pid)
        code = process.actor.take_exit_code()
        if code is not None:
            forget_actor(self, process.actor)
        if self.kills_orphans:
            self._kill_orphans()
        words = process.last_words or {"reason": None, "details": {}}
        self._down(
            ChildExit(
                process.child_id,
                process.incarnation,
                pid,
                code if code is not None and code >= 0 else None,
                signal.Signals(-code).name if code is not None and code < 0 else None,
                process.was_up,
                process.asked,
                words["reason"],
                words["details"],
                process.crash,
                process.is_unresponsive,
            )
        )

    def _down(self, exit: ChildExit) -> None:
        if not exit.asked:
            self.log.write("warning", "child_down", child=exit.child_id, incarnation=exit.incarnation, how=exit.summary)
        self.on_child_down(exit)
        was_stopping = self._core.is_stopping
        actions = self._core.child_down(exit.child_id, exit.incarnation, exit.is_normal, now_us())
        if self._core.is_stopping and not was_stopping:
            self._cause = exit
        self._do(actions)

    # Orphans and zombies

    def _note_child_signal(self, _number: int, _frame: object) -> None:
        os.eventfd_write(self._child_signal, 1)

    def _on_child_signal(self) -> None:
        os.eventfd_read(self._child_signal)
        own = {process.actor.pid for process in self._processes.values()}
        if self.kills_orphans:
            self._kill_orphans()
        self._bury_adopted(own)

    def _kill_orphans(self) -> None:
        own = [process.actor.pid for process in self._processes.values()]
        report = guardian.kill_below(os.getpid(), now_us() + KILL_CONFIRM_US, spare=own, on_pass=self.show_life)
        if report.killed:
            self.log.write("warning", "orphans_killed", pids=[each.pid for each in report.killed])
        self._bury_adopted(own)

    def _bury_adopted(self, own: Collection[int]) -> None:
        guardian.reap_adopted(own, lambda pid: remove_socket(socket_directory(self), pid))
