"""From the library's thread into an event loop, and never back: what the asyncio face of the host rests on.

The loop is never blocked. Waiting costs no thread: the library's thread rings, the loop looks. Calls that need an
answer of another process (all bounded, most take a millisecond) run on a few threads of the host's; a task that is
cancelled leaves its call to end by itself, and what became of it is unknown to the task.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from parlora.errors import Backpressure
from parlora_actors.host_timing import until_s

T = TypeVar("T")

CALL_THREADS: Final = 8
"""Calls under way at once; each is answered in about a millisecond."""

MAX_CALLS: Final = 256
"""Calls that may wait for a thread; one more is refused."""


class Bell:
    """Wakes the tasks of one loop that wait for a condition. Made in the loop, rung from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Something changed. A loop that is closed hears nothing more, and nobody waits there."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, deadline_us: int | None) -> None:
        """Wait for the next ring, at most until `deadline_us`. Look at the condition before and after."""
        self._rung.clear()
        timeout = None if deadline_us is None else until_s(deadline_us)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), timeout)


class Calls:
    """Runs blocking calls of the host library beside the loop."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(CALL_THREADS, thread_name_prefix="parlora-async")
        self._under_way = 0

    def begin(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run `call()` on a thread; raises `Backpressure` if too many wait. Whoever stops waiting shields it."""
        if self._under_way >= MAX_CALLS:
            raise Backpressure("too many calls wait already", details={"most": MAX_CALLS})
        self._under_way += 1
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        future.add_done_callback(self._done)
        return future

    async def run(self, call: Callable[[], T]) -> T:
        """The value of `call()`; raises what it raises. A cancelled task does not withdraw the call."""
        return await asyncio.shield(self.begin(call))

    def stop(self) -> None:
        """Take no more calls; those under way end by their own deadlines."""
        self._pool.shutdown(wait=False)

    def _done(self, future: asyncio.Future[T]) -> None:
        self._under_way -= 1
        if not future.cancelled():
            future.exception()  # of a call whose task is gone: nobody else will look
