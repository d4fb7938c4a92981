"""Our few reaches into Thespian 4.0.1's private state, all in one place.

Thespian learns of a child's end from a message or a signal; when several end together it forgets some, and then its
shutdown waits for them for ever. We see each end by pidfd and correct Thespian's books ourselves.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from thespian.actors import Actor, ActorAddress


@dataclass(frozen=True, slots=True)
class ForkedActor:
    """A child as Thespian knows it."""

    address: ActorAddress
    process: BaseProcess
    entry: Any

    @property
    def pid(self) -> int:
        """The process id; valid until `exit_code` was taken."""
        assert self.process.pid is not None
        return self.process.pid

    def take_exit_code(self) -> int | None:
        """Bury the process; minus the signal's number if a signal ended it, `None` while it runs."""
        return self.process.exitcode


def fork_actor(parent: Actor, cls: type[Actor]) -> ForkedActor:
    """Fork an actor from the caller's process; raises `OSError` if the system refuses another process."""
    manager = parent._myRef
    before = len(getattr(manager, "_child_procs", ()))
    address = parent.createActor(cls)
    entries = getattr(manager, "_child_procs", [])
    if len(entries) == before:
        raise OSError("the process could not be forked")
    return ForkedActor(address, entries[-1].childProc, entries[-1])


def forget_actor(parent: Actor, child: ForkedActor) -> None:
    """Strike a child that is gone, and whose exit code was taken, from Thespian's lists."""
    manager = parent._myRef
    manager.transport.deadAddress(manager._addrManager, child.address)
    manager._child_procs = [entry for entry in manager._child_procs if entry is not child.entry]
    manager._children = [address for address in manager._children if address != child.address]
    child.process.close()


def socket_directory(actor: Actor) -> str:
    """The node's directory."""
    path: str = actor.myAddress.addressDetails.path
    return os.path.dirname(path)
