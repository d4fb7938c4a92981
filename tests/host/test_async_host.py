"""The asyncio face of the host on a real node: same names and meanings, and the loop is never blocked."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import parlora
from parlora import AsyncActorHost, AsyncSession, AsyncSubscriber, Event
from parlora_actors import procfs

from .real import TRIVIAL

HANG_MS = 900


async def start(host: AsyncActorHost, **options: Any) -> AsyncSession:
    return await host.start_session(**{**TRIVIAL, **options})


def on_a_node(body: Callable[[AsyncActorHost], Awaitable[None]]) -> None:
    """Run `body` with a host in a loop whose longest stall is checked: nothing may block it."""

    async def run() -> None:
        async with AsyncActorHost() as host:
            watch = asyncio.create_task(longest_stall())
            await body(host)
            watch.cancel()
            stall = await watch
        assert stall < HANG_MS / 1_000 / 2, f"the loop stood still for {stall:.3f} s"

    asyncio.run(run())


async def longest_stall() -> float:
    longest = 0.0
    try:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before - 0.01)
    except asyncio.CancelledError:
        return longest


@pytest.mark.parametrize(
    ("plain", "asynchronous"),
    [
        (parlora.ActorHost, parlora.AsyncActorHost),
        (parlora.Session, parlora.AsyncSession),
        (parlora.Subscriber, parlora.AsyncSubscriber),
        (parlora.Subscription, parlora.AsyncSubscription),
    ],
)
def test_each_public_name_is_there_with_the_same_arguments(plain: type, asynchronous: type) -> None:
    # `attach` and `dropped` belong to the threads' world; an asyncio program reads the inner subscriber's count
    names = {name for name in dir(plain) if not name.startswith("_")} - {"attach", "dropped", "session_id", "take"}
    assert names <= set(dir(asynchronous))
    for name in names:
        if inspect.isfunction(getattr(plain, name)) and name != "start_session":
            ours = list(inspect.signature(getattr(asynchronous, name)).parameters)
            assert ours == list(inspect.signature(getattr(plain, name)).parameters)


def test_a_session_starts_tells_answers_and_ends_while_the_loop_runs_on() -> None:
    async def body(host: AsyncActorHost) -> None:
        slow = ("tests.host.adapters:SlowBackend", {"wait_ms": HANG_MS})
        sink = AsyncSubscriber()
        session = await start(host, backend=slow, event_sink=sink)
        assert (await session.status())["status"] == "starting"
        with pytest.raises(parlora.Timeout):
            await session.wait_ready(0.01)
        await session.wait_ready()
        await session.update_context({"a": 1})
        assert (await session.snapshot()).application_context == {"a": 1}
        assert [each.id for each in host.sessions()] == [session.id]
        await session.close()
        closed = await session.wait_closed()
        events = [item async for item in sink if isinstance(item, Event)]
        assert closed["reason"] == "requested"
        assert [event.type for event in events if event.source == "session"][-1] == "closed"
        assert host.sessions() == []
        with pytest.raises(parlora.Closed):
            await session.status()

    on_a_node(body)


def test_sink_functions_plain_and_async_are_called_in_the_loop() -> None:
    async def body(host: AsyncActorHost) -> None:
        loop, seen = asyncio.get_running_loop(), []

        async def slowly(item: Any) -> None:
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            seen.append(item.type)

        session = await start(host, event_sink=slowly)
        await session.wait_ready()
        await session.close()
        await session.wait_closed()
        async with asyncio.timeout(5):
            while "closed" not in seen:
                await asyncio.sleep(0.01)
        assert "ready" in seen

    on_a_node(body)


def test_cancelling_a_waiting_task_changes_nothing_of_the_session() -> None:
    async def body(host: AsyncActorHost) -> None:
        session = await start(host)
        await session.wait_ready()
        waits = [asyncio.create_task(each) for each in (session.wait_closed(), AsyncSubscriber().get(5))]
        await asyncio.sleep(0.05)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        assert (await session.status())["status"] == "ready"
        await session.close()
        await session.wait_closed()

    on_a_node(body)


def test_a_start_whose_task_is_cancelled_leaves_no_session() -> None:
    async def body(host: AsyncActorHost) -> None:
        starting = asyncio.create_task(start(host))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        async with asyncio.timeout(20):
            while host._host.sessions():
                await asyncio.sleep(0.02)

    on_a_node(body)


def test_a_loop_that_ends_closes_no_session_and_the_host_can_be_closed_from_another() -> None:
    host = AsyncActorHost()
    session = asyncio.run(_started(host))
    assert session._session.status()["status"] == "ready"
    pid = host.pid
    assert pid is not None
    asyncio.run(host.close())
    assert procfs.descendants(pid) == []


async def _started(host: AsyncActorHost) -> AsyncSession:
    await host.start()
    session = await start(host)
    await session.wait_ready()
    return session
