"""The one thread on which an adapter's callbacks run, one after another.

A callback that does not return keeps this thread and nothing else: the owner's loop goes on, and the process is killed
at the deadline. So nothing here waits for the adapter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum, auto
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from parlora.session.inputs import ErrorData
from parlora_actors.owner_calls import Invocation, is_async
from parlora_actors.owner_failure import error_data
from parlora_actors.timing import now_us

if TYPE_CHECKING:
    import asyncio

Finished = Callable[["Job"], None]
"""Called on the worker thread when a job has ended; it hands the job to the loop."""


class JobState(Enum):
    """Where one callback is."""

    WAITING = auto()
    RUNNING = auto()
    ENDED = auto()
    WITHDRAWN = auto()


class Job:
    """One callback on its way. `error` is None for a callback that returned."""

    def __init__(self, name: str, invoke: Invocation, finished: Finished) -> None:
        self.name = name
        self.invoke = invoke
        self.error: ErrorData | None = None
        self.started_us: int | None = None
        self.abandoned = False
        """The loop has given its outcome up as unknown; whatever it does now comes too late."""
        self._finished = finished
        self._state = JobState.WAITING
        self._lock = threading.Lock()

    @property
    def state(self) -> JobState:
        """The state at this moment; the worker may move on right after."""
        return self._state

    def withdraw(self) -> bool:
        """Make sure that it is never invoked; False if it has been."""
        with self._lock:
            if self._state is JobState.WAITING:
                self._state = JobState.WITHDRAWN
            return self._state is JobState.WITHDRAWN

    def begin(self) -> bool:
        """The worker is about to invoke it; False if it was withdrawn."""
        with self._lock:
            if self._state is JobState.WITHDRAWN:
                return False
            self._state = JobState.RUNNING
            self.started_us = now_us()
            return True

    def end(self, error: ErrorData | None = None) -> None:
        """It returned, or failed with `error`."""
        self.error = error
        self._state = JobState.ENDED
        self._finished(self)


class Worker:
    """Runs jobs on the adapter that `build` makes; the first job is the adapter's start.

    What `build` raises is the first job's error, and the worker has no adapter then. `failed` is called on whatever
    thread an adapter's own thread or task ends with an exception that nobody takes.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], Any],
        failed: Callable[[BaseException], None],
        describe: Callable[[BaseException, str], ErrorData] = error_data,
    ) -> None:
        self.adapter: Any = None
        self._build = build
        self._failed = failed
        self._describe = describe
        self._jobs: SimpleQueue[Job] = SimpleQueue()
        self._lock = threading.Lock()
        self._aio: asyncio.AbstractEventLoop | None = None
        self._aio_jobs: asyncio.Queue[Job]
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        threading.excepthook = self._thread_failed

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Run a job after those submitted before it."""
        with self._lock:
            if self._aio is None:
                self._jobs.put(job)
            else:
                self._aio.call_soon_threadsafe(self._aio_jobs.put_nowait, job)

    def _run(self) -> None:
        first = self._jobs.get()
        if not first.begin():
            return
        try:
            self.adapter = self._build()
        except BaseException as error:
            first.end(self._describe(error, first.name))
            self._serve_without_adapter()
            return
        if is_async(self.adapter):
            import asyncio  # costs memory in every owner, and few adapters need it

            asyncio.run(self._serve_async(first))
        else:
            self._serve(first)

    def _serve_without_adapter(self) -> None:
        while True:
            job = self._jobs.get()
            if job.begin():
                job.end()

    def _serve(self, job: Job) -> None:
        while True:
            if job.state is JobState.RUNNING or job.begin():
                job.end(self._call(job))
            job = self._jobs.get()

    def _call(self, job: Job) -> ErrorData | None:
        try:
            result = job.invoke(self.adapter)
            if hasattr(result, "__await__"):
                raise TypeError("a plain callback returned an awaitable; write all callbacks with async def")
        except BaseException as error:
            return self._describe(error, job.name)
        return None

    async def _serve_async(self, job: Job) -> None:
        import asyncio

        self._aio_jobs = asyncio.Queue()
        aio = asyncio.get_running_loop()
        aio.set_exception_handler(self._task_failed)
        with self._lock:
            self._aio = aio
            while not self._jobs.empty():
                self._aio_jobs.put_nowait(self._jobs.get())
        while True:
            if job.state is JobState.RUNNING or job.begin():
                job.end(await self._call_async(job))
            job = await self._aio_jobs.get()

    async def _call_async(self, job: Job) -> ErrorData | None:
        try:
            result = job.invoke(self.adapter)
            if hasattr(result, "__await__"):
                await result
        except BaseException as error:
            return self._describe(error, job.name)
        return None

    def _task_failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._failed(context.get("exception") or RuntimeError("an asyncio task failed"))

    def _thread_failed(self, failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is not None and failure.exc_type is not SystemExit:
            self._failed(failure.exc_value)
