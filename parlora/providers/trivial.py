"""The smallest correct provider: it hears nothing, may echo the caller, and says what a script tells it to.

For tests and benchmarks: `("parlora.providers.trivial:TrivialProvider", {"echo": True})`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from parlora.audio.frame import AudioFrame
from parlora.audio.port import AudioSink, AudioSource, WriteResult
from parlora.audio.ticker import Ticker
from parlora.contract.adapter import AdapterInit, ClosePolicy, EventSink
from parlora.contract.commands import CommandLog
from parlora.contract.provider import (
    ContextKind,
    ContextUpdate,
    MuteInput,
    Provider,
    ProviderCapabilities,
    ProviderCommand,
    Speaker,
)
from parlora.errors import Closed, InvalidArgument
from parlora.events import EventType
from parlora.wire import to_data

TICK_US: Final = 20_000
"""How often the caller's audio is taken and the script looked at."""


class TrivialProvider(Provider):
    """Takes the caller's audio and, with `echo`, gives it back as generated audio.

    script: what to emit and when, `[{"at_ms": 100, "emit": "delegation_requested", "payload": {...}}, ...]`; `at_ms`
    counts from `ready`, steps that are due together are emitted in the order of the script.
    captions: emit every speakable update as an assistant caption, as a provider that had spoken it would.
    """

    def __init__(self, echo: bool = False, script: Sequence[Mapping[str, Any]] = (), captions: bool = False) -> None:
        self._echo, self._captions = bool(echo), bool(captions)
        self._script = sorted((_step(step, index) for index, step in enumerate(script)), key=lambda step: step[0])
        self._turn = threading.Lock()
        self._muted = False
        self._closing = False
        self._heard_us = 0
        self._refused = 0
        self._ticker: Ticker | None = None

    def start(self, init: AdapterInit) -> None:
        """Begin to take audio; the script runs from here on."""
        format = init.audio_format
        if format is None or init.audio_in is None or init.audio_out is None:
            raise InvalidArgument("a provider needs a format and two audio ports", field="audio_format")
        self._sink: EventSink = init.event_sink
        self._uplink: AudioSource = init.audio_in
        self._generated: AudioSink = init.audio_out
        self._read_bytes = init.limits.audio_queue_bytes or format.bytes_for_us(1_000_000)
        self._commands = CommandLog(init.limits.max_records)
        capabilities = ProviderCapabilities(
            audio_formats=(format.check_supported(),),
            transcripts=(Speaker.USER, Speaker.ASSISTANT),
            context_update_kinds=tuple(ContextKind),
            input_mute=True,
            usage=True,
            context_acknowledgment=True,
        )
        payload = {"capabilities": to_data(capabilities), "audio_format": format.to_data()}
        self._sink.emit(EventType.READY, payload)
        self._ready_us = time.monotonic_ns() // 1_000
        self._ticker = Ticker(self._tick, TICK_US, "trivial-provider")
        self._ticker.start()

    def append_context(self, update: ContextUpdate, command_id: str) -> None:
        """Acknowledge at once."""
        with self._turn:
            if self._closing:
                raise Closed("the provider is closing")
            if not self._commands.admit(command_id, "append_context", update):
                return
            self._commands.settle(command_id)
        self._sink.emit(EventType.CONTEXT_ACKNOWLEDGED, {}, command_id=command_id)
        if self._captions and update.kind is ContextKind.SPEAKABLE:
            at_ms = (time.monotonic_ns() // 1_000 - self._ready_us) // 1_000
            caption = {"speaker": str(Speaker.ASSISTANT), "delta": update.text, "start_ms": at_ms, "end_ms": None}
            self._sink.emit(EventType.TRANSCRIPT_DELTA, caption)

    def control(self, command: ProviderCommand, command_id: str) -> None:
        """Mute or unmute: muted audio is taken and neither echoed nor counted as heard."""
        if not isinstance(command, MuteInput):
            raise InvalidArgument(f"{type(command).__name__} is no provider control", field="command")
        with self._turn:
            if self._closing:
                raise Closed("the provider is closing")
            if not self._commands.admit(command_id, "control", command):
                return
            self._commands.settle(command_id)
            self._muted = command.on
        self._sink.emit(
            EventType.CONTROL_COMPLETED,
            {"control": "mute_input", "on": command.on, "error": None},
            command_id=command_id,
        )

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Stop, with the final usage."""
        with self._turn:
            if self._closing:
                return
            self._closing = True
            usage = {"seconds": self._heard_us / 1_000_000, "final": True}
            refused = self._refused
        if self._ticker is not None:
            self._ticker.stop()
        self._sink.emit(EventType.USAGE_FINAL, usage)
        closed = {"finalization_observed": True, "refused_frames": refused}
        self._sink.emit(EventType.CLOSED, closed, command_id=command_id)

    def _tick(self) -> bool:
        with self._turn:
            if self._closing:
                return False
            try:
                frames = self._uplink.read(self._read_bytes)
            except Closed:
                return False
            if not self._muted:
                self._hear(frames)
            due_ms = (time.monotonic_ns() // 1_000 - self._ready_us) // 1_000
            while self._script and self._script[0][0] <= due_ms:
                _, type, payload = self._script.pop(0)
                self._sink.emit(type, payload)
        return True

    def _hear(self, frames: Sequence[AudioFrame]) -> None:
        for frame in frames:
            self._heard_us += frame.duration_us
            if self._echo and self._generated.write(frame.data) is not WriteResult.OK:
                self._refused += 1


def _step(step: Mapping[str, Any], index: int) -> tuple[int, str, dict[str, Any]]:
    field = f"script[{index}]"
    if not isinstance(step, Mapping) or not {"at_ms", "emit"} <= set(step) <= {"at_ms", "emit", "payload"}:
        raise InvalidArgument(f"{field} must have at_ms and emit, and may have payload", field=field)
    if type(step["at_ms"]) is not int or step["at_ms"] < 0:
        raise InvalidArgument(f"{field}.at_ms must be a non-negative integer", field=f"{field}.at_ms")
    return step["at_ms"], str(step["emit"]), dict(step.get("payload") or {})
