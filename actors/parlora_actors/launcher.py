"""The process between a host and its node: it starts Thespian and the root actor, watches them, and ends with its host.

The keeper forks it with one end of a socket pair to the host (`messages.launch`). It has one thread, runs no code of
adapters, and waits for nothing without a deadline. As a subreaper it sees every orphan of the node, so whatever dies,
in whatever order, it kills the rest. It exits when the host asks, when the host, the keeper, the admin or the root is
gone or the root hangs, and on SIGTERM.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Final

from parlora._process import set_child_subreaper
from parlora.errors import InvalidArgument, ParloraError, Timeout
from parlora_actors import cgroup, guardian, procfs, user_code
from parlora_actors.crash_report import describe_crash
from parlora_actors.link import Link
from parlora_actors.messages.launch import (
    FROM_LAUNCHER,
    TO_LAUNCHER,
    Launch,
    NodeFailed,
    NodeGone,
    NodePlaced,
    NodeReady,
    StopNode,
)
from parlora_actors.node_log import NodeLog, rotate
from parlora_actors.node_system import NodeDown, NodeSystem, note_signals
from parlora_actors.platform_check import check_platform, raise_descriptor_limit
from parlora_actors.run_directory import LOG_NAME, THESPIAN_LOG_NAME, RunDirectory
from parlora_actors.timing import (
    CONFIG_US,
    FINAL_KILL_US,
    LAST_WORD_US,
    LAUNCHER_MARGIN_US,
    LOG_CHECK_US,
    NODE_START_US,
    ROOT_STOP_US,
    now_us,
)
from parlora_actors.warm_up import warm_up

_ENVIRONMENT: Final = {
    "OPENBLAS_NUM_THREADS": "1",  # numpy starts a thread per core otherwise, and a fork copies only one
}
_NEVER_INHERITED: Final = ("LD_PRELOAD", "PYTHONSTARTUP")


class _HostDown(Exception):
    """The host's process or its end of the control socket is gone."""


class _KeeperDown(Exception):
    """The process above this one is gone: nobody would see this one's death."""


class Launcher:
    """The life of one node, seen from its launcher."""

    def __init__(self, control: socket.socket, host: int, keeper: int, tell_run_dir: int) -> None:
        self._control = Link(control, TO_LAUNCHER, FROM_LAUNCHER)
        self._host = host
        self._keeper = keeper
        self._tell_run_dir = tell_run_dir
        self._launch: Launch | None = None
        self._directory: RunDirectory | None = None
        self._system: NodeSystem | None = None
        self._log = NodeLog(None)
        self._log_path = ""
        self._stop_deadline_us: int | None = None
        self._signalled = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_terminated = False

    def run(self) -> None:
        """Live until the node has to end, then leave nothing behind."""
        cause = "start_failed"
        try:
            self._start()
            cause = "stopped"
            self._serve()
        except _HostDown:
            cause = "host_down"
        except _KeeperDown:
            cause = "keeper_down"
        except NodeDown as down:
            if cause == "start_failed":
                self._fail(down)
            else:
                cause = down.cause
            self._log.write("error", "node_down", **down.details)
        except ParloraError as error:
            self._fail(error)
        except Exception as error:  # whatever it is, the host hears of it and nothing is left
            details = describe_crash(error)
            self._log.write("error", "crash", **details)
            self._fail(ParloraError("the launcher failed", details=details))
        self._end(cause)

    def _fail(self, error: ParloraError) -> None:
        self._control.send(NodeFailed(error.to_data()))

    # Starting

    def _start(self) -> None:
        check_platform()
        raise_descriptor_limit()
        note_signals((signal.SIGTERM, signal.SIGCHLD), self._note_signal)
        launch = self._await_launch()
        deadline_us = now_us() + NODE_START_US
        _take_surroundings(launch)
        self._directory = RunDirectory.create() if launch.run_dir is None else RunDirectory.take(launch.run_dir)
        cgroup.make_for_node(self._directory.path)
        os.write(self._tell_run_dir, self._directory.path.encode())
        self._control.send(NodePlaced(self._directory.path))
        self._log_path = launch.log_path or self._directory.file(LOG_NAME)
        try:
            self._log = NodeLog(_open_log(self._log_path), role="launcher")
        except OSError as error:
            raise InvalidArgument(f"log: cannot write {self._log_path}: {error.strerror}", field="log") from error
        thespian_log = self._directory.file(THESPIAN_LOG_NAME)
        os.close(_open_log(thespian_log))  # Thespian itself would make it readable for others
        os.environ["THESPLOG_FILE"] = thespian_log
        warm_up(launch.preload)
        self._system = NodeSystem(self._directory.path, self._log, self._ask_stop)
        self._system.start(launch.root, launch.root_init, self._look_around)
        while not self._system.is_up:
            if not self._wait(deadline_us):
                raise Timeout("the root actor did not start in time")
        self._control.send(NodeReady(self._directory.path, os.getpid(), self._system.root_pid))

    def _await_launch(self) -> Launch:
        deadline_us = now_us() + CONFIG_US
        while self._launch is None:
            if not self._wait(deadline_us):
                raise Timeout("no configuration came from the host")
        return self._launch

    # Serving

    def _serve(self) -> None:
        """Until the host asked to stop and the root has stopped, or its time is over."""
        assert self._system is not None
        rotate_us = now_us() + LOG_CHECK_US
        while self._stop_deadline_us is None:
            self._wait(min(rotate_us, self._system.next_look_us))
            if now_us() >= self._system.next_look_us:
                self._system.look_at_root()
            if now_us() >= rotate_us:
                rotate_us = now_us() + LOG_CHECK_US
                self._rotate_log()
        while not self._system.is_root_down:
            if not self._wait(self._stop_deadline_us):
                return

    def _rotate_log(self) -> None:
        assert self._log.fd is not None
        try:
            rotate(self._log_path, self._log.fd)
        except OSError as error:
            self._log.write("error", "log_not_rotated", error=describe_crash(error))

    def _wait(self, deadline_us: int | None) -> bool:
        """Handle what happens next; False if the deadline passed first."""
        handlers: dict[int, Callable[[], None]] = {
            self._host: self._on_host_down,
            self._keeper: self._on_keeper_down,
            self._signalled: self._on_signal,
            self._control.fileno(): self._on_control,
        }
        if self._system is not None:
            handlers |= self._system.handlers()
        ready = _poll(handlers, deadline_us)
        for fd in ready:
            try:
                handlers[fd]()
            except NodeDown as down:
                if down.cause != "root_down" or self._stop_deadline_us is None:
                    raise
        return bool(ready)

    def _look_around(self) -> None:
        self._wait(0)

    def _on_control(self) -> None:
        for message in self._control.receive():
            if isinstance(message, Launch):
                self._launch = message
            elif isinstance(message, StopNode):
                self._ask_stop(message.deadline_us)
        if self._control.closed:
            raise _HostDown

    def _on_host_down(self) -> None:
        raise _HostDown

    def _on_keeper_down(self) -> None:
        raise _KeeperDown

    def _ask_stop(self, deadline_us: int) -> None:
        if self._stop_deadline_us is None or deadline_us < self._stop_deadline_us:
            self._stop_deadline_us = deadline_us
            if self._system is not None:
                self._system.ask_root_to_stop(deadline_us - LAUNCHER_MARGIN_US)

    def _note_signal(self, number: int) -> None:
        self._is_terminated |= number == signal.SIGTERM
        os.eventfd_write(self._signalled, 1)

    def _on_signal(self) -> None:
        os.eventfd_read(self._signalled)
        if self._is_terminated:
            self._ask_stop(now_us() + ROOT_STOP_US)
        if self._system is not None:
            self._system.bury_adopted()

    # Ending

    def _end(self, cause: str) -> None:
        """Kill everything below, remove the run directory, tell the host."""
        if self._system is not None and self._system.is_root_down and cause == "stopped":
            self._system.shut_down()
        report = guardian.kill_below(os.getpid(), now_us() + FINAL_KILL_US)
        guardian.reap_adopted(())
        left = [] if guardian.has_no_children() else procfs.descendants(os.getpid())
        if self._directory is not None:
            self._directory.remove()
        thespian = self._system.thespian_pids if self._system is not None else frozenset()
        killed = sum(each.pid not in thespian for each in report.killed)
        self._control.send(NodeGone(cause, killed, left))
        deadline_us = now_us() + LAST_WORD_US
        while not self._control.flush() and now_us() < deadline_us:
            time.sleep(0.001)
        self._control.close()


def _open_log(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _poll(fds: dict[int, Callable[[], None]], deadline_us: int | None) -> list[int]:
    poller = select.poll()
    for fd in fds:
        poller.register(fd, select.POLLIN)
    timeout_ms = None if deadline_us is None else max(0, -((now_us() - deadline_us) // 1_000))
    return [fd for fd, _ in poller.poll(timeout_ms)]


def _take_surroundings(launch: Launch) -> None:
    for name in (*_NEVER_INHERITED, *launch.env_drop):
        os.environ.pop(name, None)
    os.environ |= _ENVIRONMENT
    user_code.install(launch.sys_path or sys.path, launch.cwd or os.getcwd(), launch.main_path)


def run(control: int, host: int, keeper: int, tell_run_dir: int) -> int:
    """Run a launcher; returns its exit code.

    control: the socket to the host. host, keeper: their pidfds. tell_run_dir: a pipe to the keeper.
    """
    procfs.name_process("launcher")
    set_child_subreaper()
    Launcher(socket.socket(fileno=control), host, keeper, tell_run_dir).run()
    return 0
