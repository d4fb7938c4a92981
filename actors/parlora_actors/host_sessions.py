"""What every host of sessions does, whether the node is its own or another's: start, find and follow sessions."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from parlora.audio.format import AudioFormat
from parlora.errors import Closed, Conflict, InvalidArgument
from parlora.events import Event
from parlora.limits import Limits
from parlora_actors.host_gateway import GatewayClient
from parlora_actors.host_reactor import Reactor
from parlora_actors.host_request import SessionOptions, build_spec
from parlora_actors.session_handle import Session
from parlora_actors.session_life import COORDINATOR_DOWN, obituary
from parlora_actors.subscriber import SinkThread, Subscriber, Unsubscribed

ComponentLike = Any
"""`(implementation, options)`, an implementation alone, or a `Component`; an implementation is an import path
`"package.module:Name"` or a class or function that can be imported by name."""

EventSink = Callable[[Event | Unsubscribed], object] | Subscriber

log = logging.getLogger("parlora.host")


class Node(Protocol):
    """The node as a host reaches it."""

    reactor: Reactor

    @property
    def gateway(self) -> GatewayClient:
        """The line to the gateway."""

    def abandon(self) -> None:
        """In a forked child: close the inherited copies."""


class SessionHost:
    """The base of `ActorHost` and `AttachedHost`. Every method may be called from any thread.

    The program's signal handlers, children, descriptors and start method are untouched. After a fork the copy in the
    child raises `Closed`.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._state = "new"
        self._sessions: dict[str, Session] = {}
        self._sinks: list[SinkThread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End this host."""
        raise NotImplementedError

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
        telemetry: ComponentLike | None = None,
    ) -> Session:
        """Start a session and return its handle, long before it is ready: see `Session.wait_ready`.

        Whatever is wrong in the shape of an argument raises `InvalidArgument` (or `Unsupported` for an audio format) at
        once, `details["field"]` naming it, and nothing is started. What only the session's processes can know arrives
        as its `failed` event. `Backpressure`: the node has as many sessions, or starts in progress, as it takes.
        `Closed`: the node is draining.

        event_sink gets every event from the first one on: a `Subscriber`, or a function that is called on a thread of
        the library's. audio_format: by default mono PCM16LE at 24 kHz. telemetry: a function or its import path, called
        with the measurements of `parlora.telemetry` in the processes that make them.
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
                telemetry,
            )
        )
        sink = _sink(event_sink, spec.session_id)
        node = self._running()
        session = Session(spec, self._on_session_gone)
        self._add(session)
        try:
            session._open(node.gateway.start_session(spec, hold_for_sink=sink is not None), node.reactor)
            if sink is not None:
                self._attach_sink(session, sink)
        except BaseException:
            self._forget(session)
            raise
        return session

    # ---- the library's side

    def _node_of(self) -> Node | None:
        raise NotImplementedError

    def _running(self) -> Node:
        self._check_process()
        node = self._node_of()
        if self._state != "running" or node is None:
            raise Closed(f"this {type(self).__name__} is not running: it is {self._state}")
        return node

    def _add(self, session: Session) -> None:
        with self._lock:
            if session.id in self._sessions:
                raise Conflict("session_id is in use by a running session", details={"field": "session_id"})
            self._sessions[session.id] = session

    def _forget(self, session: Session) -> None:
        """It did not start for us; whoever closes this host meanwhile need not wait for it."""
        with self._lock:
            self._sessions.pop(session.id, None)
        session._bury(obituary(COORDINATOR_DOWN))

    def _attach_sink(self, session: Session, sink: Subscriber | SinkThread) -> None:
        if isinstance(sink, Subscriber):
            session.subscribe(sink)
            return
        session.subscribe(sink.subscriber)
        with self._lock:
            self._sinks.append(sink)
        sink.start()

    def _join_sinks(self, timeout_s: float) -> None:
        for sink in self._sinks:
            sink.join(timeout_s)

    def _on_gone(self, session_id: str, payload: dict[str, Any]) -> None:
        session, node = self._sessions.get(session_id), self._node_of()
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

    def _bury_sessions(self, cause: str) -> None:
        for session in list(self._sessions.values()):
            session._bury(obituary(cause))

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise Closed(f"this {type(self).__name__} belongs to the process that started it, not to its forked copy")

    def _abandon(self) -> None:
        node = self._node_of()
        if node is not None:
            node.abandon()
        for session in self._sessions.values():
            session._abandon()


def keep_for_fork(host: SessionHost) -> None:
    """Have the host's copy in a forked child closed."""
    _hosts.add(host)


def forget_for_fork(host: SessionHost) -> None:
    """The host has nothing left that a forked child could inherit."""
    _hosts.discard(host)


def _abandon_hosts() -> None:
    for host in list(_hosts):
        host._abandon()


_hosts: weakref.WeakSet[SessionHost] = weakref.WeakSet()
os.register_at_fork(after_in_child=_abandon_hosts)


def _sink(value: object, session_id: str) -> Subscriber | SinkThread | None:
    if value is None or isinstance(value, Subscriber):
        return value
    if not callable(value):
        raise InvalidArgument("event_sink must be a function, a Subscriber or None", field="event_sink")
    return SinkThread(value, session_id, lambda error: log.error("an event sink raised %s", type(error).__name__))
