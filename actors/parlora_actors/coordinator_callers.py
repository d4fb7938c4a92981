"""The session's own socket: handshakes, calls, answers and events (design §4, §8).

No caller is waited for. One that does not read is detached from the events at 1,024 messages or 4 MiB, and hung up on
when even its answers pile up.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from parlora.events import Event, EventType, Source
from parlora.session.inputs import ErrorData
from parlora_actors.loop import Loop
from parlora_actors.messages.host import (
    FROM_SESSION,
    PROTOCOL_MAJOR,
    PROTOCOL_MINOR,
    TO_SESSION,
    Answer,
    CallSession,
    EventSent,
    Hello,
    Unsubscribed,
)
from parlora_actors.version import package_version
from parlora_actors.watched_link import LinkFull, WatchedLink

MAX_AWAITING: Final = 16
"""Connections that have not said hello: more are hung up on at once."""

HELLO_TIMEOUT_US: Final = 1_000_000
"""A connection that has not said hello by then is hung up on."""

MAX_CONNECTIONS: Final = 256
"""Connections at once; an application has one per handle of the session."""

MAX_UNSENT: Final = 1_024
MAX_UNSENT_BYTES: Final = 4 * 1024 * 1024
"""What may wait for a caller before its subscriptions end with `slow_consumer`."""

_HEADROOM: Final = 256
_HEADROOM_BYTES: Final = 12 * 1024 * 1024
"""Beyond the bounds above only for answers and last words; one answer has at most 8 MiB."""

_ACCEPT_PAUSE_US: Final = 100_000
"""Pause after a failed accept: it fails for want of descriptors, and trying at once would spin."""

_UCRED: Final = struct.Struct("3i")
_LIFECYCLE: Final = frozenset({EventType.READY, EventType.FAILED, EventType.CLOSED})
SLOW_CONSUMER: Final = "slow_consumer"


class Caller:
    """One connection."""

    def __init__(self, name: str, link: WatchedLink) -> None:
        self.name = name
        self.link = link
        self.greeted = False
        self.subscriptions: list[str] = []


class Callers:
    """Every connection of one session.

    on_call: a caller asks for something. on_gone: a caller that had said hello is gone. on_slow: a subscription was
    ended here because its caller does not read.
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
        self._on_call = on_call
        self._on_gone = on_gone
        self._on_slow = on_slow
        self._callers: dict[str, Caller] = {}
        self._count = 0
        self._lifecycle: list[Event] = []
        self._listener = socket.socket(fileno=listener)
        self._listener.setblocking(False)
        loop.watch(listener, self._accept)

    # --- what the session says

    def answer(self, caller: str, call_id: str, value: Any, error: ErrorData | None) -> None:
        """Answer one call, if the caller is still there."""
        found = self._callers.get(caller)
        if found is not None:
            self._send(found, Answer(call_id, value, error))

    def attach(self, caller: str, subscription_id: str) -> None:
        """Send events to this caller from now on."""
        found = self._callers.get(caller)
        if found is not None and subscription_id not in found.subscriptions:
            found.subscriptions.append(subscription_id)

    def detach(self, caller: str, subscription_id: str, reason: str | None) -> None:
        """Send no more events under this subscription, and say why if there is a reason."""
        found = self._callers.get(caller)
        if found is None or subscription_id not in found.subscriptions:
            return
        found.subscriptions.remove(subscription_id)
        if reason is not None:
            self._send(found, Unsubscribed(self._session_id, subscription_id, reason))

    def emit(self, event: Event) -> None:
        """Send an event to every subscription, and a lifecycle event to every connection as well."""
        is_lifecycle = event.source == Source.SESSION and event.type in _LIFECYCLE
        if is_lifecycle:
            self._lifecycle.append(event)
        for caller in tuple(self._callers.values()):
            if is_lifecycle and caller.greeted:
                self._send(caller, EventSent(event))
            for subscription_id in tuple(caller.subscriptions):
                if self._is_behind(caller):
                    self._detach_slow(caller)
                    break
                self._send(caller, EventSent(event, subscription_id))

    def hang_up_when_sent(self, deadline_us: int, done: Callable[[], None]) -> None:
        """Let no one in any more; call `done` when everybody has everything, or at the deadline."""
        self._loop.unwatch(self._listener.fileno())
        self._listener.close()
        timer = self._loop.at(deadline_us, done)

        def look() -> None:
            if all(caller.link.flush() for caller in self._callers.values()):
                timer.cancel()
                done()
            elif timer.is_armed:
                self._loop.after(1_000, look)

        look()

    # --- what callers do

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            self._loop.unwatch(self._listener.fileno())
            self._loop.after(_ACCEPT_PAUSE_US, self._accept_again)
            return
        awaiting = sum(not caller.greeted for caller in self._callers.values())
        if not is_ours(connection) or awaiting >= MAX_AWAITING or len(self._callers) >= MAX_CONNECTIONS:
            connection.close()
            return
        self._count += 1
        name = f"caller-{self._count}"
        link = WatchedLink(
            self._loop,
            connection.detach(),
            TO_SESSION,
            FROM_SESSION,
            lambda message: self._on_message(name, message),
            lambda: self._drop(name),
            max_queued=MAX_UNSENT + _HEADROOM,
            max_queued_bytes=MAX_UNSENT_BYTES + _HEADROOM_BYTES,
        )
        self._callers[name] = Caller(name, link)
        self._loop.after(HELLO_TIMEOUT_US, lambda: self._check_greeted(name))

    def _accept_again(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), self._accept)

    def _on_message(self, name: str, message: Hello | CallSession) -> None:
        caller = self._callers.get(name)
        if caller is None:
            return
        if isinstance(message, CallSession) and caller.greeted:
            self._on_call(name, message)
        elif isinstance(message, Hello) and not caller.greeted:
            self._send(caller, Hello(PROTOCOL_MAJOR, PROTOCOL_MINOR, package_version()))
            if message.major != PROTOCOL_MAJOR:  # the answer names our number; the caller knows its own
                self._drop(name)
                return
            caller.greeted = True
            for event in self._lifecycle:
                self._send(caller, EventSent(event))
        else:
            self._drop(name)

    def _check_greeted(self, name: str) -> None:
        caller = self._callers.get(name)
        if caller is not None and not caller.greeted:
            self._drop(name)

    def _drop(self, name: str) -> None:
        caller = self._callers.pop(name, None)
        if caller is None:
            return
        caller.link.close()
        if caller.greeted:
            self._on_gone(name)

    def _is_behind(self, caller: Caller) -> bool:
        return caller.link.queued >= MAX_UNSENT or caller.link.queued_bytes >= MAX_UNSENT_BYTES

    def _detach_slow(self, caller: Caller) -> None:
        for subscription_id in tuple(caller.subscriptions):
            self.detach(caller.name, subscription_id, SLOW_CONSUMER)
            self._on_slow(caller.name, subscription_id)

    def _send(self, caller: Caller, message: Any) -> None:
        if caller.name not in self._callers:
            return
        try:
            caller.link.send(message)
        except LinkFull:
            # The reducer must not hear of it in the middle of an effect.
            self._loop.soon(lambda: self._drop(caller.name))


def is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end runs under our uid."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    uid: int = _UCRED.unpack(raw)[1]
    return uid == os.getuid()
