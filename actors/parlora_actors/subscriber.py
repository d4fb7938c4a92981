"""Where a session's events wait for the application (spec 000 §9).

The library's thread puts events in, the application takes them out. All that waits in a `Subscriber` counts against
the threshold, whatever session it came from; a session that finds it full detaches, and says so. This is no reliable
event log: durable handling is the application's.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, NamedTuple

from parlora.errors import Backpressure, Closed, InvalidArgument, Timeout
from parlora.events import Event, EventType, Source
from parlora_actors.host_timing import deadline_after, now_us, until_s

MAILBOX_THRESHOLD: Final = 2_048
"""Most messages that may wait in one subscriber when the session's limits say nothing else."""

SLOW_CONSUMER: Final = "slow_consumer"


class Unsubscribed(NamedTuple):
    """The notice that a session does not send to this subscriber any more, before the session has ended."""

    tag: Literal["parlora_unsubscribed"]
    session_id: str
    reason: str


class Subscriber:
    """One bounded queue of events; it may be given to several sessions.

    >>> subscriber = Subscriber()
    >>> subscriber.waiting
    0
    """

    def __init__(self, on_change: Callable[[], None] | None = None) -> None:
        """`on_change` is called on the library's thread whenever something may be taken or has ended; it must not
        block."""
        self._items: deque[Event | Unsubscribed] = deque()
        self._changed = threading.Condition()
        self._on_change = on_change
        self._feeds = 0
        self.dropped = 0
        """Events that were not taken in because the queue was full; each such loss detached a session."""

    @property
    def waiting(self) -> int:
        """Messages that wait to be taken."""
        return len(self._items)

    def get(self, timeout: float | None = None) -> Event | Unsubscribed:
        """The oldest message; waits `timeout` seconds for one, or as long as any session feeds this subscriber.

        Raises `Timeout` when the time is over, and `Closed` when nothing waits and no session will send any more.
        """
        deadline_us = deadline_after(timeout)
        with self._changed:
            while not self._items:
                if not self._feeds:
                    raise Closed("no session sends to this subscriber any more")
                if deadline_us is not None and now_us() >= deadline_us:
                    raise Timeout("no event in time")
                self._changed.wait(None if deadline_us is None else until_s(deadline_us))
            return self._items.popleft()

    def take(self) -> Event | Unsubscribed | None:
        """The oldest message if one waits; raises `Closed` when nothing waits and no session will send any more."""
        with self._changed:
            if self._items:
                return self._items.popleft()
            if not self._feeds:
                raise Closed("no session sends to this subscriber any more")
            return None

    def __iter__(self) -> Iterator[Event | Unsubscribed]:
        """Every message until no session feeds this subscriber and all is taken."""
        while True:
            try:
                yield self.get()
            except Closed:
                return

    def _attach(self) -> None:
        with self._changed:
            self._feeds += 1

    def _release(self) -> None:
        with self._changed:
            self._feeds -= 1
            self._changed.notify_all()
        self._tell_change()

    def _put(self, item: Event | Unsubscribed, threshold: int | None) -> bool:
        """Take one in; False, and counted, if `threshold` messages wait already. `None` is for last words."""
        with self._changed:
            if threshold is not None and len(self._items) >= threshold:
                self.dropped += 1
                return False
            self._items.append(item)
            self._changed.notify()
        self._tell_change()
        return True

    def _tell_change(self) -> None:
        if self._on_change is not None:
            self._on_change()


class Subscription:
    """What `Session.subscribe` returns: the way from one session into one subscriber.

    Iterating gives events up to and with the session's `closed`. If the subscriber was given to several sessions,
    read the subscriber itself: this gives whatever waits there.
    """

    def __init__(self, subscriber: Subscriber, session_id: str, threshold: int, leave: Callable[[], None]) -> None:
        self.subscriber = subscriber
        self.session_id = session_id
        self.detached: str | None = None
        """Why no more events come although the session lives: `slow_consumer`, `unsubscribed`, or None."""
        self._threshold = threshold
        self._leave = leave
        self._lock = threading.Lock()
        self._ended = False
        subscriber._attach()

    def get(self, timeout: float | None = None) -> Event | Unsubscribed:
        """See `Subscriber.get`."""
        return self.subscriber.get(timeout)

    def __iter__(self) -> Iterator[Event]:
        """Each event, the last one being `closed`; raises `Backpressure` where events were lost to slow reading."""
        for item in self.subscriber:
            if isinstance(item, Event):
                yield item
                if item.session_id == self.session_id and item.is_a(Source.SESSION, EventType.CLOSED):
                    return
            elif item.session_id == self.session_id and item.reason != "unsubscribed":
                raise Backpressure(
                    "this subscriber read too slowly and was detached",
                    details={"session_id": item.session_id, "reason": item.reason},
                )

    def unsubscribe(self) -> None:
        """Stop receiving; what waits already can still be taken."""
        if self._end("unsubscribed"):
            self._leave()

    def _deliver(self, event: Event) -> None:
        """One event of the session's, on the library's thread. After `closed` nothing more is taken."""
        with self._lock:
            if self._ended:
                return
            last = event.is_a(Source.SESSION, EventType.CLOSED)
            taken = self.subscriber._put(event, None if last else self._threshold)
        if last:
            self._end(None)
        elif not taken:
            self._detach(SLOW_CONSUMER)
            self._leave()

    def _detach(self, reason: str) -> None:
        with self._lock:
            if self._ended:
                return
            self.subscriber._put(Unsubscribed("parlora_unsubscribed", self.session_id, reason), None)
        self._end(reason)

    def _end(self, reason: str | None) -> bool:
        with self._lock:
            if self._ended:
                return False
            self._ended = True
            self.detached = reason
        self.subscriber._release()
        return True


class SinkThread:
    """Calls a function with every event of one session, on a thread of the library's.

    A function that raises is reported to `on_error` and called again with the next event. One that is slower than the
    session for 2,048 messages is detached like any other subscriber and called with the notice.
    """

    def __init__(self, sink: Callable[[Any], object], session_id: str, on_error: Callable[[Exception], None]) -> None:
        if not callable(sink):
            raise InvalidArgument("event_sink must be a function or a Subscriber", field="event_sink")
        self.subscriber = Subscriber()
        self._sink = sink
        self._on_error = on_error
        self._thread = threading.Thread(target=self._run, name=f"parlora-sink-{session_id[:8]}", daemon=True)

    def start(self) -> None:
        """Start the thread; it ends when the session has ended and everything was delivered."""
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        """Whether the thread still delivers."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Wait until everything was delivered; False if the function is still busy."""
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        for item in self.subscriber:
            try:
                self._sink(item)
            except Exception as error:  # application code: it must not end the delivery of later events
                self._on_error(error)
