"""One embedded node as the host library holds it: the launcher, the library's thread and the gateway's connection."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

from parlora.errors import ParloraError
from parlora_actors.host_gateway import GatewayClient, Told
from parlora_actors.host_launch import NodeProcess
from parlora_actors.host_reactor import Reactor
from parlora_actors.host_timing import LOST_NODE_STOP_TIMEOUT_MS, now_us, until_s
from parlora_actors.messages.launch import Launch
from parlora_actors.run_directory import remove_dead

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
        on_gone: Told,
        on_listed: Callable[[set[str]], None],
        on_lost: Callable[[], None],
    ) -> None:
        """Start it, at most until `deadline_us`; raises the node's error, and leaves nothing behind then."""
        self._on_lost = on_lost
        self._ending = threading.Lock()
        self._ended: bool | None = None
        self._stop_asked = False
        self._process = NodeProcess()
        self._gateway: GatewayClient | None = None
        self.run_dir: str | None = None
        self.reactor = Reactor(f"parlora-host-{self._process.pid}")
        try:
            self.run_dir = self._process.configure(launch, deadline_us)
            self.reactor.start()
            self._gateway = GatewayClient(self.run_dir, self.reactor, deadline_us, on_gone, on_listed, self._on_end)
            self.reactor.add(self._process.pidfd, lambda _: self._on_end())
        except BaseException:
            self.end(now_us() + LOST_NODE_STOP_TIMEOUT_MS * 1_000)
            self.release()
            raise

    @property
    def pid(self) -> int:
        """The keeper's process id."""
        return self._process.pid

    @property
    def end_cause(self) -> str:
        """Why the node ended, see `NodeGone`; `launcher_down` if nobody said."""
        gone = self._process.gone
        return "launcher_down" if gone is None else gone.cause

    @property
    def gateway(self) -> GatewayClient:
        """The line to the gateway."""
        assert self._gateway is not None, "set by the constructor"
        return self._gateway

    def end(self, deadline_us: int) -> bool:
        """Stop the node, or kill it at the deadline; False if it had to be killed. Safe to call twice and from two
        threads: the second waits for the first."""
        self._stop_asked = True
        if self._gateway is not None:
            self._gateway.leave()
        with self._ending:
            if self._ended is None:
                self._ended = self._process.stop(deadline_us)
                if not self._ended:
                    self._process.kill()
                    self._remove_run_dir()
            return self._ended

    def _remove_run_dir(self) -> None:
        """A launcher that could not clean up leaves a directory, locked until its last process is gone."""
        run_dir = self._process.run_dir or self.run_dir
        deadline_us = now_us() + LOST_NODE_STOP_TIMEOUT_MS * 1_000
        with contextlib.suppress(ParloraError, OSError):  # the next node that starts removes it too
            while run_dir is not None and not remove_dead(run_dir) and now_us() < deadline_us:
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

    def _on_end(self) -> None:
        """The node cannot be reached any more: what is left must go before anybody is told that it has."""
        self.reactor.remove(self._process.pidfd)
        if self._stop_asked:
            return
        self.end(now_us() + LOST_NODE_STOP_TIMEOUT_MS * 1_000)
        self._on_lost()
