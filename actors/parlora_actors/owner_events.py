"""From the adapter's threads to the owner's loop: events and finished callbacks, in the order they happened."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from parlora.errors import Backpressure, Closed, InvalidArgument
from parlora.events import Event
from parlora.ids import new_id
from parlora.wire import pack, to_data
from parlora_actors.timing import now_us

MAX_WAITING_EVENTS: Final = 4_096
"""Events that may wait for the coordinator: a coordinator that far behind is stuck, and memory is finite."""

MAX_EVENT_BYTES: Final = 1024 * 1024
"""Largest payload of one event as msgpack: well above the largest result (65,536), well below a link's frame."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What every event of this owner's adapter is stamped with."""

    source: str
    session_id: str
    adapter_id: str
    generation: int


class Outbox:
    """Thread-safe and bounded; the loop watches `fileno()` and takes what is there, oldest first."""

    def __init__(self) -> None:
        self._items: deque[Event | Callable[[], None]] = deque()
        self._lock = threading.Lock()
        self._events = 0
        self._fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.overflowed = False

    def fileno(self) -> int:
        """Readable when something was put."""
        return self._fd

    def put_event(self, event: Event) -> None:
        """Queue an event; raises `Backpressure` at the bound, which ends the owner."""
        with self._lock:
            if self._events >= MAX_WAITING_EVENTS:
                self.overflowed = True
            else:
                self._events += 1
                self._items.append(event)
        os.eventfd_write(self._fd, 1)
        if self.overflowed:
            raise Backpressure(
                f"{MAX_WAITING_EVENTS} events wait for the coordinator", details={"bound": MAX_WAITING_EVENTS}
            )

    def put_call(self, call: Callable[[], None]) -> None:
        """Have the loop call this after everything queued before it."""
        with self._lock:
            self._items.append(call)
        os.eventfd_write(self._fd, 1)

    def take(self) -> Event | Callable[[], None] | None:
        """The oldest item, or None."""
        with self._lock:
            if not self._items:
                return None
            item = self._items.popleft()
            if isinstance(item, Event):
                self._events -= 1
            return item

    def clear_wakeup(self) -> None:
        """Make `fileno()` unreadable; do it before taking."""
        try:
            os.eventfd_read(self._fd)
        except BlockingIOError:
            return


class OwnerEvents:
    """The `EventSink` of one adapter generation."""

    def __init__(self, outbox: Outbox, identity: Identity, hide: Callable[[Any], Any] = lambda data: data) -> None:
        """`hide` takes secrets out of plain data."""
        self._outbox = outbox
        self._identity = identity
        self._hide = hide
        self._ended = False

    def emit(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        command_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Send one event; see `parlora.contract.adapter.EventSink`.

        Raises `InvalidArgument` for a payload that is not plain data, carries bytes or exceeds 1 MiB; `Closed` after
        the owner ended; `Backpressure` beyond the bound.
        """
        if self._ended:
            raise Closed("the adapter's owner has ended")
        plain = self._hide(plain_payload(payload or {}))
        self._outbox.put_event(self.make(str(type), plain, command_id, request_id))

    def make(
        self, type: str, payload: dict[str, Any], command_id: str | None = None, request_id: str | None = None
    ) -> Event:
        """An event of this adapter, stamped now."""
        who = self._identity
        return Event(
            new_id(),
            who.source,
            type,
            who.session_id,
            who.adapter_id,
            who.generation,
            command_id,
            request_id,
            now_us(),
            payload,
        )

    def end(self) -> None:
        """Refuse further events."""
        self._ended = True


def plain_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload with its dataclasses as plain data; raises `InvalidArgument` for what an event must not carry."""
    plain = to_data(dict(payload))
    _refuse_bytes(plain, "payload")
    size = len(pack(plain))
    if size > MAX_EVENT_BYTES:
        raise InvalidArgument(f"payload must be at most {MAX_EVENT_BYTES} bytes, got {size}", field="payload")
    checked: dict[str, Any] = plain
    return checked


def _refuse_bytes(value: Any, field: str) -> None:
    """Audio never travels in an event (spec 000 §4), so no bytes of any kind do."""
    if isinstance(value, bytes | bytearray | memoryview):
        raise InvalidArgument(f"{field} must be plain data without bytes", field=field)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidArgument(f"{field} must have string keys", field=field)
            _refuse_bytes(inner, f"{field}.{key}")
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_bytes(inner, field)
