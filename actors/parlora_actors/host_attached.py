"""A host on a node that is not its own: another program's, or the standing node of `parlora-actor node`."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from typing import Any

from parlora.errors import Closed, InvalidArgument, NotFound, ParloraError
from parlora.ids import check_id
from parlora.limits import Limits
from parlora_actors.host_gateway import GatewayClient
from parlora_actors.host_reactor import Reactor
from parlora_actors.host_sessions import SessionHost, forget_for_fork, keep_for_fork, log
from parlora_actors.host_timing import (
    CONNECT_TIMEOUT_MS,
    DRAIN_CLOSE_TIMEOUT_MS,
    LOST_NODE_STOP_TIMEOUT_MS,
    SINK_DRAIN_TIMEOUT_MS,
    deadline_of,
    now_us,
    wait_s,
)
from parlora_actors.monitor_client import NodeWatch, find_node
from parlora_actors.session_handle import Session
from parlora_actors.session_life import NODE_LOST


@dataclass(frozen=True, slots=True)
class RunningSession:
    """A session that runs on a node, as the node lists it.

    path: its own socket. started_us: when its processes were started. deadline_us: when its startup must be over.
    """

    session_id: str
    path: str
    state: str
    started_us: int
    deadline_us: int
    limits: Limits


class AttachedHost(SessionHost):
    """A host on a node that runs already; made by `parlora.attach`.

    Ending it leaves the node and every session as they are, also those that it started.
    """

    def __init__(self, run_dir: str | os.PathLike[str] | None = None) -> None:
        """See `attach`."""
        super().__init__()
        self.run_dir = find_node(run_dir)
        self._node_ended = threading.Event()
        self.reactor = Reactor(f"parlora-attached-{os.getpid()}")
        self.reactor.start()
        try:
            deadline_us = now_us() + CONNECT_TIMEOUT_MS * 1_000
            self._gateway = GatewayClient(
                self.run_dir, self.reactor, deadline_us, self._on_gone, self._on_listed, self._on_lost
            )
            try:
                self._gateway.sessions()  # from now on the gateway tells of the end of every session
            except BaseException:
                self._gateway.close()
                raise
        except BaseException:
            self._stop_reactor()
            raise
        self._state = "running"
        keep_for_fork(self)

    @property
    def gateway(self) -> GatewayClient:
        """The line to the gateway."""
        return self._gateway

    def sessions(self) -> list[RunningSession]:
        """Every session of the node, whoever started it."""
        self._running()
        return [_running_session(each) for each in self._gateway.sessions()]

    def session(self, session_id: str) -> Session:
        """A handle on a session of the node, whoever started it. Raises `NotFound`.

        Its events are seen from now on; `wait_ready` and `wait_closed` also know what was before.
        """
        check_id(session_id, "session_id")
        self._running()
        known = self._sessions.get(session_id)
        if known is not None:
            return known
        found = next((each for each in self.sessions() if each.session_id == session_id), None)
        missing = NotFound(f"no session {session_id} runs on the node", details={"session_id": session_id})
        if found is None:
            raise missing
        session = Session(found, self._on_session_gone)
        self._add(session)
        try:
            session._open(found.path, self.reactor)
        except Closed:
            self._forget(session)
            raise missing from None
        except BaseException:
            self._forget(session)
            raise
        return session

    def stop_node(self, drain: float = 0.0) -> int:
        """Have the node take no new sessions, and end it when the last one has ended, or after `drain` seconds.

        What runs then is closed in order. Returns at once with the number of sessions; this host notices the end like
        any other of the node.
        """
        if not isinstance(drain, int | float) or drain < 0:
            raise InvalidArgument("drain must be seconds, 0 or more", field="drain")
        self._running()
        until_us = deadline_of(drain, "drain")
        return self._gateway.end_node(until_us, until_us + DRAIN_CLOSE_TIMEOUT_MS * 1_000)

    def monitor(self) -> NodeWatch:
        """Watch the node: processes, rings, health of sessions, once a second."""
        self._running()
        return NodeWatch(self.run_dir)

    def wait_node_ended(self, timeout: float | None = None) -> bool:
        """Wait until the node has ended; False after `timeout` seconds."""
        return self._node_ended.wait(wait_s(timeout))

    def close(self) -> None:
        """Detach. The node and its sessions go on; handles of this host raise `Closed`. A second call does nothing."""
        self._check_process()
        with self._lock:
            if self._state == "closed":
                return
            self._state = "closed"
        forget_for_fork(self)
        for session in list(self._sessions.values()):
            session._detach()
        self._gateway.close()
        self._stop_reactor()
        self._join_sinks(SINK_DRAIN_TIMEOUT_MS / 1_000)

    def abandon(self) -> None:
        """In a forked child: close the inherited copies; take no lock, for its holder does not exist here."""
        self._gateway.abandon()
        self.reactor.abandon()

    # ---- the library's side

    def _node_of(self) -> AttachedHost:
        return self

    def _stop_reactor(self) -> None:
        self.reactor.stop(LOST_NODE_STOP_TIMEOUT_MS / 1_000)

    def _on_lost(self) -> None:
        with self._lock:
            if self._state != "running":
                return
            self._state = "lost"
        log.info("the node that this host is attached to has ended")
        self._bury_sessions(NODE_LOST)
        self._node_ended.set()


def attach(run_dir: str | os.PathLike[str] | None = None) -> AttachedHost:
    """Attach to a node that runs already, by default to this user's standing node (`parlora-actor node`).

    It can start sessions there, find those of others, and watch the node (`monitor`). Raises `NotFound` if no node
    runs in `run_dir`, `Unsupported` for a directory that is not safe or a node that speaks another protocol.

    >>> with attach("/run/user/1000/parlora/node") as node:                             # doctest: +SKIP
    ...     for found in node.sessions():
    ...         print(found.session_id, node.session(found.session_id).status()["status"])
    """
    return AttachedHost(run_dir)


def _running_session(plain: dict[str, Any]) -> RunningSession:
    return RunningSession(
        session_id=str(plain["session_id"]),
        path=str(plain["path"]),
        state=str(plain["state"]),
        started_us=int(plain.get("started_us") or 0),
        deadline_us=int(plain.get("deadline_us") or 0),
        limits=_limits(plain.get("limits")),
    )


def _limits(plain: Any) -> Limits:
    """A newer node may have limits that this library does not know."""
    with contextlib.suppress(ParloraError):
        return Limits.from_data(plain)
    return Limits()
