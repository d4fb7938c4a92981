"""A supervisor's look at its children's heartbeats, all at once, every half second."""

from __future__ import annotations

from collections.abc import Callable, Collection

from parlora_actors.heartbeat import Beat, Heartbeat
from parlora_actors.procfs import scheduling
from parlora_actors.supervised_process import ChildProcess
from parlora_actors.supervision_link import Life
from parlora_actors.timers import Timer
from parlora_actors.timing import HEARTBEAT_US, now_us


class Pulse:
    """Pings the children that are up and that nobody is stopping.

    timeout_ms: see `SupervisorSpec.unresponsive_ms`. children: those that have a process now. read: takes what a child
    has sent by now, for what has arrived counts. on_silent: told of a child that is as good as dead.
    """

    def __init__(
        self,
        timeout_ms: int | None,
        after: Callable[[int, Callable[[], None]], Timer],
        children: Callable[[], Collection[ChildProcess]],
        read: Callable[[ChildProcess], None],
        on_silent: Callable[[ChildProcess], None],
    ) -> None:
        self._timeout_ms = timeout_ms
        self._after = after
        self._children = children
        self._read = read
        self._on_silent = on_silent
        self._timer: Timer | None = None
        self._looked_us = 0

    def begin(self, process: ChildProcess) -> None:
        """A child is up: ping it from now on."""
        if self._timeout_ms is None:
            return
        pid = process.actor.pid
        process.heartbeat = Heartbeat(self._timeout_ms * 1_000, lambda: scheduling(pid))
        if self._timer is None:
            self._arm()

    def _arm(self) -> None:
        self._looked_us = now_us()
        self._timer = self._after(HEARTBEAT_US, self._look)

    def _look(self) -> None:
        since_us = now_us() - self._looked_us
        for process in list(self._children()):
            if process.heartbeat is not None and not process.asked:
                self._read(process)
                self._look_at(process, process.heartbeat, since_us)
        self._timer = None
        if self._children():
            self._arm()

    def _look_at(self, process: ChildProcess, heartbeat: Heartbeat, since_us: int) -> None:
        match heartbeat.look_again(since_us):
            case Beat.PING:
                process.link.send(Life.PING, {})
            case Beat.SILENT:
                self._on_silent(process)
