"""Embed Parlora in a Python program: `ActorHost` starts a node of its own and sessions in it (design §8)."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from parlora.audio.format import AudioFormat
from parlora.contract.adapter import ClosePolicy
from parlora.errors import Closed, Conflict, InvalidArgument, ParloraError, Timeout
from parlora.events import Event
from parlora.limits import Limits
from parlora_actors import user_code
from parlora_actors.host_node import EmbeddedNode
from parlora_actors.host_request import SessionOptions, build_spec, main_path
from parlora_actors.host_timing import (
    CLOSED_MARGIN_MS,
    KILL_TIMEOUT_MS,
    NODE_START_TIMEOUT_MS,
    NODE_STOP_TIMEOUT_MS,
    SINK_DRAIN_TIMEOUT_MS,
    now_us,
    until_s,
)
from parlora_actors.messages.launch import Launch
from parlora_actors.session_handle import Session
from parlora_actors.session_life import COORDINATOR_DOWN, NODE_LOST, obituary
from parlora_actors.subscriber import SinkThread, Subscriber, Unsubscribed

ComponentLike = Any
"""`(implementation, options)`, an implementation alone, or a `Component`; an implementation is an import path
`"package.module:Name"` or a class or function that can be imported by name."""

EventSink = Callable[[Event | Unsubscribed], object] | Subscriber

NODE_ROOT: Final = "parlora_actors.node_supervisor.NodeSupervisor"
"""The root actor of a node, as the launcher imports it."""

_log = logging.getLogger("parlora.host")


class ActorHost:
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
    are untouched. After a fork the copy in the child raises `Closed`.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        env_drop: Sequence[str] = (),
        max_sessions: int | None = None,
        log: str | os.PathLike[str] | None = None,
        startup_timeout_ms: int = NODE_START_TIMEOUT_MS,
    ) -> None:
        """Check the options; nothing is started yet.

        preload: modules to import in the node before its first fork, so that sessions start faster. env_drop:
        environment variables the node must not inherit. max_sessions: sessions at once, by default 4 per core. log: a
        file that takes the node's log as JSON lines, by default `node.log` in its run directory, which goes with the
        node. startup_timeout_ms: for the node, not for sessions.
        """
        self._preload = _names(preload, "preload")
        self._env_drop = _names(env_drop, "env_drop")
        self._root_init = {"max_sessions": _positive(max_sessions, "max_sessions")}
        self._log = _path(log, "log")
        self._startup_timeout_ms = _positive(startup_timeout_ms, "startup_timeout_ms") or NODE_START_TIMEOUT_MS
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._state = "new"
        self._node: EmbeddedNode | None = None
        self._sessions: dict[str, Session] = {}
        self._sinks: list[SinkThread] = []

    @property
    def run_dir(self) -> str | None:
        """The node's directory, once it runs."""
        return None if self._node is None else self._node.run_dir

    @property
    def pid(self) -> int | None:
        """The process id of the node's launcher, once started: every process of the node is below it."""
        return None if self._node is None else self._node.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

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
        _hosts.add(self)
        try:
            self._launch()
        except BaseException:
            self._state = "closed"
            raise
        self._state = "running"

    def start_session(
        self,
        *,
        channel: ComponentLike,
        provider: ComponentLike,
        backend: ComponentLike,
        context_policy: ComponentLike,
        instructions: str | None = None,
        history: Sequence[Mapping[str, Any]] = (),
        context: Mapping[str, Any] | None = None,
        event_sink: EventSink | None = None,
        audio_format: AudioFormat | str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Start a session and return its handle, long before it is ready: see `Session.wait_ready`.

        Whatever is wrong in the shape of an argument raises `InvalidArgument` (or `Unsupported` for an audio format) at
        once, `details["field"]` naming it, and nothing is started. What only the session's processes can know arrives
        as its `failed` event. `Backpressure`: the node has as many sessions, or starts in progress, as it takes.

        event_sink gets every event from the first one on: a `Subscriber`, or a function that is called on a thread of
        the library's. audio_format: by default mono PCM16LE at 24 kHz.
        """
        spec = build_spec(
            SessionOptions(
                channel,
                provider,
                backend,
                context_policy,
                instructions,
                history,
                context,
                audio_format,
                limits,
                session_id,
            )
        )
        sink = _sink(event_sink, spec.session_id)
        node = self._running()
        session = Session(spec, self._on_session_gone)
        with self._lock:
            if spec.session_id in self._sessions:
                raise Conflict("session_id is in use by a running session", details={"field": "session_id"})
            self._sessions[spec.session_id] = session
        try:
            session._open(node.start_session(spec, hold_for_sink=sink is not None), node.reactor)
            if sink is not None:
                self._attach_sink(session, sink)
        except BaseException:
            with self._lock:
                self._sessions.pop(spec.session_id, None)
            raise
        return session

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
        with self._lock:
            if self._state in ("closed", "closing", "new"):
                return
            lost, self._state = self._state == "lost", "closing"
        node = self._node
        try:
            if node is not None:
                self._close_all(node, timeout, policy, lost)
        finally:
            self._state = "closed"
            _hosts.discard(self)

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
        _hosts.discard(self)

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
        )
        deadline_us = now_us() + self._startup_timeout_ms * 1_000
        self._node = EmbeddedNode(launch, deadline_us, self._on_gone, self._on_listed, self._on_lost)

    def _attach_sink(self, session: Session, sink: Subscriber | SinkThread) -> None:
        if isinstance(sink, Subscriber):
            session.subscribe(sink)
            return
        session.subscribe(sink.subscriber)
        with self._lock:
            self._sinks.append(sink)
        sink.start()

    def _on_gone(self, session_id: str, payload: dict[str, Any]) -> None:
        session, node = self._sessions.get(session_id), self._node
        if session is not None and node is not None:
            session._tell_gone(payload, node.reactor)

    def _on_session_gone(self, session: Session) -> None:
        with self._lock:
            self._sessions.pop(session.id, None)
            self._sinks = [sink for sink in self._sinks if sink.is_busy]

    def _on_listed(self, running: set[str]) -> None:
        """The gateway was replaced: whatever ended meanwhile told so itself, or died."""
        for session in list(self._sessions.values()):
            if session.id not in running and session._is_connected:
                self._on_gone(session.id, obituary(COORDINATOR_DOWN))

    def _on_lost(self) -> None:
        with self._lock:
            if self._state == "running":
                self._state = "lost"
        _log.error("the node ended unexpectedly; its sessions are lost")
        self._bury_sessions(NODE_LOST)

    def _bury_sessions(self, cause: str) -> None:
        for session in list(self._sessions.values()):
            session._bury(obituary(cause))

    def _close_all(self, node: EmbeddedNode, timeout: float | None, policy: str, lost: bool) -> None:
        sessions = list(self._sessions.values())
        longest_ms = max((session._limits.shutdown_timeout_ms for session in sessions), default=0)
        total_ms = NODE_STOP_TIMEOUT_MS + (longest_ms + CLOSED_MARGIN_MS if sessions else 0)
        deadline_us = now_us() + (total_ms * 1_000 if timeout is None else int(timeout * 1_000_000))
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
        for sink in self._sinks:
            sink.join(SINK_DRAIN_TIMEOUT_MS / 1_000)
        if not stopped and not lost:
            raise Timeout("the node did not stop in time and was killed")

    def _running(self) -> EmbeddedNode:
        self._check_process()
        node = self._node
        if self._state != "running" or node is None:
            raise Closed(f"this ActorHost is not running: it is {self._state}")
        return node

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise Closed("this ActorHost belongs to the process that started it, not to its forked copy")

    def _abandon(self) -> None:
        if self._node is not None:
            self._node.abandon()
        for session in self._sessions.values():
            session._abandon()


def _abandon_hosts() -> None:
    for host in list(_hosts):
        host._abandon()


_hosts: weakref.WeakSet[ActorHost] = weakref.WeakSet()
os.register_at_fork(after_in_child=_abandon_hosts)


def _sink(value: object, session_id: str) -> Subscriber | SinkThread | None:
    if value is None or isinstance(value, Subscriber):
        return value
    if not callable(value):
        raise InvalidArgument("event_sink must be a function, a Subscriber or None", field="event_sink")
    return SinkThread(value, session_id, lambda error: _log.error("an event sink raised %s", type(error).__name__))


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
