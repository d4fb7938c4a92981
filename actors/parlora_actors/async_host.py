"""Embed Parlora in an asyncio program: `AsyncActorHost`, the names and meanings of `ActorHost`."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

from parlora.audio.format import AudioFormat
from parlora.contract.adapter import ClosePolicy
from parlora.errors import InvalidArgument
from parlora.events import Event
from parlora.limits import Limits
from parlora_actors.async_bell import Calls
from parlora_actors.async_session import AsyncSession, AsyncSubscriber
from parlora_actors.host import ActorHost
from parlora_actors.host_sessions import ComponentLike
from parlora_actors.host_timing import NODE_START_TIMEOUT_MS, deadline_after, now_us
from parlora_actors.session_handle import Session
from parlora_actors.subscriber import Subscriber, Unsubscribed

AsyncEventSink = Callable[[Event | Unsubscribed], Awaitable[object] | object] | AsyncSubscriber

_LOOK_S: Final = 0.05
_log = logging.getLogger("parlora.host")


class AsyncActorHost:
    """A node of processes that belongs to this program and ends with it, for use in one event loop.

    >>> async with AsyncActorHost() as host:                                            # doctest: +SKIP
    ...     session = await host.start_session(
    ...         channel=..., provider=..., backend=..., context_policy=...
    ...     )
    ...     await session.wait_ready()

    The loop is never blocked, and cancelling a task changes no session. If the loop is closed without `close`, the
    node goes on until this process ends, as with an `ActorHost` that nobody closes.
    """

    def __init__(
        self,
        preload: Sequence[str] = (),
        env_drop: Sequence[str] = (),
        max_sessions: int | None = None,
        log: str | os.PathLike[str] | None = None,
        startup_timeout_ms: int = NODE_START_TIMEOUT_MS,
        run_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """See `ActorHost`."""
        self._host = ActorHost(preload, env_drop, max_sessions, log, startup_timeout_ms, run_dir)
        self._calls = Calls()
        self._sessions: dict[str, AsyncSession] = {}
        self._sinks: set[asyncio.Task[None]] = set()

    @property
    def run_dir(self) -> str | None:
        """The node's directory, once it runs."""
        return self._host.run_dir

    @property
    def pid(self) -> int | None:
        """The process id of the node's launcher, once started."""
        return self._host.pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """See `ActorHost.start`. A task that is cancelled meanwhile leaves nothing behind: it waits for that."""
        starting = self._calls.begin(self._host.start)
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            await asyncio.wait([starting])
            await self._calls.run(self._host.kill)
            raise

    async def start_session(
        self,
        *,
        channel: ComponentLike,
        provider: ComponentLike,
        backend: ComponentLike,
        context_policy: ComponentLike,
        instructions: str | None = None,
        history: Sequence[Mapping[str, Any]] = (),
        context: Mapping[str, Any] | None = None,
        event_sink: AsyncEventSink | None = None,
        audio_format: AudioFormat | str | None = None,
        limits: Limits | Mapping[str, Any] | None = None,
        session_id: str | None = None,
    ) -> AsyncSession:
        """See `ActorHost.start_session`. `event_sink` is an `AsyncSubscriber`, or a function, plain or async, that is
        called in this loop. If the task is cancelled meanwhile, the session is closed as soon as it is there."""
        feed = _feed(event_sink)
        starting = self._calls.begin(
            lambda: self._host.start_session(
                channel=channel,
                provider=provider,
                backend=backend,
                context_policy=context_policy,
                instructions=instructions,
                history=history,
                context=context,
                event_sink=_inner(feed),
                audio_format=audio_format,
                limits=limits,
                session_id=session_id,
            )
        )
        try:
            session = await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(self._close_unwanted)
            raise
        if feed is not None and feed is not event_sink:
            task = asyncio.create_task(_serve(feed, event_sink))
            self._sinks.add(task)
            task.add_done_callback(self._sinks.discard)
        handle = AsyncSession(session, self._calls)
        self._sessions[handle.id] = handle
        return handle

    def _close_unwanted(self, started: asyncio.Future[Session]) -> None:
        if not started.cancelled() and started.exception() is None:
            self._calls.begin(lambda: started.result().close(ClosePolicy.CANCEL))

    def sessions(self) -> list[AsyncSession]:
        """The sessions of this host that are not gone yet."""
        alive = {session.id for session in self._host.sessions()}
        self._sessions = {id: session for id, session in self._sessions.items() if id in alive}
        return list(self._sessions.values())

    async def close(self, timeout: float | None = None, policy: str = ClosePolicy.CANCEL) -> None:
        """See `ActorHost.close`. It goes on to its end even if the task that called it is cancelled."""
        await self._calls.run(lambda: self._host.close(timeout, policy))
        if self._sinks:
            await asyncio.gather(*self._sinks, return_exceptions=True)
        self._calls.stop()

    async def drain(self, timeout: float) -> None:
        """See `ActorHost.drain`."""
        await self._calls.run(lambda: self._host.drain(timeout))

    @property
    def node_end_cause(self) -> str | None:
        """See `ActorHost.node_end_cause`."""
        return self._host.node_end_cause

    async def wait_node_ended(self, timeout: float | None = None) -> bool:
        """See `ActorHost.wait_node_ended`; looks every 50 ms."""
        deadline_us = deadline_after(timeout)
        while not self._host.wait_node_ended(0):
            if deadline_us is not None and now_us() >= deadline_us:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    async def kill(self) -> None:
        """See `ActorHost.kill`."""
        await self._calls.run(self._host.kill)
        self._calls.stop()


def _feed(sink: object) -> AsyncSubscriber | None:
    if sink is None or isinstance(sink, AsyncSubscriber):
        return sink
    if not callable(sink):
        raise InvalidArgument("event_sink must be a function, an AsyncSubscriber or None", field="event_sink")
    return AsyncSubscriber()


def _inner(feed: AsyncSubscriber | None) -> Subscriber | None:
    return None if feed is None else feed.subscriber


async def _serve(feed: AsyncSubscriber, sink: Any) -> None:
    """Call the function with every event; one that raises is reported and called again with the next."""
    async for item in feed:
        try:
            outcome = sink(item)
            if inspect.isawaitable(outcome):
                await outcome
        except Exception as error:  # application code: it must not end the delivery of later events
            _log.error("an event sink raised %s", type(error).__name__)
