"""Thespian's system and the root actor, as their launcher sees and ends them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any, Final

from parlora.errors import AdapterFailed, ParloraError
from parlora.wire import pack
from parlora_actors import birth, guardian, procfs
from parlora_actors.actor import load_actor
from parlora_actors.heartbeat import Beat, Heartbeat
from parlora_actors.node_log import NodeLog
from parlora_actors.supervised_process import UNRESPONSIVE
from parlora_actors.supervision_link import Life, link_pair
from parlora_actors.timing import HEARTBEAT_US, UNRESPONSIVE_MS, now_us
from parlora_actors.transport.address import remove_socket
from parlora_actors.transport.base import UnixSystemBase, start_system

ROOT_ROLE: Final = "node_supervisor"

STOP_NOTE: Final = "stop"
"""Note of the root: the node shall stop, everything gone by `deadline_us`."""


class NodeDown(ParloraError):
    """The admin or the root is gone; `cause` is `admin_down` or `root_down`, the details are the root's last words."""

    def __init__(self, cause: str, details: dict[str, Any]) -> None:
        super().__init__(f"the node ended: {cause}", details={"cause": cause} | details)
        self.cause = cause


class NodeSystem:
    """One system with one root. The caller has one thread and is a subreaper; only one of these in a process."""

    def __init__(self, directory: str, log: NodeLog, on_stop_wanted: Callable[[int], None] = lambda _: None) -> None:
        """`on_stop_wanted(deadline_us)`: the root asks for the node's end."""
        self._directory = directory
        self._on_stop_wanted = on_stop_wanted
        self._log = log
        self._system: UnixSystemBase | None = None
        self._admin = -1
        self._root = -1
        self._link, self._lower = link_pair()
        self._last_words: dict[str, Any] = {}
        self.root_pid = 0
        """The root's process, from its birth on."""
        self.is_up = False
        """Whether the root has said hello."""
        self.is_root_down = False
        self._heartbeat = Heartbeat(UNRESPONSIVE_MS * 1_000, lambda: procfs.scheduling(self.root_pid))
        self._looked_us = now_us()
        self.thespian_pids: frozenset[int] = frozenset()
        """Thespian's admin and logger, which end after everything else and count for nothing."""

    def start(self, root: str, root_init: dict[str, Any], between: Callable[[], None]) -> None:
        """Start Thespian and fork the root, which is up when `is_up` becomes true.

        `between` is called now and then meanwhile: handle there what `handlers` names. Raises `InvalidArgument` for a
        root that is no actor, `AdapterFailed` or `Timeout` if Thespian does not do its part.
        """
        load_actor(root)
        before = set(procfs.children(os.getpid()))
        message = {"role": ROOT_ROLE, "incarnation": 1, "init": root_init}
        with birth.handed_to_children(birth.Birth(pack(message), self._lower, self._log.fd, frozenset())):
            self._system = start_system(self._directory)
            admins = [pid for pid in procfs.children(os.getpid()) if pid not in before and procfs.is_alive(pid)]
            if len(admins) != 1:
                raise AdapterFailed("Thespian's admin did not start")
            self._admin = os.pidfd_open(admins[0])
            self.thespian_pids = frozenset([*admins, *procfs.children(admins[0])])
            self._system.create_root(root, between)
        os.close(self._lower)

    def handlers(self) -> dict[int, Callable[[], None]]:
        """What to watch for reading, and what to call then. The calls raise `NodeDown`."""
        found: dict[int, Callable[[], None]] = {}
        if self._admin >= 0:
            found[self._admin] = self._on_admin_down
        if self._link.is_open:
            found[self._link.fileno()] = self._read_link
        if self._root >= 0 and not self.is_root_down:
            found[self._root] = self._on_root_down
        return found

    @property
    def next_look_us(self) -> int:
        """When to call `look_at_root` again."""
        return self._looked_us + HEARTBEAT_US

    def look_at_root(self) -> None:
        """See whether the root does anything. Raises `NodeDown` if it does not."""
        since_us, self._looked_us = now_us() - self._looked_us, now_us()
        if not self.is_up or self.is_root_down:
            return
        self._read_link()
        match self._heartbeat.look_again(since_us):
            case Beat.PING:
                self._link.send(Life.PING, {})
            case Beat.SILENT:
                raise NodeDown("root_down", {"how": UNRESPONSIVE})

    def ask_root_to_stop(self, deadline_us: int) -> None:
        """Ask the root to stop; `is_root_down` becomes true when it has."""
        self._link.send(Life.STOP, {"deadline_us": deadline_us})

    def shut_down(self) -> None:
        """Thespian's own shutdown, bounded; for when the root is gone already."""
        if self._system is not None and self._admin >= 0:
            os.close(self._admin)
            self._admin = -1
            self._system.shutdown()

    def bury_adopted(self) -> None:
        """Bury dead children of this process and remove their sockets: all of them, it waits for none."""
        guardian.reap_adopted((), lambda pid: remove_socket(self._directory, pid))

    def _on_admin_down(self) -> None:
        raise NodeDown("admin_down", self._last_words)

    def _on_root_down(self) -> None:
        self._read_link()
        self.is_root_down = True
        raise NodeDown("root_down", self._last_words)

    def _read_link(self) -> None:
        for packet in self._link.receive():
            if packet.life == Life.HELLO:
                self.is_up = True
            elif packet.life == Life.BORN:
                self._watch_root(packet.body["pid"], packet.body["start_ticks"])
            elif packet.life == Life.PONG:
                self._heartbeat.heard()
            elif packet.life in (Life.CRASH, Life.EXIT):
                self._last_words[packet.life] = packet.body
            elif packet.life == Life.NOTE and packet.body["kind"] == STOP_NOTE:
                self._on_stop_wanted(packet.body["body"]["deadline_us"])

    def _watch_root(self, pid: int, start_ticks: int) -> None:
        self.root_pid = pid
        try:
            self._root = os.pidfd_open(pid)
        except ProcessLookupError:
            self._on_root_down()
        if procfs.start_ticks(pid) != start_ticks:
            self._on_root_down()


def note_signals(numbers: tuple[signal.Signals, ...], note: Callable[[int], None]) -> None:
    """Call `note` with the number of each of these signals that this process gets; forked ones are not affected."""
    owner = os.getpid()

    def handle(number: int, _frame: object) -> None:
        if os.getpid() == owner:
            note(number)

    for number in numbers:
        signal.signal(number, handle)
