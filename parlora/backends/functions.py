"""Run a plain or `async def` Python function for each request.

def opening_hours(request, job):
    job.progress("looking it up")
    return "We are open from nine to five."

backend = ("parlora.backends.functions:Functions", {"handler": "shop:opening_hours"})
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parlora.backends import outcome
from parlora.backends.handlers import Handler, Handlers
from parlora.backends.job import Cancelled, Job, Update
from parlora.contract.adapter import AdapterInit, ClosePolicy, EventSink
from parlora.contract.backend import Backend, BackendCapabilities, BackendRequest, CancellationSupport
from parlora.contract.commands import CommandLog
from parlora.errors import Backpressure, Closed, InvalidArgument, NotFound, Unsupported
from parlora.events import EventType
from parlora.limits import BACKEND_CLOSE_RESERVE_MS
from parlora.wire import pack, to_data


@dataclass(frozen=True, slots=True)
class _Running:
    job: Job
    handler: Handler


class Functions(Backend):
    """A function per request, at most `max_jobs` at once.

    handler: `"module:function"`, or `{operation: "module:function"}` chosen by `request.input[key]`. A function takes
    `(request)` or `(request, job)`, see `Job`. It returns a summary, facts (a dict, with an optional "summary"), a
    `BackendResult` or None, and fails by raising. Plain functions run on a thread each, `async def` ones share one
    event loop: they must not block it.
    options: plain data for the functions, `job.options`.
    updates: whether the functions take changes to running requests with `job.updates()`.
    failure_summary: what may be said to the caller when a function failed; None for nothing.

    A stop is advice: it sets `job.cancelled`, and only the function can say that it stopped, by raising `Cancelled`.
    All of its threads end with the owner process.
    """

    def __init__(
        self,
        handler: object,
        key: str = "operation",
        options: Mapping[str, Any] | None = None,
        updates: bool = False,
        failure_summary: str | None = None,
    ) -> None:
        self._handlers = Handlers(handler, key)
        self._options = dict(options or {})
        self._with_jobs = any(each.takes_job for each in self._handlers.all)
        if updates and not self._with_jobs:
            raise InvalidArgument("updates needs a function that takes (request, job)", field="updates")
        if failure_summary is not None and not isinstance(failure_summary, str):
            raise InvalidArgument("failure_summary must be text or None", field="failure_summary")
        pack(self._options)
        self._updates = bool(updates)
        self._failure_summary = failure_summary
        self._changed = threading.Condition()
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, int] = {}
        self._uncertain: list[str] = []
        self._closing = self._gone = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self, init: AdapterInit) -> None:
        """Be ready; an event loop is started if any function needs one."""
        self._sink: EventSink = init.event_sink
        self._limits = init.limits
        self._commands = CommandLog(init.limits.max_records)
        self._requests = CommandLog(init.limits.max_records)
        if any(each.is_async for each in self._handlers.all):
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._run_loop, args=(self._loop,), name="functions-loop", daemon=True).start()
        capabilities = BackendCapabilities(
            updates=self._updates,
            cancellation=CancellationSupport.ADVISORY if self._with_jobs else CancellationSupport.UNSUPPORTED,
            progress=self._with_jobs,
            clarification=self._with_jobs,
        )
        self._sink.emit(EventType.READY, {"capabilities": to_data(capabilities)})

    def submit(self, request: BackendRequest, command_id: str) -> None:
        """Begin the function; a repeated command or request id begins nothing."""
        with self._changed:
            self._check_open()
            if not self._commands.admit(command_id, "submit", request):
                return
            try:
                running = self._admit(request)
            except Exception:
                self._commands.forget(command_id)
                raise
            self._commands.settle(command_id)
            if running is None:
                return
            self._running[request.id] = running
        if running.handler.is_async:
            assert self._loop is not None, "start made a loop for async functions"
            asyncio.run_coroutine_threadsafe(self._run_async(running), self._loop)
        else:
            # Daemon threads: a function that never returns must not keep the owner process from ending.
            threading.Thread(target=self._run, args=(running,), name=f"job-{request.id[:8]}", daemon=True).start()

    def update(self, request_id: str, update: Mapping[str, Any], task_revision: int, command_id: str) -> None:
        """Offer a change to the running function; it is applied when the function takes it."""
        if not self._updates:
            raise Unsupported("these functions take no updates")
        with self._changed:
            self._check_open()
            if not self._commands.admit(command_id, "update", request_id, update, task_revision):
                return
            try:
                running = self._find(request_id)
                if running is not None and running.handler.takes_job:
                    running.job.offer(Update(command_id, task_revision, dict(update)))
                    return
            except Exception:
                self._commands.forget(command_id)
                raise
            finally:
                self._commands.settle(command_id)
        error = Unsupported("this function takes no updates") if running else Closed("the request has ended")
        payload = {"task_revision": task_revision, "outcome": "rejected", "error": error.to_data()}
        self._sink.emit(EventType.UPDATE_REJECTED, payload, command_id=command_id, request_id=request_id)

    def cancel(self, request_id: str, reason: str, command_id: str) -> None:
        """Set the function's flag; what it makes of that is its own result."""
        if not self._with_jobs:
            raise Unsupported("these functions cannot be asked to stop")
        with self._changed:
            self._check_open()
            if not self._commands.admit(command_id, "cancel", request_id, reason):
                return
            try:
                running = self._find(request_id)
            except NotFound:
                self._commands.forget(command_id)
                raise
            self._commands.settle(command_id)
            if running is not None and running.handler.takes_job:
                # Emitted under the lock, so that it precedes whatever the function answers.
                payload = {"task_revision": running.job.task_revision, "outcome": "flagged", "error": None}
                self._sink.emit(EventType.CANCELLATION_REQUESTED, payload, command_id=command_id, request_id=request_id)
                running.job.flag_cancelled()
                return
            revision = running.job.task_revision if running else self._ended[request_id]
        error = Unsupported("this function cannot be asked to stop") if running else Closed("the request has ended")
        payload = {"task_revision": revision, "outcome": "rejected", "error": error.to_data()}
        self._sink.emit(EventType.CANCELLATION_REJECTED, payload, command_id=command_id, request_id=request_id)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Take no more work; `closed` follows when every function has ended, or just before the session's deadline."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            if policy is ClosePolicy.CANCEL:
                for running in self._running.values():
                    running.job.flag_cancelled()
        threading.Thread(target=self._finish, args=(command_id,), name="functions-close", daemon=True).start()

    def _check_open(self) -> None:
        if self._closing:
            raise Closed("the backend is closing")

    def _admit(self, request: BackendRequest) -> _Running | None:
        handler = self._handlers.choose(request)
        if not self._requests.admit(request.id, "submit", request):
            return None
        if len(self._running) >= self._limits.max_jobs:
            self._requests.forget(request.id)
            raise Backpressure("every job slot is taken", details={"max_jobs": self._limits.max_jobs})

        def report(type: str, payload: dict[str, Any], command_id: str | None) -> None:
            if not self._gone:
                self._sink.emit(type, payload, command_id=command_id, request_id=request.id)

        return _Running(Job(request, self._options, report), handler)

    def _find(self, request_id: str) -> _Running | None:
        """The running request, None if it has ended; raises `NotFound` for one that never was here."""
        running = self._running.get(request_id)
        if running is None and request_id not in self._ended:
            raise NotFound("no request has this id", details={"request_id": request_id})
        return running

    def _run(self, running: _Running) -> None:
        self._report_started(running)
        try:
            value = running.handler.function(*_arguments(running))
        except BaseException as error:  # also SystemExit: nothing a function does may end its observer silently
            self._settle(running, error=error)
        else:
            self._settle(running, value)

    async def _run_async(self, running: _Running) -> None:
        self._report_started(running)
        try:
            value = await running.handler.function(*_arguments(running))
        except BaseException as error:
            self._settle(running, error=error)
        else:
            self._settle(running, value)

    def _report_started(self, running: _Running) -> None:
        request = running.job.request
        payload = {"task_revision": request.task_revision}
        self._sink.emit(EventType.REQUEST_STARTED, payload, request_id=request.id)

    def _settle(self, running: _Running, value: object = None, error: BaseException | None = None) -> None:
        job = running.job
        request, revision = job.request, job.task_revision
        if error is None:
            type, payload = outcome.returned(request, revision, value)
        elif isinstance(error, Cancelled):
            type, payload = outcome.cancelled(request, revision)
        elif isinstance(error, asyncio.CancelledError):
            # Somebody cancelled the task; what its threads and awaits have done by then is unknown.
            type, payload = outcome.uncertain(revision, "task_cancelled")
        else:
            type, payload = outcome.failed(request, revision, error, self._failure_summary)
        with self._changed:
            if not self._gone:
                job.end()
                self._sink.emit(type, payload, request_id=request.id)
            if type == EventType.REQUEST_UNCERTAIN:
                self._remember_uncertain(request.id)
            self._forget_job(request.id, revision)
            self._changed.notify_all()

    def _forget_job(self, request_id: str, revision: int) -> None:
        self._running.pop(request_id, None)
        self._requests.settle(request_id)
        if len(self._ended) >= self._limits.max_records:
            del self._ended[next(iter(self._ended))]
        self._ended[request_id] = revision

    def _remember_uncertain(self, request_id: str) -> None:
        self._uncertain.append(request_id)
        del self._uncertain[: -self._limits.max_records]

    def _finish(self, command_id: str) -> None:
        timeout_ms = self._limits.shutdown_timeout_ms
        timeout_ms -= min(BACKEND_CLOSE_RESERVE_MS, timeout_ms // 4)
        with self._changed:
            self._changed.wait_for(lambda: not self._running, timeout_ms / 1_000)
            for request_id, running in self._running.items():
                type, payload = outcome.uncertain(running.job.task_revision, "closed")
                self._sink.emit(type, payload, request_id=request_id)
                self._remember_uncertain(request_id)
            self._gone = True
            closed = {"uncertain_requests": list(self._uncertain)}
            self._sink.emit(EventType.CLOSED, closed, command_id=command_id)
            if self._loop is not None and not self._running:
                self._loop.call_soon_threadsafe(self._loop.stop)

    @staticmethod
    def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.run_forever()
        finally:
            loop.close()


def _arguments(running: _Running) -> tuple[Any, ...]:
    return (running.job.request, running.job) if running.handler.takes_job else (running.job.request,)
