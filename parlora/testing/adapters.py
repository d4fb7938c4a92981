"""Run one adapter alone: with audio ports in memory, a recording event sink and bounded waits.

    >>> from parlora.backends.trivial import TrivialBackend
    >>> from parlora.testing.adapters import AdapterHarness, backend_request
    >>> with AdapterHarness(TrivialBackend()) as harness:
    ...     ready = harness.start()
    ...     harness.call("submit", backend_request("r1"), "c1")
    ...     done = harness.wait_for("request_completed", request_id="r1")
    >>> done.payload["result"]["summary"]
    'done'

Callbacks run as an owner runs them: one after another on one worker thread, or on one event loop if the adapter is
written with `async def`. One that does not return within the contract's 1,000 ms fails the test.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.contract.adapter import Adapter, AdapterInit, ClosePolicy
from parlora.contract.backend import Backend, BackendRequest
from parlora.contract.channel import Channel
from parlora.contract.provider import Provider
from parlora.errors import Backpressure, Timeout
from parlora.events import Event, Source
from parlora.ids import new_id
from parlora.limits import CALL_TIMEOUT_MS, Limits
from parlora.testing.ports import MemoryPort
from parlora.wire import pack, to_data, unpack

WAIT_MS: Final = 5_000
"""Default bound of every wait: what a test waits for needs milliseconds, a loaded machine seconds."""

MAX_EVENTS: Final = 10_000
"""Most events one sink records; an adapter that emits more is broken."""

_CALLBACKS: Final = ("start", "close", "submit", "update", "cancel", "control", "append_context")


class RecordingSink:
    """An `EventSink` that keeps every event, as plain data that has been through msgpack as it would be on a link."""

    def __init__(self, source: str, session_id: str, adapter_id: str, generation: int = 0) -> None:
        self._identity = (source, session_id, adapter_id, generation)
        self._changed = threading.Condition()
        self._events: list[Event] = []

    def emit(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        command_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Record one event; raises `InvalidArgument` for a payload that is no plain data."""
        source, session_id, adapter_id, generation = self._identity
        plain = unpack(pack(to_data(dict(payload or {}))))
        at_us = time.monotonic_ns() // 1_000
        event = Event(
            new_id(), source, str(type), session_id, adapter_id, generation, command_id, request_id, at_us, plain
        )
        with self._changed:
            if len(self._events) >= MAX_EVENTS:
                raise Backpressure(f"more than {MAX_EVENTS} events")
            self._events.append(event)
            self._changed.notify_all()

    def events(self, type: str | None = None, request_id: str | None = None) -> list[Event]:
        """What has been recorded so far, oldest first, narrowed to a type and a request."""
        with self._changed:
            return [
                event for event in self._events if type in (None, event.type) and request_id in (None, event.request_id)
            ]

    def wait_for(
        self,
        type: str,
        *,
        request_id: str | None = None,
        command_id: str | None = None,
        nth: int = 1,
        timeout_ms: int = WAIT_MS,
    ) -> Event:
        """The `nth` event of this type, request and command, waiting for it; raises `Timeout` naming what came."""

        def matching() -> list[Event]:
            return [
                event
                for event in self._events
                if event.type == type
                and request_id in (None, event.request_id)
                and command_id in (None, event.command_id)
            ]

        with self._changed:
            if self._changed.wait_for(lambda: len(matching()) >= nth, timeout_ms / 1_000):
                return matching()[nth - 1]
            seen = ", ".join(event.type for event in self._events) or "nothing"
        raise Timeout(f"no {type} number {nth} within {timeout_ms} ms; there came {seen}")


class AdapterHarness:
    """One adapter with everything it needs.

    audio_in is the port the adapter reads from and audio_out the one it writes to: a test writes to the first and reads
    from the second. `close_adapter` and the end of the `with` block are bounded, whatever the adapter does.
    """

    def __init__(
        self,
        adapter: Adapter,
        *,
        audio_format: AudioFormat | None = None,
        limits: Limits | None = None,
        instructions: str | None = None,
        history: tuple[Mapping[str, Any], ...] = (),
    ) -> None:
        self.adapter = adapter
        self.format = audio_format or AudioFormat.pcm16()
        profile = adapter.audio_limits(self.format) if isinstance(adapter, Provider) else None
        self.limits = (limits or Limits()).resolve(self.format, profile)
        source = _source_of(adapter)
        self.sink = RecordingSink(source, "session", f"{source}-1")
        channel = isinstance(adapter, Channel)
        bounds = (_size(self.limits.audio_queue_bytes), _size(self.limits.provider_audio_queue_bytes))
        self.audio_in = MemoryPort(self.format, bounds[0], _size(self.limits.max_frame_bytes))
        self.audio_out = MemoryPort(
            self.format, bounds[0] if channel else bounds[1], _size(self.limits.max_frame_bytes)
        )
        self._instructions, self._history = instructions, history
        self._worker = _worker_for(adapter)
        self._started = self._closed = False

    def __enter__(self) -> AdapterHarness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._started and not self._closed:
                self.close_adapter(ClosePolicy.CANCEL)
        finally:
            self.audio_in.close()
            self.audio_out.close()
            self._worker.stop()

    def init(self) -> AdapterInit:
        """What the adapter is started with."""
        audio = not isinstance(self.adapter, Backend)
        return AdapterInit(
            session_id="session",
            adapter_id=f"{_source_of(self.adapter)}-1",
            generation=0,
            event_sink=self.sink,
            audio_format=self.format if audio else None,
            limits=self.limits,
            audio_in=self.audio_in if audio else None,
            audio_out=self.audio_out if audio else None,
            instructions=self._instructions,
            history=self._history,
            deadline_us=time.monotonic_ns() // 1_000 + self.limits.startup_timeout_ms * 1_000,
        )

    def start(self, timeout_ms: int = WAIT_MS) -> Event:
        """Start the adapter and return its `ready` event."""
        self._started = True
        self._worker.run(self.adapter.start, (self.init(),), timeout_ms)
        return self.sink.wait_for("ready", timeout_ms=timeout_ms)

    def call(self, callback: str, *arguments: Any) -> None:
        """Invoke a callback; raises what it raises, and `Timeout` if it takes longer than the contract allows."""
        self._worker.run(getattr(self.adapter, callback), arguments, CALL_TIMEOUT_MS)

    def wait_for(self, type: str, **narrowing: Any) -> Event:
        """`RecordingSink.wait_for` of this adapter's sink."""
        return self.sink.wait_for(type, **narrowing)

    def close_adapter(
        self, policy: ClosePolicy = ClosePolicy.FINISH, command_id: str = "close", timeout_ms: int = WAIT_MS
    ) -> Event:
        """Close the adapter and return its `closed` event."""
        self._closed = True
        self.call("close", policy, command_id)
        return self.sink.wait_for("closed", timeout_ms=timeout_ms)


def backend_request(id: str, input: Mapping[str, Any] | None = None, **fields: Any) -> BackendRequest:
    """A request with plausible values for everything not given."""
    values: dict[str, Any] = {
        "task_id": f"task-of-{id}",
        "task_revision": 1,
        "delegation_id": None,
        "deadline_at_us": None,
        "context": {},
        "provider_generation": 0,
    }
    return BackendRequest(id=id, input=dict(input or {}), **(values | fields))


class _ThreadWorker:
    """One thread that runs plain callbacks."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="adapter")

    def run(self, callback: Callable[..., Any], arguments: tuple[Any, ...], timeout_ms: int) -> None:
        _result(self._pool.submit(callback, *arguments), callback, timeout_ms)

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _LoopWorker:
    """One event loop on a thread of its own, for adapters written with `async def`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="adapter-loop", daemon=True)
        self._thread.start()

    def run(self, callback: Callable[..., Any], arguments: tuple[Any, ...], timeout_ms: int) -> None:
        async def invoke() -> None:
            answer = callback(*arguments)
            if inspect.isawaitable(answer):
                await answer

        _result(asyncio.run_coroutine_threadsafe(invoke(), self._loop), callback, timeout_ms)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_MS / 1_000)
        if not self._thread.is_alive():
            self._loop.close()


def _worker_for(adapter: Adapter) -> _ThreadWorker | _LoopWorker:
    callbacks = (getattr(adapter, name, None) for name in _CALLBACKS)
    return _LoopWorker() if any(inspect.iscoroutinefunction(callback) for callback in callbacks) else _ThreadWorker()


def _result(future: Future[Any], callback: Callable[..., Any], timeout_ms: int) -> None:
    try:
        future.result(timeout_ms / 1_000)
    except TimeoutError:
        if future.done():
            raise
        raise Timeout(f"{getattr(callback, '__name__', callback)} took longer than {timeout_ms} ms") from None


def _source_of(adapter: Adapter) -> str:
    if isinstance(adapter, Channel):
        return Source.CHANNEL
    return Source.BACKEND if isinstance(adapter, Backend) else Source.PROVIDER


def _size(value: int | None) -> int:
    assert value is not None, "resolved limits have every byte bound"
    return value
