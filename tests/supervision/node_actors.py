"""Stand-ins for the gateway and for sessions' supervisors, to test the node's supervisor alone."""

from __future__ import annotations

import os
import socket
from typing import Any

from parlora_actors.actor import ParloraActor
from parlora_actors.child_spec import ChildSpec, StartWait, SupervisorSpec
from parlora_actors.link import Link
from parlora_actors.messages.node import FROM_NODE, TO_NODE
from parlora_actors.supervision_actions import Finish
from parlora_actors.supervisor import ChildExit, Supervisor
from tests.supervision.troubles import fork_away


class ProxyGateway(ParloraActor):
    """Passes messages between one connection of the test and the node's supervisor."""

    def on_init(self, init: dict[str, Any]) -> None:
        self.log.write("info", "up", incarnation=self.incarnation, sessions=init["sessions"])
        self._node = Link(socket.socket(fileno=init["node"]), FROM_NODE, TO_NODE)
        self._listener = socket.socket(socket.AF_UNIX)
        if os.path.exists(init["path"]):
            os.unlink(init["path"])
        self._listener.bind(init["path"])
        self._listener.listen()
        self._test: Link | None = None
        self.watch(self._listener.fileno(), self._accept)
        self.watch(self._node.fileno(), self._from_node)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        self._test = Link(connection, TO_NODE, FROM_NODE)
        self.watch(connection.fileno(), self._from_test)

    def _from_test(self) -> None:
        assert self._test is not None
        for message in self._test.receive():
            self._node.send(message)
        if self._test.closed:
            self.unwatch(self._test.fileno())
            self._test.close()
            self._test = None

    def _from_node(self) -> None:
        for message in self._node.receive():
            if self._test is not None:
                self._test.send(message)


class FakeSession(Supervisor):
    """A session's supervisor with as many quiet children as its spec says, and one way to end."""

    def on_init(self, init: dict[str, Any]) -> None:
        self._behaviour = init["spec"].get("behaviour", "")
        if self._behaviour == "crash":
            raise RuntimeError("a secret that must not leave the process")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(init["path"])
        listener.listen()
        self._listener = listener
        count = init["spec"].get("children", 1)
        actor = "tests.supervision.troubles.Quiet"
        if self._behaviour == "never_up":
            actor = "tests.supervision.troubles.NeverHello"
        children = tuple(ChildSpec(f"c{number}", actor, {"session_id": self.session_id}) for number in range(count))
        self.supervise(SupervisorSpec(children, intensity=0, start_wait=StartWait.FORK, stop_ms=1_000))
        if self._behaviour == "fork_away":
            fork_away(3)

    def on_finished(self, reason: Finish, cause: ChildExit | None) -> Any:
        if self._behaviour != "no_last_words":
            self.tell_supervisor("closed", payload={"reason": "test", "cause": reason.value})
        super().on_finished(reason, cause)
