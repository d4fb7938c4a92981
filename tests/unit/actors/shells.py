"""Drive a process shell inside the test: its loop runs here, its link's other end is ours."""

import os
import socket
import time
from collections.abc import Callable
from typing import Any

from parlora.audio.ring import Ring
from parlora.wire import MessageSet
from parlora_actors.link import Link
from parlora_actors.loop import Loop

PATIENCE_S = 10.0


class Peer:
    """The coordinator's end of a shell's link."""

    def __init__(self, loop: Loop, incoming: MessageSet, outgoing: MessageSet) -> None:
        ours, theirs = socket.socketpair()
        self.descriptor = theirs.detach()
        """The shell's end, which the shell takes over."""
        self.link = Link(ours, incoming, outgoing)
        self._loop = loop
        self.received: list[Any] = []

    def send(self, message: Any) -> None:
        self.link.send(message)

    def wait(self, wanted: Callable[[list[Any]], Any], what: str = "message") -> Any:
        """Run the shell until `wanted` finds something in all that was received so far."""
        end = time.monotonic() + PATIENCE_S
        while True:
            self._loop.run_ready(0.01)
            self.received += self.link.receive()
            found = wanted(self.received)
            if found or time.monotonic() > end:
                assert found, f"no {what} in {PATIENCE_S} s; received {self.received}"
                return found

    def wait_for(self, cls: type, **fields: Any) -> Any:
        """The first received message of that kind with those fields."""

        def match(received: list[Any]) -> Any:
            for message in received:
                if isinstance(message, cls) and all(getattr(message, key) == value for key, value in fields.items()):
                    return message
            return None

        return self.wait(match, f"{cls.__name__} {fields}")

    def close(self) -> None:
        self.link.close()


def run_until(loop: Loop, condition: Callable[[], Any]) -> Any:
    """Run a loop until the condition holds."""
    end = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < end, "the condition did not come true"
        loop.run_ready(0.01)
    return found


def inherited(ring: Ring) -> tuple[int, ...]:
    """Copies of a ring's descriptors, as a forked child would have them."""
    return tuple(os.dup(number) for number in ring.descriptors())
