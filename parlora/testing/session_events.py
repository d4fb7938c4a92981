"""What a session has told so far, and bounded waits for more: an `event_sink` for tests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

from parlora.errors import Timeout
from parlora.events import Event

WAIT_S: Final = 20.0
"""Default bound of a wait: what a test waits for needs milliseconds, a loaded machine seconds."""


class SessionEvents:
    """Pass it as `event_sink`; it takes events from the first one on, and iterates over those that came."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._changed = threading.Condition()

    def __call__(self, event: Any) -> None:
        """One event, on the library's thread; a notice that is no event is passed over."""
        if isinstance(event, Event):
            with self._changed:
                self._events.append(event)
                self._changed.notify_all()

    def __iter__(self) -> Iterator[Event]:
        with self._changed:
            return iter(tuple(self._events))

    def wait_for(self, type: str, source: str | None = None, *, timeout_s: float = WAIT_S, **payload: Any) -> Event:
        """The first event of this type and source with these values in its payload; raises `Timeout`."""

        def found() -> Event | None:
            for event in self._events:
                matches = event.type == type and source in (None, event.source)
                if matches and all(event.payload.get(key) == value for key, value in payload.items()):
                    return event
            return None

        with self._changed:
            event = self._changed.wait_for(found, timeout_s)
            if event is not None:
                return event
            came = ", ".join(f"{each.source} {each.type}" for each in self._events) or "nothing"
        raise Timeout(f"no {type} {payload or ''} within {timeout_s} s; there came {came}")
