"""The node's front door: hosts start sessions here and learn of their end (design §3, §8).

It decides nothing: the node supervisor admits. A host that goes away leaves its sessions; who else wants to hear of
them asks for the list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from parlora.errors import Backpressure
from parlora.wire import to_data
from parlora_actors.door import Door, listen
from parlora_actors.loop import Loop
from parlora_actors.messages.host import (
    FROM_GATEWAY,
    TO_GATEWAY,
    Answer,
    EndNode,
    ListSessions,
    SessionGone,
    StartSession,
)
from parlora_actors.messages.node import FROM_NODE, TO_NODE, Admit, Admitted, End, Ended, Ending, Refused
from parlora_actors.shell_actor import ShellActor
from parlora_actors.watched_link import LinkFull, WatchedLink

MAX_ASKED: Final = 256
"""Starts that the node supervisor has not answered; it answers in microseconds unless it forks."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A start on its way: who asked, under which correlation id."""

    caller: str
    call_id: str


@dataclass(frozen=True, slots=True)
class _Session:
    path: str
    about: dict[str, Any]
    starter: str | None


class GatewayShell:
    """The gateway on a loop."""

    def __init__(self, init: dict[str, Any], loop: Loop) -> None:
        """`init`: `node` is the link's descriptor, `path` where to listen, `sessions` those that run already."""
        self._loop = loop
        self._sessions = {each["session_id"]: _Session(each["path"], each["about"], None) for each in init["sessions"]}
        self._requests: dict[str, _Request] = {}
        self._listeners: set[str] = set()
        self._serial = 0
        self._node = WatchedLink(loop, init["node"], FROM_NODE, TO_NODE, self._on_node, on_end=lambda: loop.stop(0))
        self.door = Door(
            loop, listen(init["path"]), TO_GATEWAY, FROM_GATEWAY, lambda caller: None, self._on_caller, self._gone
        )

    def _on_caller(self, caller: str, message: StartSession | ListSessions | EndNode) -> None:
        match message:
            case StartSession():
                spec, hold = to_data(message.spec), message.hold_for_sink
                self._ask(caller, message.id, lambda request_id: Admit(request_id, spec, hold))
            case EndNode():
                until_us, deadline_us = message.drain_until_us, message.deadline_us
                self._ask(caller, message.id, lambda request_id: End(request_id, until_us, deadline_us))
            case ListSessions():
                self._listeners.add(caller)
                running = [
                    {"session_id": session_id, "path": each.path, "state": "running", **each.about}
                    for session_id, each in self._sessions.items()
                ]
                self.door.send(caller, Answer(message.id, running))

    def _ask(self, caller: str, call_id: str, question: Callable[[str], Admit | End]) -> None:
        """Pass a request on to the node supervisor."""
        if len(self._requests) >= MAX_ASKED:
            error = Backpressure(f"{MAX_ASKED} starts wait for the node", details={"bound": MAX_ASKED})
            self.door.send(caller, Answer(call_id, error=error.to_data()))
            return
        self._serial += 1
        request_id = str(self._serial)
        self._requests[request_id] = _Request(caller, call_id)
        try:
            self._node.send(question(request_id))
        except LinkFull as full:
            del self._requests[request_id]
            self.door.send(caller, Answer(call_id, error=full.to_data()))

    def _on_node(self, message: Admitted | Refused | Ended | Ending) -> None:
        if isinstance(message, Ended):
            self._tell_ended(message)
            return
        request = self._requests.pop(message.id, None)
        if isinstance(message, Admitted):
            starter = request.caller if request else None
            self._sessions[message.session_id] = _Session(message.path, message.about, starter)
        if request is None:
            return
        match message:
            case Admitted():
                answer = Answer(request.call_id, {"session_id": message.session_id, "path": message.path})
            case Ending():
                answer = Answer(request.call_id, {"sessions": message.sessions})
            case Refused():
                answer = Answer(request.call_id, error=message.error)
        self.door.send(request.caller, answer)

    def _tell_ended(self, message: Ended) -> None:
        session = self._sessions.pop(message.session_id, None)
        starter = {session.starter} if session is not None and session.starter is not None else set()
        for caller in starter | self._listeners:
            self.door.send(caller, SessionGone(message.session_id, message.closed))

    def _gone(self, caller: str) -> None:
        self._listeners.discard(caller)


class Gateway(ShellActor):
    """The gateway."""

    def make_shell(self, init: dict[str, Any], loop: Loop) -> GatewayShell:
        """The gateway."""
        return GatewayShell(init, loop)
