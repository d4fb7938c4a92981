"""The process in which one adapter lives: the only place where its code runs (design §8).

The main thread is the loop. It never runs adapter code, so commands, the epoch and the end are always served; one
worker thread runs the adapter's callbacks serially. A callback that overstays its time leaves the worker poisoned:
whether it took effect is unknown, every later command is refused, and the process is killed when the session ends.
"""

from __future__ import annotations

import select
from dataclasses import dataclass, field
from typing import Any, Final

from parlora import telemetry
from parlora._process import set_batch_scheduling
from parlora.audio.format import AudioFormat
from parlora.audio.ring import Ring
from parlora.component import Component
from parlora.contract.adapter import AdapterInit
from parlora.errors import ErrorCode, ParloraError
from parlora.events import Event, EventType
from parlora.limits import CALL_TIMEOUT_MS, Limits
from parlora.session.effects import Call
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role
from parlora.wire import from_data
from parlora_actors.audio_telemetry import listen, tell_reads
from parlora_actors.loop import Loop
from parlora_actors.messages.owner import FROM_OWNER, TO_OWNER, Invoke, Observed, Replied, Start
from parlora_actors.owner_calls import check_contract, cleared_epoch, invocation
from parlora_actors.owner_events import Identity, Outbox, OwnerEvents
from parlora_actors.owner_failure import error_data, located, refusal
from parlora_actors.owner_secrets import Secrets
from parlora_actors.owner_worker import Job, JobState, Worker
from parlora_actors.ports import RingSink, RingSource
from parlora_actors.timing import now_us
from parlora_actors.watched_link import WatchedLink

EXIT_OVERFLOW: Final = 72
"""Exit code of an owner whose adapter reported more than the coordinator takes."""

LAST_WORD_US: Final = 500_000
"""How long an owner that ends for overflow waits for the coordinator to take its `failed`, behind all that waits."""

LINK_AHEAD: Final = 8
"""Messages handed to the link before what it holds has gone out: the bound is the outbox's, not the link's."""

NEVER: Final = "never_submitted"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class OwnerInit:
    """What an owner process is started with.

    link: the descriptor of its end of the coordinator's link. audio_in, audio_out: the descriptors of the ring it reads
    and the ring it writes, empty for a backend. limits: resolved for the format, but for a provider's storage.
    """

    role: Role
    session_id: str
    component: Component
    audio_format: AudioFormat
    limits: Limits
    deadline_us: int
    link: int
    audio_in: tuple[int, ...] = ()
    audio_out: tuple[int, ...] = ()
    instructions: str | None = None
    history: tuple[dict[str, Any], ...] = field(default=())
    telemetry: Component | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything this process inherits."""
        return (self.link, *self.audio_in, *self.audio_out)


class Owner:
    """One adapter's owner on a loop."""

    def __init__(self, init: dict[str, Any], loop: Loop) -> None:
        self._init = from_data(init, OwnerInit)
        self._loop = loop
        self._outbox = Outbox()
        self._rings = _attach(self._init)
        self._secrets = Secrets({})
        self._worker: Worker | None = None
        self._events: OwnerEvents | None = None
        self._start_failed = False
        self._is_closing = False
        self._stuck_in: str | None = None
        if self._init.role is Role.BACKEND:
            set_batch_scheduling()
        listen(self._init.telemetry)
        loop.watch(self._outbox.fileno(), self._drain_outbox)
        self._link = WatchedLink(
            loop, self._init.link, TO_OWNER, FROM_OWNER, self._on_message, self._on_coordinator_end
        )
        self._link.on_drained = self._drain_outbox

    # --- what the coordinator asks

    def _on_message(self, message: Start | Invoke) -> None:
        if isinstance(message, Start):
            self._start(message)
        else:
            self._invoke(message)

    def _start(self, message: Start) -> None:
        if self._worker is not None:
            return
        init = self._init
        identity = Identity(str(init.role), init.session_id, message.adapter_id, message.generation)
        self._events = events = OwnerEvents(self._outbox, identity, lambda data: self._secrets.hide(data))
        ports = Ports(init, self._rings)
        self._tell_reads(message)

        def start(adapter: Any) -> Any:
            return adapter.start(ports.adapter_init(adapter, events, message))

        self._worker = Worker(
            f"parlora-{init.role}",
            self._build,
            lambda error: self._outbox.put_call(lambda: self._adapter_failed(error)),
            self._describe,
        )
        self._worker.submit(Job(f"{init.role}.start", start, self._hand_over(self._started)))
        self._worker.start()

    def _tell_reads(self, message: Start) -> None:
        """What is taken of the channel's playback, or of what the provider generated."""
        who = {
            "session_id": self._init.session_id,
            "adapter_id": message.adapter_id,
            "generation": message.generation,
        }
        if self._init.role is Role.CHANNEL:
            tell_reads(self._loop, self._rings["audio_in"], telemetry.CHANNEL_PLAYOUT, who)
        elif self._init.role is Role.PROVIDER:
            tell_reads(self._loop, self._rings["audio_out"], telemetry.PROVIDER_AUDIO_READ, who)

    def _build(self) -> Any:
        """On the worker thread: a file of secrets may be slow to read."""
        component = self._init.component
        self._secrets = Secrets(component.options)
        return check_contract(component.build(str(self._init.role)), self._init.role, component.path)

    def _describe(self, error: BaseException, what: str) -> ErrorData:
        hidden: ErrorData = self._secrets.hide(error_data(error, what))
        return hidden

    def _invoke(self, message: Invoke) -> None:
        repeated_close = message.call is Call.CLOSE and self._is_closing
        error = None if repeated_close else self._refusal(message)
        if repeated_close or error is not None:
            self._reply(message.command_id, error)
            return
        try:
            invoke = invocation(self._init.role, message.call, message.command_id, message.arguments)
        except ParloraError as wrong:
            self._reply(message.command_id, _never(error_data(wrong, str(message.call))))
            return
        self._raise_epoch(message)
        if message.call is Call.CLOSE:
            self._is_closing = True
        assert self._worker is not None
        job = Job(f"{self._init.role}.{message.call}", invoke, self._hand_over(lambda job: self._ended(job, message)))
        self._worker.submit(job)
        self._watch_deadline(job, message)

    def _refusal(self, message: Invoke) -> ErrorData | None:
        """Why this command is not handed to the adapter, or None."""
        if self._is_closing:
            return refusal(ErrorCode.CLOSED, f"the {self._init.role} is closing", NEVER)
        if self._stuck_in is not None:
            return refusal(ErrorCode.TIMEOUT, f"{self._stuck_in} has not returned, so nothing more is handed on", NEVER)
        if now_us() >= message.deadline_us:
            return refusal(ErrorCode.TIMEOUT, f"the deadline of {message.call} passed before it was invoked", NEVER)
        # While a start is running commands wait behind it: an adapter may be ready before its start has returned.
        if self._worker is None or (self._start_failed and message.call is not Call.CLOSE):
            return refusal(ErrorCode.NOT_READY, f"the {self._init.role} has not started", NEVER)
        return None

    def _raise_epoch(self, message: Invoke) -> None:
        """A clear takes effect in the rings before the adapter is asked, and whether it answers or not."""
        epoch = cleared_epoch(message.call, message.arguments)
        if epoch is not None:
            ring = self._rings.get("audio_in" if self._init.role is Role.CHANNEL else "audio_out")
            if ring is not None:
                ring.clear(epoch)

    # --- what became of it

    def _started(self, job: Job) -> None:
        assert self._events is not None
        if job.error is not None:
            self._start_failed = True
            error = job.error
            if self._worker is not None and self._worker.adapter is not None:  # else building it has named the field
                error = located(error, str(self._init.role), self._init.component.options)
            self._send(Observed(self._events.make(EventType.FAILED, {"error": error})))

    def _ended(self, job: Job, message: Invoke) -> None:
        assert self._worker is not None
        assert self._events is not None
        if not job.abandoned:
            error = job.error
            if message.call is Call.CLOSE and self._worker.adapter is None:  # nothing was built: nothing to end
                error = None
                closed = {"finalization_observed": False}
                self._send(Observed(self._events.make(EventType.CLOSED, closed, message.command_id)))
            self._reply(message.command_id, error)

    def _watch_deadline(self, job: Job, message: Invoke) -> None:
        latest = now_us() + CALL_TIMEOUT_MS * 1_000
        self._loop.at(min(message.deadline_us, latest), lambda: self._check_deadline(job, message))

    def _check_deadline(self, job: Job, message: Invoke) -> None:
        if job.state is JobState.ENDED:
            return
        now = now_us()
        if job.started_us is None and now < message.deadline_us:
            self._loop.at(message.deadline_us, lambda: self._check_deadline(job, message))
        elif job.withdraw():
            self._reply(
                message.command_id, refusal(ErrorCode.TIMEOUT, f"{job.name} was not invoked by its deadline", NEVER)
            )
        else:
            limit = min(message.deadline_us, (job.started_us or now) + CALL_TIMEOUT_MS * 1_000)
            if now < limit:
                self._loop.at(limit, lambda: self._check_deadline(job, message))
                return
            self._stuck_in = job.name
            job.abandoned = True
            self._reply(message.command_id, refusal(ErrorCode.TIMEOUT, f"{job.name} did not return in time", UNKNOWN))

    def _adapter_failed(self, error: BaseException) -> None:
        """A thread or task of the adapter's ended with an exception: the adapter cannot be relied on any more."""
        assert self._events is not None
        data = self._describe(error, f"a thread of the {self._init.role} adapter")
        self._send(Observed(self._events.make(EventType.FAILED, {"error": data})))

    # --- the way out

    def _hand_over(self, finished: Any) -> Any:
        return lambda job: self._outbox.put_call(lambda: finished(job))

    def _drain_outbox(self) -> None:
        self._outbox.clear_wakeup()
        if self._outbox.overflowed:
            self._overflow()
            return
        while self._link.queued < LINK_AHEAD:  # else the link calls here again when it has gone out
            item = self._outbox.take()
            if item is None:
                return
            if isinstance(item, Event):
                self._send(Observed(item))
            else:
                item()

    def _overflow(self) -> None:
        assert self._events is not None
        self._events.end()
        error = refusal(
            ErrorCode.BACKPRESSURE, f"the {self._init.role} adapter reports faster than it is read", UNKNOWN
        )
        self._send(Observed(self._events.make(EventType.FAILED, {"error": error})))
        deadline_us = now_us() + LAST_WORD_US
        while not self._link.flush() and now_us() < deadline_us:
            select.select([], [self._link.link.fileno()], [], 0.01)
        self._loop.stop(EXIT_OVERFLOW)

    def _reply(self, command_id: str, error: ErrorData | None) -> None:
        self._send(Replied(command_id, error))

    def _send(self, message: Observed | Replied) -> None:
        self._link.send(message)

    def _on_coordinator_end(self) -> None:
        """Without a coordinator there is nobody to work for, and its end is never orderly."""
        self._loop.stop(0)


class Ports:
    """The audio ports and limits of one owner, completed on the worker thread, since the profile is adapter code."""

    def __init__(self, init: OwnerInit, rings: dict[str, Ring]) -> None:
        self._init = init
        format = init.audio_format
        self._source = RingSource(rings["audio_in"], format) if rings else None
        self._sink = RingSink(rings["audio_out"], format) if rings else None

    def adapter_init(self, adapter: Any, events: OwnerEvents, message: Start) -> AdapterInit:
        """What the adapter is started with."""
        init = self._init
        is_provider = init.role is Role.PROVIDER
        profile = adapter.audio_limits(init.audio_format) if is_provider and hasattr(adapter, "audio_limits") else None
        limits = init.limits.resolve(init.audio_format, profile)
        if is_provider and self._sink is not None:
            self._sink.bound(limits)
        return AdapterInit(
            session_id=init.session_id,
            adapter_id=message.adapter_id,
            generation=message.generation,
            event_sink=events,
            audio_format=None if init.role is Role.BACKEND else init.audio_format,
            limits=limits,
            audio_in=self._source,
            audio_out=self._sink,
            instructions=init.instructions if is_provider else None,
            history=init.history if is_provider else (),
            deadline_us=message.deadline_us,
        )


def _attach(init: OwnerInit) -> dict[str, Ring]:
    numbers = {"audio_in": init.audio_in, "audio_out": init.audio_out}
    return {name: Ring.attach(three) for name, three in numbers.items() if three}


def _never(error: ErrorData) -> ErrorData:
    return {**error, "details": {**error["details"], "execution": NEVER}}
