"""Explicit continuations: when to ask for an answer, and until when one must have begun (spec 000 §15).

One response at a time: the service refuses to begin another one, and what is asked for while the caller speaks would
talk over them. So a continuation waits for that, and several that wait are one.
"""

from __future__ import annotations

from typing import Final

_NO_DEADLINE: Final = -1


class Continuation:
    """Of one connection. `timeout_ms`: until the service has created a response; the session's startup limit."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_us = timeout_ms * 1_000
        self._active: str | None = None
        self._caller_speaks = self._wanted = False
        self._sent_id: str | None = None
        self._awaiting = False
        self._deadline_us = _NO_DEADLINE  # set at the first tick after the wait began: a codec has no clock

    @property
    def active(self) -> str | None:
        """The response that is being generated."""
        return self._active

    def want(self) -> None:
        """Something was said to the service that should be spoken of."""
        self._wanted = True

    def take(self, event_id: str) -> bool:
        """Whether to send a continuation now, with this event id."""
        if not self._wanted or self._awaiting or self._caller_speaks or self._active is not None:
            return False
        self._wanted, self._awaiting, self._sent_id = False, True, event_id
        self._deadline_us = _NO_DEADLINE
        return True

    def created(self, response_id: str) -> None:
        """A response has begun, ours or one of the service's own; if ours is refused for it, `refused` follows."""
        self._active, self._awaiting = response_id, False

    def done(self, response_id: str) -> None:
        """A response is complete or cancelled."""
        if response_id == self._active:
            self._active = None

    def caller(self, speaks: bool) -> None:
        """The caller began or ceased to speak."""
        self._caller_speaks = speaks

    def progress(self) -> None:
        """The service goes on with whatever a continuation waits for."""
        if not self._awaiting:
            self._deadline_us = _NO_DEADLINE

    def refused(self, event_id: str | None, *, busy: bool) -> bool:
        """An error came: whether it is about our continuation, which is asked for again if another one was `busy`."""
        if self._sent_id is None or (event_id != self._sent_id and not (busy and event_id is None)):
            return False
        self._awaiting, self._sent_id = False, None
        self._wanted = self._wanted or busy
        return True

    def expired(self, now_us: int) -> bool:
        """Whether the service has created no response in time. Asked about every 100 ms.

        What a continuation waits for itself may get lost too: after as long without a word of it, it waits no more.
        """
        if not self._awaiting and not self._wanted:
            self._deadline_us = _NO_DEADLINE
        elif self._deadline_us == _NO_DEADLINE:
            self._deadline_us = now_us + self._timeout_us
        elif now_us >= self._deadline_us:
            if self._awaiting:
                return True
            self._active, self._caller_speaks = None, False
        return False
