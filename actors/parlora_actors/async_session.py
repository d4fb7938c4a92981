"""A running session for asyncio programs: the names and meanings of `Session`, never blocking the loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import ClosePolicy
from parlora.errors import Backpressure, Closed, Timeout
from parlora.events import Event, EventType, Source
from parlora_actors.async_bell import Bell, Calls
from parlora_actors.host_timing import deadline_after, now_us
from parlora_actors.session_handle import ContextUpdateLike, ControlLike, Session
from parlora_actors.subscriber import Subscriber, Subscription, Unsubscribed


class AsyncSubscriber:
    """One bounded queue of events for one event loop; it may be given to several sessions. Made in that loop."""

    def __init__(self) -> None:
        self._bell = Bell()
        self.subscriber = Subscriber(on_change=self._bell.ring)

    @property
    def waiting(self) -> int:
        """Messages that wait to be taken."""
        return self.subscriber.waiting

    async def get(self, timeout: float | None = None) -> Event | Unsubscribed:
        """The oldest message; waits `timeout` seconds for one, or as long as any session feeds this subscriber.

        Raises `Timeout` when the time is over, and `Closed` when nothing waits and no session will send any more.
        """
        deadline_us = deadline_after(timeout)
        while (item := self.subscriber.take()) is None:
            if deadline_us is not None and now_us() >= deadline_us:
                raise Timeout("no event in time")
            await self._bell.wait(deadline_us)
        return item

    async def __aiter__(self) -> AsyncIterator[Event | Unsubscribed]:
        """Every message until no session feeds this subscriber and all is taken."""
        while True:
            try:
                yield await self.get()
            except Closed:
                return


class AsyncSubscription:
    """What `AsyncSession.subscribe` returns. Iterating gives events up to and with the session's `closed`."""

    def __init__(self, subscriber: AsyncSubscriber, subscription: Subscription) -> None:
        self.subscriber = subscriber
        self._subscription = subscription

    @property
    def detached(self) -> str | None:
        """Why no more events come although the session lives: `slow_consumer`, `unsubscribed`, or None."""
        return self._subscription.detached

    async def get(self, timeout: float | None = None) -> Event | Unsubscribed:
        """See `AsyncSubscriber.get`."""
        return await self.subscriber.get(timeout)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Each event, the last one being `closed`; raises `Backpressure` where events were lost to slow reading."""
        session_id = self._subscription.session_id
        async for item in self.subscriber:
            if isinstance(item, Event):
                yield item
                if item.session_id == session_id and item.is_a(Source.SESSION, EventType.CLOSED):
                    return
            elif item.session_id == session_id and item.reason != "unsubscribed":
                raise Backpressure(
                    "this subscriber read too slowly and was detached",
                    details={"session_id": item.session_id, "reason": item.reason},
                )

    def unsubscribe(self) -> None:
        """Stop receiving; what waits already can still be taken."""
        self._subscription.unsubscribe()


class AsyncSession:
    """A session of an `AsyncActorHost`; see `Session` for the meaning, arguments and errors of each method.

    A task that is cancelled while it waits changes nothing of the session. Closing the loop detaches; it closes no
    session: the host does, or its end.
    """

    def __init__(self, session: Session, calls: Calls) -> None:
        """Made by `AsyncActorHost.start_session`."""
        self._session = session
        self._calls = calls
        self._bell = Bell()
        session._life.listen(self._bell.ring)

    @property
    def id(self) -> str:
        """The session's id."""
        return self._session.id

    def __repr__(self) -> str:
        return f"<AsyncSession {self.id}>"

    async def subscribe(self, subscriber: AsyncSubscriber | None = None) -> AsyncSubscription:
        """See `Session.subscribe`."""
        feed = subscriber or AsyncSubscriber()
        return AsyncSubscription(feed, await self._calls.run(lambda: self._session.subscribe(feed.subscriber)))

    async def snapshot(self) -> ContextSnapshot:
        """See `Session.snapshot`."""
        return await self._calls.run(self._session.snapshot)

    async def status(self) -> dict[str, Any]:
        """See `Session.status`."""
        return await self._calls.run(self._session.status)

    async def update_context(self, context: Mapping[str, Any]) -> None:
        """See `Session.update_context`."""
        await self._calls.run(lambda: self._session.update_context(context))

    async def append_context(self, update: ContextUpdateLike, command_id: str | None = None) -> str:
        """See `Session.append_context`."""
        return await self._calls.run(lambda: self._session.append_context(update, command_id))

    async def control(self, command: ControlLike, command_id: str) -> None:
        """See `Session.control`."""
        await self._calls.run(lambda: self._session.control(command, command_id))

    async def cancel(self, request_id: str, expected_task_revision: int, command_id: str) -> None:
        """See `Session.cancel`."""
        await self._calls.run(lambda: self._session.cancel(request_id, expected_task_revision, command_id))

    async def expect_progress(
        self, expectation_id: str, timeout_ms: int, until: str | None = None, on_timeout: str | None = None
    ) -> None:
        """See `Session.expect_progress`."""
        await self._calls.run(lambda: self._session.expect_progress(expectation_id, timeout_ms, until, on_timeout))

    async def resolve_progress(self, expectation_id: str, outcome: str) -> None:
        """See `Session.resolve_progress`."""
        await self._calls.run(lambda: self._session.resolve_progress(expectation_id, outcome))

    async def close(self, policy: str = ClosePolicy.FINISH) -> None:
        """See `Session.close`."""
        await self._calls.run(lambda: self._session.close(policy))

    async def wait_ready(self, timeout: float | None = None) -> None:
        """See `Session.wait_ready`."""
        self._session._check_process()
        life = self._session._life
        deadline_us = life.ready_deadline_us(timeout)
        while not life.ready_or_raise(deadline_us):
            await self._bell.wait(deadline_us)

    async def wait_closed(self, timeout: float | None = None) -> dict[str, Any]:
        """See `Session.wait_closed`."""
        self._session._check_process()
        life = self._session._life
        asked_us = deadline_after(timeout)
        while (closed := life.closed_or_raise(asked_us)) is None:
            await self._bell.wait(life.closed_deadline_us(asked_us))
        return closed
