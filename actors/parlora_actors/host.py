"""Embed Parlora in a Python program: `ActorHost` starts a node of its own and sessions in it (design §8)."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Final, Self

from parlora.contract.adapter import ClosePolicy
from parlora.errors import Closed, InvalidArgument, ParloraError, Timeout
from parlora_actors import user_code
from parlora_actors.host_attached import AttachedHost
from parlora_actors.host_node import EmbeddedNode
from parlora_actors.host_request import close_policy, main_path
from parlora_actors.host_sessions import SessionHost, forget_for_fork, keep_for_fork, log
from parlora_actors.host_timing import (
    CLOSED_MARGIN_MS,
    DRAIN_CLOSE_TIMEOUT_MS,
    KILL_TIMEOUT_MS,
    NODE_START_TIMEOUT_MS,
    NODE_STOP_TIMEOUT_MS,
    SINK_DRAIN_TIMEOUT_MS,
    deadline_after,
    deadline_of,
    now_us,
    until_s,
    wait_s,
)
from parlora_actors.messages.launch import Launch
from parlora_actors.session_handle import Session
from parlora_actors.session_life import NODE_LOST

STOPPED: Final = "stopped"
"""The cause of a node's end that somebody asked for."""

NODE_ROOT: Final = "parlora_actors.node_supervisor.NodeSupervisor"
"""The root actor of a node, as the launcher imports it."""


class ActorHost(SessionHost):
    """A node of processes that belongs to this program and ends with it.

    >>> with ActorHost() as host:                                                       # doctest: +SKIP
    ...     session = host.start_session(
    ...         channel=("parlora.channels.wav:WavChannel", {"caller": "caller.wav", "record": "heard.wav"}),
    ...         provider=("parlora.providers.offline:Offline", {"grammar": GRAMMAR}),
    ...         backend=("parlora.backends.functions:Functions", {"handler": "shop:answer"}),
    ...         context_policy="parlora.policies:Delegate",
    ...     )
    ...     session.wait_ready()

    Every method may be called from any thread. The program's signal handlers, children, descriptors and start method
    are untouched. After a fork the copy in the child raises `Closed`. `ActorHost.attach` gives a host on a node that
    runs already.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        env_drop: Sequence[str] = (),
        max_sessions: int | None = None,
        log: str | os.PathLike[str] | None = None,
        startup_timeout_ms: int = NODE_START_TIMEOUT_MS,
        run_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Check the options; nothing is started yet.

        preload: modules to import in the node before its first fork, so that sessions start faster. env_drop:
        environment variables the node must not inherit. max_sessions: sessions at once, by default 4 per core. log: a
        file that takes the node's log as JSON lines, by default `node.log` in its run directory, which goes with the
        node. startup_timeout_ms: for the node, not for sessions. run_dir: the node's directory, where others find it;
        by default a fresh one of its own. A live node there is `Conflict` at `start`.
        """
        super().__init__()
        self._preload = _names(preload, "preload")
        self._env_drop = _names(env_drop, "env_drop")
        self._root_init = {"max_sessions": _positive(max_sessions, "max_sessions")}
        self._log = _path(log, "log")
        self._run_dir = _path(run_dir, "run_dir")
        self._startup_timeout_ms = _positive(startup_timeout_ms, "startup_timeout_ms") or NODE_START_TIMEOUT_MS
        self._node: EmbeddedNode | None = None
        self._node_ended = threading.Event()

    @staticmethod
    def attach(run_dir: str | os.PathLike[str] | None = None) -> AttachedHost:
        """A host on a node that runs already, by default this user's standing node: see `parlora.attach`."""
        return AttachedHost(run_dir)

    @property
    def run_dir(self) -> str | None:
        """The node's directory, once it runs."""
        return None if self._node is None else self._node.run_dir

    @property
    def pid(self) -> int | None:
        """The process id of the node's keeper, once started: every process of the node is below it."""
        return None if self._node is None else self._node.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def start(self) -> None:
        """Start the node and wait until it answers, at most `startup_timeout_ms`.

        Raises the node's own error, e.g. `Unsupported` on a platform that cannot run it; nothing is left then.
        """
        if user_code.is_loading_main():
            raise InvalidArgument(
                "the main file starts an ActorHost while it is being loaded in another process;"
                " put the start under: if __name__ == '__main__':"
            )
        self._check_process()
        with self._lock:
            if self._state != "new":
                raise Closed(f"an ActorHost can be started once; this one is {self._state}")
            self._state = "starting"
        keep_for_fork(self)
        try:
            self._launch()
        except BaseException:
            self._state = "closed"
            raise
        self._state = "running"

    def sessions(self) -> list[Session]:
        """The sessions of this host that are not gone yet."""
        self._check_process()
        with self._lock:
            return list(self._sessions.values())

    def close(self, timeout: float | None = None, policy: str = ClosePolicy.CANCEL) -> None:
        """End every session and the node; nothing is left afterwards. A second call does nothing.

        policy: what becomes of running jobs. timeout: seconds for all of it; by default the longest shutdown deadline
        of the sessions, and 5 s for the node. Raises `Timeout` if the node had to be killed, after it is gone.
        """
        self._check_process()
        policy, asked_us = close_policy(policy), deadline_after(timeout)
        with self._lock:
            if self._state in ("closed", "closing", "new"):
                return
            lost, self._state = self._state == "lost", "closing"
        node = self._node
        try:
            if node is not None:
                self._close_all(node, asked_us, policy, lost)
        finally:
            self._state = "closed"
            forget_for_fork(self)

    def drain(self, timeout: float) -> None:
        """Take no new sessions; wait until all have ended, at most `timeout` seconds, then close the rest and the node.

        This concerns every session of the node, also those of attached hosts.
        """
        until_us = deadline_of(timeout)
        node = self._running()
        with self._lock:
            self._state = "draining"
        deadline_us = until_us + DRAIN_CLOSE_TIMEOUT_MS * 1_000
        node.gateway.end_node(until_us, deadline_us)
        self._node_ended.wait(until_s(deadline_us))
        self.close()

    @property
    def node_end_cause(self) -> str | None:
        """Why the node has ended: `stopped`, or what broke; None while it runs."""
        return self._node.end_cause if self._node is not None and self._node_ended.is_set() else None

    def wait_node_ended(self, timeout: float | None = None) -> bool:
        """Wait until the node has ended without this host's doing: it broke, or was told to stop by another.

        False after `timeout` seconds.
        """
        return self._node_ended.wait(wait_s(timeout))

    def kill(self) -> None:
        """End the node now, without closing its sessions: each gets a `closed` with cause `node_lost`."""
        self._check_process()
        node = self._node
        if node is None or self._state == "closed":
            return
        self._state = "closing"
        node.end(now_us() + KILL_TIMEOUT_MS * 1_000)
        self._bury_sessions(NODE_LOST)
        node.release()
        self._state = "closed"
        forget_for_fork(self)

    # ---- the library's side

    def _launch(self) -> None:
        launch = Launch(
            root=NODE_ROOT,
            root_init=self._root_init,
            sys_path=list(sys.path),
            cwd=os.getcwd(),
            preload=self._preload,
            env_drop=self._env_drop,
            main_path=main_path(),
            log_path=self._log,
            run_dir=self._run_dir,
        )
        deadline_us = now_us() + self._startup_timeout_ms * 1_000
        self._node = EmbeddedNode(launch, deadline_us, self._on_gone, self._on_listed, self._on_lost)

    def _on_lost(self) -> None:
        with self._lock:
            was = self._state
            if was in ("running", "draining"):
                self._state = "lost"
        self._node_ended.set()
        if was == "running" and self.node_end_cause != STOPPED:
            log.error("the node ended unexpectedly: %s; its sessions are lost", self.node_end_cause)
        self._bury_sessions(NODE_LOST)

    def _close_all(self, node: EmbeddedNode, asked_us: int | None, policy: str, lost: bool) -> None:
        sessions = list(self._sessions.values())
        longest_ms = max((session._limits.shutdown_timeout_ms for session in sessions), default=0)
        total_ms = NODE_STOP_TIMEOUT_MS + (longest_ms + CLOSED_MARGIN_MS if sessions else 0)
        deadline_us = now_us() + total_ms * 1_000 if asked_us is None else asked_us
        node_share_us = min(NODE_STOP_TIMEOUT_MS * 1_000, max(0, deadline_us - now_us()) // 2)
        for session in sessions:
            with contextlib.suppress(ParloraError):
                session.close(policy)
        for session in sessions:
            with contextlib.suppress(Timeout):
                session.wait_closed(until_s(deadline_us - node_share_us))
        stopped = node.end(deadline_us)
        self._bury_sessions(NODE_LOST)
        node.release()
        self._join_sinks(SINK_DRAIN_TIMEOUT_MS / 1_000)
        if not stopped and not lost:
            raise Timeout("the node did not stop in time and was killed")

    def _node_of(self) -> EmbeddedNode | None:
        return self._node


def _path(value: object, field: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike):
        raise InvalidArgument(f"{field} must be a path or None", field=field)
    return os.path.abspath(os.fspath(value))


def _positive(value: object, field: str) -> int | None:
    if value is not None and (type(value) is not int or value < 1):
        raise InvalidArgument(f"{field} must be a positive integer", field=field)
    return value


def _names(value: object, field: str) -> list[str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidArgument(f"{field} must be a list of names", field=field)
    names = list(value)
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidArgument(f"{field} must be a list of names", field=field)
    return names
