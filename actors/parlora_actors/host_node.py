"""One embedded node as the host library holds it: the launcher, the library's thread and the gateway's connection."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from parlora.errors import Closed, ParloraError
from parlora.ids import new_id
from parlora.session.spec import SessionSpec
from parlora_actors.host_connection import Connection
from parlora_actors.host_launch import NodeProcess
from parlora_actors.host_reactor import Reactor
from parlora_actors.host_timing import (
    GATEWAY_BACK_TIMEOUT_MS,
    LOST_NODE_STOP_TIMEOUT_MS,
    START_SESSION_TIMEOUT_MS,
    now_us,
    until_s,
)
from parlora_actors.messages.host import FROM_GATEWAY, TO_GATEWAY, ListSessions, SessionGone, StartSession
from parlora_actors.messages.launch import Launch
from parlora_actors.run_directory import NODE_SOCKET_NAME, remove_dead

_POLL_S: Final = 0.01


class EmbeddedNode:
    """A running node.

    Called on the library's thread: `on_gone(session_id, payload)`; `on_listed(ids)` after the gateway was replaced,
    with the sessions that still run; `on_lost()` when the node is gone.
    """

    def __init__(
        self,
        launch: Launch,
        deadline_us: int,
        on_gone: Callable[[str, dict[str, Any]], None],
        on_listed: Callable[[set[str]], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Start it, at most until `deadline_us`; raises the node's error, and leaves nothing behind then."""
        self._on_gone = on_gone
        self._on_listed = on_listed
        self._on_lost = on_lost
        self._ending = threading.Lock()
        self._ended: bool | None = None
        self._stop_asked = False
        self._process = NodeProcess()
        self._gateway: Connection | None = None
        self.run_dir: str | None = None
        self.reactor = Reactor(f"parlora-host-{self._process.pid}")
        try:
            self.run_dir = self._process.configure(launch, deadline_us)
            self.reactor.start()
            self._gateway = self._connect(deadline_us)
            self.reactor.add(self._process.pidfd, lambda _: self._on_end())
        except BaseException:
            self.end(now_us() + LOST_NODE_STOP_TIMEOUT_MS * 1_000)
            self.release()
            raise

    @property
    def pid(self) -> int:
        """The launcher's process id."""
        return self._process.pid

    def start_session(self, spec: SessionSpec, hold_for_sink: bool) -> str:
        """Have a session started; returns the path of its own socket."""
        assert self._gateway is not None, "set by the constructor"
        deadline_us = now_us() + START_SESSION_TIMEOUT_MS * 1_000
        answer = self._gateway.call(StartSession(new_id(), spec, hold_for_sink), "start_session", deadline_us)
        return str(answer["path"])

    def end(self, deadline_us: int) -> bool:
        """Stop the node, or kill it at the deadline; False if it had to be killed. Safe to call twice and from two
        threads: the second waits for the first."""
        self._stop_asked = True
        with self._ending:
            if self._ended is None:
                self._ended = self._process.stop(deadline_us)
                if not self._ended:
                    self._process.kill()
                    self._remove_run_dir()
            return self._ended

    def _remove_run_dir(self) -> None:
        """A launcher that could not clean up leaves a directory, locked until its last process is gone."""
        deadline_us = now_us() + LOST_NODE_STOP_TIMEOUT_MS * 1_000
        with contextlib.suppress(ParloraError, OSError):  # the next node that starts removes it too
            while self.run_dir is not None and not remove_dead(self.run_dir) and now_us() < deadline_us:
                time.sleep(_POLL_S)

    def release(self) -> None:
        """Hang up and end the library's thread; call it after `end`."""
        if self._gateway is not None:
            self._gateway.close()
        self.reactor.remove(self._process.pidfd)
        self.reactor.stop(until_s(now_us() + LOST_NODE_STOP_TIMEOUT_MS * 1_000))
        self._process.release()

    def abandon(self) -> None:
        """In a forked child: close the inherited copies; take no lock, for its holder does not exist here."""
        if self._gateway is not None:
            self._gateway.abandon()
        self.reactor.abandon()
        self._process.abandon()

    def _on_message(self, message: Any) -> None:
        if isinstance(message, SessionGone):
            self._on_gone(message.session_id, message.closed)

    def _connect(self, deadline_us: int) -> Connection:
        assert self.run_dir is not None, "set by the constructor"
        path = os.path.join(self.run_dir, NODE_SOCKET_NAME)
        return Connection(
            path,
            FROM_GATEWAY,
            TO_GATEWAY,
            self.reactor,
            self._on_message,
            self._on_gateway_end,
            deadline_us,
            lambda: not self._stop_asked,
        )

    def _on_gateway_end(self) -> None:
        """The gateway is replaced by its supervisor; connecting waits, and nothing may wait on the library's thread."""
        if not self._stop_asked:
            threading.Thread(target=self._reconnect, name="parlora-host-reconnect", daemon=True).start()

    def _reconnect(self) -> None:
        deadline_us = now_us() + GATEWAY_BACK_TIMEOUT_MS * 1_000
        while True:
            try:
                gateway = self._connect(deadline_us)
                running = gateway.call(ListSessions(new_id()), "list", deadline_us)
                break
            except Closed:  # the dying one may still have taken the connection
                if self._stop_asked or now_us() >= deadline_us:
                    self.reactor.call_at(0, self._on_end)
                    return
                time.sleep(_POLL_S)
            except ParloraError:
                self.reactor.call_at(0, self._on_end)
                return
        if self._stop_asked:  # `release` has hung up on the old one and will not come back for this
            gateway.close()
            return
        self._gateway = gateway
        self.reactor.call_at(0, lambda: self._on_listed({str(each["session_id"]) for each in running}))

    def _on_end(self) -> None:
        """The node cannot be reached any more: what is left must go before anybody is told that it has."""
        self.reactor.remove(self._process.pidfd)
        if self._stop_asked:
            return
        self.end(now_us() + LOST_NODE_STOP_TIMEOUT_MS * 1_000)
        self._on_lost()
