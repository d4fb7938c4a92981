"""A coordinator without its processes: a scripted brain inside, callers and roles at its sockets."""

import os
import socket
from collections.abc import Callable
from typing import Any

from parlora.audio.format import AudioFormat
from parlora.audio.ring import Ring, RingSpec
from parlora.component import Component
from parlora.context.snapshot import ContextSnapshot
from parlora.events import Event
from parlora.limits import Limits
from parlora.session import effects, inputs
from parlora.session.roles import Role
from parlora.session.spec import SessionSpec
from parlora.wire import MessageSet, to_data
from parlora_actors.coordinator import Coordinator, CoordinatorInit
from parlora_actors.link import Link
from parlora_actors.loop import Loop
from parlora_actors.messages import host, supervision
from parlora_actors.timing import now_us
from tests.unit.actors.shells import Peer, inherited, run_until

FORMAT = AudioFormat.pcm16()
COMPONENT = Component("parlora.policies.trivial:no_decisions")
SPEC = SessionSpec(
    "s", COMPONENT, COMPONENT, COMPONENT, COMPONENT, FORMAT, Limits().resolve(FORMAT), now_us() + 10_000_000
)
SNAPSHOT = ContextSnapshot("s", 0, 0, "unknown", {}, [], {}, {})


def event(type: str, source: str = "session") -> Event:
    return Event("e", source, type, "s", None, 0, None, None, now_us(), {"n": 1})


class Brain:
    """Records inputs and answers each with the effects that the test queued for its type, or for the next input."""

    def __init__(self) -> None:
        self.inputs: list[inputs.Input] = []
        self.answers: dict[type, list[effects.Effect]] = {}

    def begin(self, spec: SessionSpec, at_us: int, fresh: str) -> tuple[int, tuple[effects.Effect, ...]]:
        return self.reduce(0, inputs.Begin(at_us, fresh))

    def reduce(self, state: int, given: inputs.Input) -> tuple[int, tuple[effects.Effect, ...]]:
        self.inputs.append(given)
        return state + 1, tuple(self.answers.pop(type(given), ()))

    def seen(self, kind: type) -> list[Any]:
        return [given for given in self.inputs if isinstance(given, kind)]


class Client:
    """A caller's end of the session socket."""

    def __init__(self, subject: "Subject", greet: bool = True) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(subject.path)
        self.link = Link(self.socket, host.FROM_SESSION, host.TO_SESSION)
        self.subject = subject
        self.received: list[Any] = []
        if greet:
            self.link.send(host.Hello(host.PROTOCOL_MAJOR, host.PROTOCOL_MINOR, "test"))
            self.wait_for(host.Hello)

    def wait_for(self, cls: type) -> Any:
        def look() -> Any:
            if not self.link.closed:
                self.received += self.link.receive()
            return next((message for message in self.received if isinstance(message, cls)), None)

        return run_until(self.subject.loop, look)

    def wait_end(self) -> None:
        def ended() -> bool:
            if not self.link.closed:
                self.received += self.link.receive()
            return self.link.closed

        run_until(self.subject.loop, ended)

    def call(self, operation: str, **arguments: Any) -> None:
        self.link.send(host.CallSession("1", operation, arguments))


class Subject:
    def __init__(self, directory: str, hold: bool = False) -> None:
        self.loop = Loop()
        self.brain = Brain()
        self.path = os.path.join(directory, f"{os.urandom(4).hex()}.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        self.rings = [Ring.create(RingSpec(9_600, 0, 960)) for _ in range(2)]
        self.supervisor = Peer(self.loop, supervision.TO_SUPERVISOR, supervision.TO_COORDINATOR)
        init = CoordinatorInit(
            SPEC, self.supervisor.descriptor, listener.detach(), *(inherited(ring) for ring in self.rings), hold
        )
        self.coordinator = Coordinator(to_data(init), self.loop, (self.brain.begin, self.brain.reduce))
        self.closers: list[Callable[[], None]] = []

    def answer(self, kind: type, *wanted: effects.Effect) -> None:
        self.brain.answers[kind] = list(wanted)

    def wait(self, kind: type) -> Any:
        return run_until(self.loop, lambda: self.brain.seen(kind))[-1]

    def role(self, role: Role, incarnation: int, incoming: MessageSet, outgoing: MessageSet) -> Peer:
        peer = Peer(self.loop, incoming, outgoing)
        self.supervisor.link.send(supervision.LinkUp(role, incarnation, 4711), peer.descriptor)
        os.close(peer.descriptor)
        self.closers.append(peer.close)
        return peer

    def client(self, greet: bool = True) -> Client:
        client = Client(self, greet)
        self.closers.append(client.link.close)
        return client

    def act(self, *wanted: effects.Effect) -> None:
        """Have the reducer want this now."""
        self.coordinator._begin()
        self.answer(inputs.CallerGone, *wanted)
        self.coordinator._take(inputs.CallerGone(now_us(), "x", "nobody"))

    def close(self) -> None:
        for close in self.closers:
            close()
        self.supervisor.close()
        self.coordinator._supervisor.close()
        self.coordinator._roles.drain_all()
        for role in Role:
            self.coordinator._roles._close(role)
        self.coordinator._callers.door.close()
        self.loop.close()
        for ring in self.rings:
            ring.close()
