"""Who uses the session: calls and answers, subscriptions and events.

No caller is waited for: one that does not read loses its subscriptions at 1,024 messages or 4 MiB.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, Final

from parlora.events import Event, EventType, Source
from parlora.session.inputs import ErrorData
from parlora_actors.door import Door
from parlora_actors.loop import Loop
from parlora_actors.messages.host import FROM_SESSION, TO_SESSION, Answer, CallSession, EventSent, Unsubscribed

MAX_UNSENT: Final = 1_024
MAX_UNSENT_BYTES: Final = 4 * 1024 * 1024
"""What may wait for a caller before its subscriptions end with `slow_consumer`."""

FLUSH_POLL_US: Final = 1_000
"""Pause between two looks at whether everybody has everything."""

SLOW_CONSUMER: Final = "slow_consumer"
_LIFECYCLE: Final = frozenset({EventType.READY, EventType.FAILED, EventType.CLOSED})


class Callers:
    """Every caller of one session.

    on_call: a caller asks for something. on_gone: a caller is gone. on_slow: a subscription was ended here because its
    caller does not read.
    """

    def __init__(
        self,
        loop: Loop,
        listener: int,
        session_id: str,
        on_call: Callable[[str, CallSession], None],
        on_gone: Callable[[str], None],
        on_slow: Callable[[str, str], None],
    ) -> None:
        self._loop = loop
        self._session_id = session_id
        self._on_gone = on_gone
        self._on_slow = on_slow
        self._subscriptions: dict[str, list[str]] = {}
        self._lifecycle: list[Event] = []
        self.door = Door(
            loop, socket.socket(fileno=listener), TO_SESSION, FROM_SESSION, self._greeted, on_call, self._gone
        )

    def answer(self, caller: str, call_id: str, value: Any, error: ErrorData | None) -> None:
        """Answer one call, if the caller is still there."""
        self.door.send(caller, Answer(call_id, value, error))

    def attach(self, caller: str, subscription_id: str) -> None:
        """Send events to this caller from now on."""
        subscriptions = self._subscriptions.get(caller)
        if subscriptions is not None and subscription_id not in subscriptions:
            subscriptions.append(subscription_id)

    def detach(self, caller: str, subscription_id: str, reason: str | None) -> None:
        """Send no more events under this subscription, and say why if there is a reason."""
        subscriptions = self._subscriptions.get(caller, [])
        if subscription_id in subscriptions:
            subscriptions.remove(subscription_id)
            if reason is not None:
                self.door.send(caller, Unsubscribed(self._session_id, subscription_id, reason))

    def subscriptions(self, caller: str) -> tuple[str, ...]:
        """The subscriptions of a caller."""
        return tuple(self._subscriptions.get(caller, ()))

    def emit(self, event: Event) -> None:
        """Send an event to every subscription, and a lifecycle event to every caller as well."""
        if event.source == Source.SESSION and event.type in _LIFECYCLE:
            self._lifecycle.append(event)
            for caller in self.door.names():
                self.door.send(caller, EventSent(event))
        for caller in tuple(self._subscriptions):
            for subscription_id in self.subscriptions(caller):
                messages, size = self.door.waiting(caller)
                if messages >= MAX_UNSENT or size >= MAX_UNSENT_BYTES:
                    self._detach_slow(caller)
                    break
                self.door.send(caller, EventSent(event, subscription_id))

    def see_off(self, deadline_us: int, done: Callable[[], None]) -> None:
        """Let nobody in any more; call `done` when everybody has everything, or at the deadline."""
        self.door.shut()
        timer = self._loop.at(deadline_us, done)

        def look() -> None:
            if not timer.is_armed:
                return
            if self.door.flush():
                timer.cancel()
                done()
            else:
                self._loop.after(FLUSH_POLL_US, look)

        look()

    def _greeted(self, caller: str) -> None:
        self._subscriptions[caller] = []
        for event in self._lifecycle:  # a session may have been ready before its first caller came
            self.door.send(caller, EventSent(event))

    def _gone(self, caller: str) -> None:
        del self._subscriptions[caller]
        self._on_gone(caller)

    def _detach_slow(self, caller: str) -> None:
        for subscription_id in self.subscriptions(caller):
            self.detach(caller, subscription_id, SLOW_CONSUMER)
            self._on_slow(caller, subscription_id)
