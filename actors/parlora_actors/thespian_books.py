"""Our few reaches into Thespian 4.0.1's private state, all in one place.

Thespian learns of a child's end from a message or a signal; when several end together it forgets some, and then its
shutdown waits for them for ever. We see each end by pidfd and correct Thespian's books ourselves.
"""

from __future__ import annotations

import itertools
import os
import signal
from dataclasses import dataclass
from multiprocessing import process
from multiprocessing.context import ForkContext, ForkProcess
from multiprocessing.popen_fork import Popen
from typing import Any, Final

from thespian.actors import Actor, ActorAddress
from thespian.system.multiprocCommon import MultiProcManager, shutdown_signal_detector


class _Running(Popen):
    """The multiprocessing library's view of a process that we forked ourselves."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode = None
        self.finalizer = None


class _LaterProcess(ForkProcess):
    """A process whose `start` only looks like one: the fork comes with `fork_now`."""

    actor_class: type[Actor]

    def start(self) -> None:
        """Called by Thespian, which then takes the process off this list so that nobody waits for it at exit."""
        process._children.add(self)  # type: ignore[attr-defined]

    def fork_now(self) -> None:
        """The fork, with as little around it as there can be: see `Supervisor._start_all`."""
        pid = os.fork()
        if pid == 0:
            try:
                self._run_here()
            finally:
                os._exit(1)
        self._popen = _Running(pid)
        self._sentinel = -1  # nobody waits for it: supervisors watch a pidfd

    def _run_here(self) -> None:
        """In the child: what the library's own start does that an adapter could miss, then the actor."""
        process._current_process = self  # type: ignore[attr-defined]
        process._children = set()  # type: ignore[attr-defined]
        process._process_counter = itertools.count(1)  # type: ignore[attr-defined]
        self._config["daemon"] = False  # type: ignore[attr-defined] # an adapter may have processes of its own
        _run_child(self.actor_class, *self._args)  # type: ignore[attr-defined]


class _LaterContext(ForkContext):
    """What Thespian takes its processes from while an actor is prepared."""

    Process = _LaterProcess


_LATER: Final = _LaterContext()


def _run_child(
    cls: type[Actor],
    actor: str,
    global_name: str | None,
    endpoint: Any,
    transport_class: Any,
    source_hash: None,
    source: None,
    parent: ActorAddress,
    admin: ActorAddress,
    starter: ActorAddress,
    logger: ActorAddress,
    requirements: Any,
    capabilities: dict[str, Any],
    descriptors: list[int],
    context: Any,
    log_definitions: Any,
) -> None:
    """A forked actor's process from its first instruction to its last: Thespian's own, without what we undo anyway.

    That is: its rebuilding of the `logging` module, a search for an optional library, 60 signal handlers that only wake
    the loop, and a message to the parent that it is there, which its supervisor knows from the link. SIGTERM and SIGINT
    still ask the actor to exit.
    """
    transport = transport_class(endpoint)
    manager = MultiProcManager(
        actor,
        global_name,
        transport,
        source_hash,
        source,
        parent,
        admin,
        requirements,
        capabilities,
        context,
        log_definitions,
    )
    manager.asLogger = logger
    manager.actorInst = cls()  # found by Thespian with `inspect`, which alone is a tenth of all code that a start runs
    manager.actorInst._myRef = manager
    asked_to_exit = shutdown_signal_detector(actor, transport.myAddress, manager)
    for number in _CATCHABLE:
        signal.signal(number, asked_to_exit if number in _EXIT else signal.SIG_DFL)
    manager.run()


_EXIT: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_IGNORED_BY_PYTHON: Final = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
"""They come as exceptions; with their default action, writing to a peer that has gone would end the process."""
_CATCHABLE: Final = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP} - _IGNORED_BY_PYTHON)


@dataclass(frozen=True, slots=True)
class ForkedActor:
    """A child as Thespian knows it."""

    address: ActorAddress
    process: _LaterProcess
    entry: Any

    @property
    def pid(self) -> int:
        """The process id; valid until `exit_code` was taken."""
        assert self.process.pid is not None
        return self.process.pid

    def fork_now(self) -> None:
        """Fork it; raises `OSError` if the system refuses another process."""
        self.process.fork_now()

    def take_exit_code(self) -> int | None:
        """Bury the process; minus the signal's number if a signal ended it, `None` while it runs."""
        return self.process.exitcode


def prepare_actor(parent: Actor, cls: type[Actor]) -> ForkedActor:
    """Do all that Thespian does for a new actor in the caller's process, but for the fork itself."""
    manager = parent._myRef
    usual, manager.mpcontext = manager.mpcontext, _LATER
    try:
        address = parent.createActor(cls)
    finally:
        manager.mpcontext = usual
    entry = manager._child_procs[-1]
    arguments = entry.childProc._args  # the child forks its own children as usual
    entry.childProc._args = tuple(usual if each is _LATER else each for each in arguments)
    entry.childProc.actor_class = cls
    return ForkedActor(address, entry.childProc, entry)


def forget_actor(parent: Actor, child: ForkedActor) -> None:
    """Strike a child that is gone, and whose exit code was taken, from Thespian's lists."""
    manager = parent._myRef
    manager.transport.deadAddress(manager._addrManager, child.address)
    manager._child_procs = [entry for entry in manager._child_procs if entry is not child.entry]
    manager._children = [address for address in manager._children if address != child.address]
    child.process.close()


def mailbox_descriptor(actor: Actor) -> int:
    """The socket that becomes readable when another actor sends mail."""
    number: int = actor._myRef.transport.socket.fileno()
    return number


def socket_directory(actor: Actor) -> str:
    """The node's directory."""
    path: str = actor.myAddress.addressDetails.path
    return os.path.dirname(path)
