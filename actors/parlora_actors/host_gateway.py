"""The host library's line to a node's gateway: it starts sessions, lists them, and hears of their end.

The gateway is replaced when it dies, so its connection is made anew; whoever uses this notices only if it does not
come back.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from parlora.errors import Closed, ParloraError
from parlora.ids import new_id
from parlora.session.spec import SessionSpec
from parlora_actors.host_connection import Connection
from parlora_actors.host_reactor import Reactor
from parlora_actors.host_timing import (
    CONNECT_TIMEOUT_MS,
    GATEWAY_BACK_TIMEOUT_MS,
    START_SESSION_TIMEOUT_MS,
    now_us,
)
from parlora_actors.messages.host import (
    FROM_GATEWAY,
    TO_GATEWAY,
    EndNode,
    ListSessions,
    SessionGone,
    StartSession,
)
from parlora_actors.run_directory import NODE_SOCKET_NAME, has_live_node

_POLL_S: Final = 0.01

Told = Callable[[str, dict[str, Any]], None]
"""Called with a session's id and the payload of its `closed`."""


class GatewayClient:
    """One connection to the gateway of the node in `run_dir`, kept up.

    Called on the library's thread: `on_gone` when a session has ended; `on_listed(ids)` after the gateway was replaced,
    with the sessions that still run; `on_unreachable()` when it does not come back.
    """

    def __init__(
        self,
        run_dir: str,
        reactor: Reactor,
        deadline_us: int,
        on_gone: Told,
        on_listed: Callable[[set[str]], None],
        on_unreachable: Callable[[], None],
    ) -> None:
        """Connect; raises `Closed` if nobody listens, `Timeout` or `Unsupported`."""
        self._path = os.path.join(run_dir, NODE_SOCKET_NAME)
        self._run_dir = run_dir
        self._reactor = reactor
        self._on_gone = on_gone
        self._on_listed = on_listed
        self._on_unreachable = on_unreachable
        self._is_leaving = False
        self._connection = self._connect(deadline_us)

    def start_session(self, spec: SessionSpec, hold_for_sink: bool) -> str:
        """Have a session started; returns the path of its own socket."""
        answer = self._call(StartSession(new_id(), spec, hold_for_sink), "start_session", START_SESSION_TIMEOUT_MS)
        return str(answer["path"])

    def sessions(self) -> list[dict[str, Any]]:
        """Every session that runs, see `ListSessions`. From then on the end of each is told, whoever started it."""
        found: list[dict[str, Any]] = self._call(ListSessions(new_id()), "sessions", CONNECT_TIMEOUT_MS)
        return found

    def end_node(self, drain_until_us: int, deadline_us: int) -> int:
        """Have the node drain and stop, see `EndNode`; returns how many sessions run."""
        answer = self._call(EndNode(new_id(), drain_until_us, deadline_us), "stop", CONNECT_TIMEOUT_MS)
        return int(answer["sessions"])

    def leave(self) -> None:
        """From now on the end of the connection is expected."""
        self._is_leaving = True

    def close(self) -> None:
        """Hang up."""
        self.leave()
        self._connection.close()

    def abandon(self) -> None:
        """In a forked child: close the inherited copy."""
        self._connection.abandon()

    def _call(self, message: Any, what: str, timeout_ms: int) -> Any:
        return self._connection.call(message, what, now_us() + timeout_ms * 1_000)

    def _connect(self, deadline_us: int) -> Connection:
        return Connection(
            self._path,
            FROM_GATEWAY,
            TO_GATEWAY,
            self._reactor,
            self._on_message,
            self._on_end,
            deadline_us,
            self._is_wanted,
        )

    def _is_wanted(self) -> bool:
        return not self._is_leaving and has_live_node(self._run_dir)

    def _on_message(self, message: Any) -> None:
        if isinstance(message, SessionGone):
            self._on_gone(message.session_id, message.closed)

    def _on_end(self) -> None:
        """The gateway is replaced by its supervisor; connecting waits, and nothing may wait on the library's thread."""
        if not self._is_leaving:
            threading.Thread(target=self._reconnect, name="parlora-host-reconnect", daemon=True).start()

    def _reconnect(self) -> None:
        deadline_us = now_us() + GATEWAY_BACK_TIMEOUT_MS * 1_000
        while True:
            try:
                connection = self._connect(deadline_us)
                running = connection.call(ListSessions(new_id()), "list", deadline_us)
                break
            except Closed:  # the dying one may still have taken the connection
                if now_us() >= deadline_us or not self._is_wanted():
                    self._reactor.call_at(0, self._on_unreachable)
                    return
                time.sleep(_POLL_S)
            except ParloraError:
                self._reactor.call_at(0, self._on_unreachable)
                return
        if self._is_leaving:  # whoever left has hung up on the old one and will not come back for this
            connection.close()
            return
        self._connection = connection
        self._reactor.call_at(0, lambda: self._on_listed({str(each["session_id"]) for each in running}))
