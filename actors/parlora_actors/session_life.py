"""What the host library knows of one session's life: ready, failed, closed, gone. Told once each, whoever dies first.

Two connections tell of a session: its own, which carries `ready`, `failed` and `closed`, and the gateway's, which says
when nothing of it is alive any more. A session is over for the application after both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from parlora.errors import Closed, ParloraError, Timeout, error_from_data
from parlora.events import Event, EventType, Source
from parlora.ids import new_id
from parlora.limits import Limits
from parlora_actors.host_timing import CLOSED_MARGIN_MS, READY_MARGIN_MS, deadline_after, now_us, until_s

NODE_LOST: Final = "node_lost"
COORDINATOR_DOWN: Final = "coordinator_down"


class SessionLife:
    """One session's state as the host sees it; thread-safe."""

    def __init__(self, session_id: str, limits: Limits, ready_deadline_us: int) -> None:
        self.session_id = session_id
        self._limits = limits
        self._ready_deadline_us = ready_deadline_us + READY_MARGIN_MS * 1_000
        self._changed = threading.Condition()
        self._ready = False
        self._failed: dict[str, Any] | None = None
        self._closed: Event | None = None
        self._gone = False
        self._detached = False
        self._end_deadline_us: int | None = None
        self._listeners: list[Callable[[], None]] = []

    def listen(self, changed: Callable[[], None]) -> None:
        """Call `changed` after every change, on whichever thread made it; it must not block."""
        self._listeners.append(changed)

    @property
    def closed(self) -> Event | None:
        """The session's `closed` event once known."""
        return self._closed

    @property
    def is_gone(self) -> bool:
        """Whether nothing of the session is alive any more."""
        return self._gone

    def observe(self, event: Event) -> None:
        """Take note of a `ready`, `failed` or `closed` of the session's; repeated ones change nothing."""
        if event.source != Source.SESSION:
            return
        with self._changed:
            if event.type == EventType.READY:
                self._ready = True
            elif event.type == EventType.FAILED and self._failed is None:
                self._failed = dict(event.payload)
                self._expect_end()
            elif event.type == EventType.CLOSED and self._closed is None:
                self._closed = event
                self._expect_end()
            self._changed.notify_all()
        self._tell()

    def closing(self) -> None:
        """A close was asked for: from now on the session has a deadline."""
        with self._changed:
            self._expect_end()
            self._changed.notify_all()
        self._tell()

    def end(self, payload: dict[str, Any]) -> Event:
        """Nothing is left; returns the one `closed` event, made from `payload` if the session sent none."""
        with self._changed:
            if self._closed is None:
                self._closed = closed_event(self.session_id, payload)
            return self._closed

    def gone(self) -> None:
        """Let the waiters go; call it after the subscribers have their `closed`."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()
        self._tell()

    def detach(self) -> None:
        """The host has left the session: it learns nothing more of it, and neither do the waiters."""
        with self._changed:
            self._detached = True
            self._changed.notify_all()
        self._tell()

    def wait_ready(self, timeout: float | None) -> None:
        """See `Session.wait_ready`."""
        deadline_us = self.ready_deadline_us(timeout)
        with self._changed:
            while not self.ready_or_raise(deadline_us):
                self._changed.wait(until_s(deadline_us))

    def wait_closed(self, timeout: float | None) -> dict[str, Any]:
        """See `Session.wait_closed`."""
        asked_us = deadline_after(timeout)
        with self._changed:
            while (closed := self.closed_or_raise(asked_us)) is None:
                deadline_us = self.closed_deadline_us(asked_us)
                self._changed.wait(None if deadline_us is None else until_s(deadline_us))
            return closed

    def ready_deadline_us(self, timeout: float | None) -> int:
        """Until when a wait for readiness lasts that has `timeout` seconds, or the default."""
        return deadline_after(timeout) or self._ready_deadline_us

    def ready_or_raise(self, deadline_us: int) -> bool:
        """Whether the session is ready now; raises why it will not be, or `Timeout` from `deadline_us` on."""
        if self._failed is not None:
            raise failure(self._failed)
        if self._closed is not None:
            raise failure(self._closed.payload)
        if self._ready:
            return True
        self._check_attached()
        if now_us() >= deadline_us:
            raise Timeout("the session did not become ready in time", details={"session_id": self.session_id})
        return False

    def closed_deadline_us(self, asked_us: int | None) -> int | None:
        """Until when a wait for the end lasts: `asked_us`, else a margin from when the end began, else without end."""
        return self._end_deadline_us if asked_us is None else asked_us

    def closed_or_raise(self, asked_us: int | None) -> dict[str, Any] | None:
        """The payload of `closed` once nothing is left; raises `Timeout` when the wait's time is over."""
        if self._gone:
            assert self._closed is not None, "a session that is gone has its closed event"
            return dict(self._closed.payload)
        self._check_attached()
        deadline_us = self.closed_deadline_us(asked_us)
        if deadline_us is not None and now_us() >= deadline_us:
            raise Timeout("the session did not end in time", details={"session_id": self.session_id})
        return None

    def _tell(self) -> None:
        for changed in self._listeners:
            changed()

    def _check_attached(self) -> None:
        if self._detached:
            raise Closed("this host has detached from the session", details={"session_id": self.session_id})

    def _expect_end(self) -> None:
        if self._end_deadline_us is None:
            self._end_deadline_us = now_us() + (self._limits.shutdown_timeout_ms + CLOSED_MARGIN_MS) * 1_000


def obituary(cause: str) -> dict[str, Any]:
    """The payload of a `closed` that the library makes; what became of requests is not known to it."""
    return {"reason": "failed", "cause": cause, "jobs": {}}


def closed_event(session_id: str, payload: dict[str, Any]) -> Event:
    """A `closed` made by the host library for a session that could not send its own."""
    return Event(
        id=new_id(),
        source=Source.SESSION,
        type=EventType.CLOSED,
        session_id=session_id,
        adapter_id=None,
        generation=0,
        command_id=None,
        request_id=None,
        at_us=now_us(),
        payload=payload,
    )


def failure(payload: dict[str, Any]) -> ParloraError:
    """The error in the payload of a `failed` or `closed` event."""
    error = payload.get("error")
    if isinstance(error, dict) and "code" in error:
        return error_from_data(error)
    reason = payload.get("cause") or payload.get("reason") or "closed"
    return Closed(f"the session closed before it was ready: {reason}", details={"cause": reason})
