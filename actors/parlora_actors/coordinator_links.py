"""The coordinator's links to the session's other processes, and what their messages mean to the reducer.

A link belongs to one incarnation. Its end says nothing by itself: the supervisor tells who died and why, and before
that is believed, everything the dead process still said is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from parlora.session import inputs
from parlora.session.roles import OWNERS, PIPELINES, Role
from parlora.wire import MessageSet
from parlora_actors.loop import Loop
from parlora_actors.messages import owner, pipeline, policy
from parlora_actors.watched_link import LinkFull, WatchedLink

MAX_EARLY: Final = 256
"""Messages kept for a process that is not there yet; startup sends a handful, and more means that it will not come."""

_SETS: Final[dict[Role, tuple[MessageSet, MessageSet]]] = {
    **dict.fromkeys(OWNERS, (owner.FROM_OWNER, owner.TO_OWNER)),
    **dict.fromkeys(PIPELINES, (pipeline.FROM_PIPELINE, pipeline.TO_PIPELINE)),
    Role.POLICY: (policy.FROM_POLICY, policy.TO_POLICY),
}


class RoleLinks:
    """All of them. `on_message(role, message)` for what they say; `on_stuck(role)` for one that does not read."""

    def __init__(self, loop: Loop, on_message: Callable[[Role, Any], None], on_stuck: Callable[[Role], None]) -> None:
        self._loop = loop
        self._on_message = on_message
        self._on_stuck = on_stuck
        self._links: dict[Role, WatchedLink] = {}
        self._incarnations: dict[Role, int] = {}
        self._early: dict[Role, deque[Any]] = {role: deque() for role in _SETS}

    def up(self, role: Role, incarnation: int, descriptor: int) -> None:
        """A process was started; what waited for it is sent now."""
        self._close(role)
        incoming, outgoing = _SETS[role]
        self._incarnations[role] = incarnation
        self._links[role] = WatchedLink(
            self._loop,
            descriptor,
            incoming,
            outgoing,
            lambda message: self._on_message(role, message),
            on_end=lambda: None,
        )
        while self._early[role]:
            self.send(role, self._early[role].popleft())

    def send(self, role: Role, message: Any) -> None:
        """Send, or keep it until the process is there; a dead process gets nothing."""
        link = self._links.get(role)
        if link is None:
            if role not in self._incarnations:
                self._keep(role, message)
            return
        try:
            link.send(message)
        except LinkFull:
            self._loop.soon(lambda: self._on_stuck(role))

    def _keep(self, role: Role, message: Any) -> None:
        if len(self._early[role]) < MAX_EARLY:
            self._early[role].append(message)
        else:
            self._loop.soon(lambda: self._on_stuck(role))

    def down(self, role: Role, incarnation: int) -> bool:
        """That incarnation died: read what it still said. False if another one has taken its place already."""
        if incarnation < self._incarnations.get(role, 0):
            return False
        self.drain(role)
        self._close(role)
        self._incarnations[role] = incarnation
        return True

    def drain(self, role: Role) -> None:
        """Take everything that a process has said so far."""
        link = self._links.get(role)
        if link is not None:
            link.drain()

    def drain_all(self) -> None:
        """Take everything that any process has said so far."""
        for role in tuple(self._links):
            self.drain(role)

    def _close(self, role: Role) -> None:
        link = self._links.pop(role, None)
        if link is not None:
            link.close()


def input_of(role: Role, message: Any, at_us: int, fresh: str) -> inputs.Input:
    """What a message of this role is to the reducer."""
    stamp = (at_us, fresh)
    match message:
        case owner.Observed():
            return inputs.AdapterEvent(*stamp, role, message.event)
        case owner.Replied():
            return inputs.CommandReplied(*stamp, role, message.command_id, message.error)
        case pipeline.Drained():
            return inputs.PipelineDrained(*stamp, message.loss)
        case pipeline.Done():
            return inputs.PipelineReplied(*stamp, role, message.command_id, message.epoch, message.loss, message.error)
        case pipeline.Lost():
            return inputs.PipelineLost(*stamp, role, message.stream, message.cause, message.loss)
        case pipeline.Stalled():
            return inputs.PipelineStalled(*stamp, role, message.epoch, message.blocked_us)
        case pipeline.Pressed():
            return inputs.PipelinePressed(
                *stamp,
                role,
                message.epoch,
                message.queued_bytes,
                message.capacity_bytes,
                message.pending_bytes,
                message.threshold_bytes,
            )
        case policy.Up():
            return inputs.PolicyUp(*stamp)
        case policy.Decided():
            return inputs.PolicyReplied(*stamp, message.run_id, tuple(message.decisions), message.error)
        case policy.BuildFailed():
            return inputs.ProcessDown(*stamp, role, "start_failed", error=message.error)
        case _:
            raise TypeError(f"{type(message).__name__} is no message of a session's process")
