"""What the three adapter contracts share (spec 000 §2).

An adapter runs in its own owner process, and only there. `start`, commands and `close` are called one after
another on the owner's worker thread (or, written with `async def`, on one event loop). Except for `start` they
perform bounded local admission: they return within 1,000 ms and never wait for a remote acknowledgment,
playback or finished work. Returning means admitted; raising `ParloraError` means refused. What happens later is
told through `init.events`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from parlora.audio.format import AudioFormat
from parlora.audio.port import AudioSink, AudioSource
from parlora.limits import Limits


class ClosePolicy(StrEnum):
    """What becomes of the backend's jobs when a session closes."""

    FINISH = "finish"
    CANCEL = "cancel"


class EventSink(Protocol):
    """Where an adapter reports what it observes; safe to call from any thread, never blocks."""

    def emit(
        self,
        type: str,
        payload: Mapping[str, Any] | None = None,
        *,
        command_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Send one event to the coordinator, stamped with id, identity and time.

        The payload is plain data without audio or credentials. An event beyond the sink's bound ends the
        adapter with `backpressure`: nothing is dropped silently.
        """


@dataclass(frozen=True, slots=True)
class AdapterInit:
    """What every adapter is given at start.

    session_id, adapter_id: opaque strings.
    generation: non-negative; changes when this adapter's connection is replaced.
    event_sink: where events go; always the coordinator.
    audio_format: the one format of the session; None for a backend.
    limits: every bound, resolved for the format.
    audio_in: the port to read from (a channel plays it, a provider sends it on); None for a backend.
    audio_out: the port to write to (what a channel captured, what a provider generated); None for a backend.
    instructions, history: what the application gave at startup; only a provider gets them.
    deadline_us: when startup ends, local monotonic.
    """

    session_id: str
    adapter_id: str
    generation: int
    event_sink: EventSink
    audio_format: AudioFormat | None
    limits: Limits
    audio_in: AudioSource | None
    audio_out: AudioSink | None
    instructions: str | None
    history: tuple[Mapping[str, Any], ...]
    deadline_us: int


class Adapter(ABC):
    """The common callbacks. Each may be a plain method or `async def`."""

    @abstractmethod
    def start(self, init: AdapterInit) -> Awaitable[None] | None:
        """Begin: validate the format, open what is needed, and emit `ready` when it works.

        May block up to the startup deadline. Raising ends the session with `failed`.
        """

    @abstractmethod
    def close(self, policy: ClosePolicy, command_id: str) -> Awaitable[None] | None:
        """Begin to end: reject new work, settle outstanding commands, free audio, then emit `closed`.

        Called at most once per generation. Anything still running at the session's shutdown deadline is killed.
        """
