"""The pipelines' inner loops: native threads that move frames from one ring to another (spec 000 §4, §9).

A pump holds no audio and runs no Python. It starts held; commands only store a wish and are answered by events, which
the process's main loop takes when `fileno` becomes readable:

    pump = OutputPump(generated, playback, AudioFormat.pcm16(), backpressure_timeout_ms=500)
    pump.start()
    pump.go()
    pump.clear(1)
    ...                     # fileno() readable
    for event in pump.events(): ...         # STARTED, then CLEARED with epoch 1 and what was dropped
    pump.stop(); pump.close(now_us() + 1_000_000)

Every frame that enters the source ring is written to the sink once, or counted in exactly one event, or still queued.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum
from threading import Thread
from typing import Final

from parlora._native import ffi, lib
from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.audio.ring import EPOCH_MAX, Ring, now_us
from parlora.errors import Closed, Conflict, InvalidArgument, Timeout
from parlora.limits import CATCH_UP_MS, CHANNEL_TURN_FRAMES, PACING_SLACK_MS, PUMP_POLL_MS, RECOVERY_PRESSURE_MS


class PumpEventKind(StrEnum):
    """What a pump reports."""

    STARTED = "started"
    CLEARED = "cleared"
    SUPPRESSED = "suppressed"
    RESUMED = "resumed"
    DISCARDED = "discarded"
    PEER_DIED = "peer_died"
    PRESSED = "pressed"
    STOPPED = "stopped"


class PumpCause(StrEnum):
    """Why."""

    NONE = "none"
    STARTUP = "startup_buffer_discard"
    STALE_EPOCH = "stale_epoch"
    SUPPRESSED = "suppressed"
    ASKED = "asked"
    BACKPRESSURE = "backpressure"
    SOURCE_CLOSED = "source_closed"
    SINK_CLOSED = "sink_closed"
    SOURCE_PEER = "source_peer"
    SINK_PEER = "sink_peer"
    CORRUPT = "corrupt"


_KINDS: Final = tuple(PumpEventKind)  # the native numbers start at 1
_CAUSES: Final = tuple(PumpCause)  # and here at 0


class Pacing(StrEnum):
    """Who keeps the time: the pipeline (media rate) or the channel's own clock (frames as they come)."""

    PIPELINE = "pipeline"
    CHANNEL = "channel"


@dataclass(frozen=True, slots=True)
class PumpEvent:
    """One report. `loss` is what was discarded and is counted in no other event.

    `command` is the number of the newest suppress command that SUPPRESSED or RESUMED answers, for PRESSED the bytes
    that wait in the source, else 0. `epoch` is the epoch that CLEARED acknowledges, else the sink's at the time.
    """

    kind: PumpEventKind
    cause: PumpCause
    command: int
    epoch: int
    loss: Loss
    at_us: int


@dataclass(frozen=True, slots=True)
class PumpHealth:
    """Counters of the frames forwarded, and the pump's state.

    `last_at_us` is 0 before the first frame; `late_max_us` is the furthest that a paced pump was behind its schedule;
    `wakes` counts sleeps that ended, `turns` those stretches of at most 20 frames between two looks at the commands;
    `epoch` is the newest clear it acknowledged; `realtime` whether SCHED_FIFO was granted.
    """

    frames: int
    bytes: int
    duration_us: int
    last_at_us: int
    late_max_us: int
    wakes: int
    turns: int
    epoch: int
    forwarding: bool
    suppressed: bool
    realtime: bool
    finished: bool


class Pump:
    """The consumer of one ring and the producer of another, on a thread of its own. See the module for its use.

    Raises `Conflict` if another process holds either role, `InvalidArgument` if the sink takes smaller frames than the
    source. `source_pidfd` and `sink_pidfd` are pidfds of the processes at the far ends, watched but not owned.
    """

    def __init__(
        self,
        source: Ring,
        sink: Ring,
        audio_format: AudioFormat,
        *,
        backpressure_timeout_ms: int,
        paced: bool,
        catches_up: bool = False,
        reports_pressure: bool = False,
        source_pidfd: int | None = None,
        sink_pidfd: int | None = None,
    ) -> None:
        if backpressure_timeout_ms < 1:
            raise InvalidArgument("backpressure_timeout_ms must be at least 1", field="backpressure_timeout_ms")
        config = ffi.new(
            "pl_pump_config *",
            {
                "bytes_per_second": audio_format.bytes_per_second if paced else 0,
                "slack_us": PACING_SLACK_MS * 1_000,
                "catch_up_us": CATCH_UP_MS * 1_000 if catches_up else 0,
                "poll_us": PUMP_POLL_MS * 1_000,
                "backpressure_us": backpressure_timeout_ms * 1_000,
                "pressed_us": RECOVERY_PRESSURE_MS * 1_000 if reports_pressure else 0,
                "turn_frames": CHANNEL_TURN_FRAMES,
                "source_pidfd": -1 if source_pidfd is None else source_pidfd,
                "sink_pidfd": -1 if sink_pidfd is None else sink_pidfd,
            },
        )
        if source.stats().max_frame_bytes > sink.stats().max_frame_bytes:
            raise InvalidArgument("the sink ring takes smaller frames than the source ring", field="max_frame_bytes")
        source.reader()
        sink.writer()
        self._source, self._sink = source, sink
        self._native = lib.pl_pump_new(config, source.pointer, sink.pointer)
        if self._native == ffi.NULL:
            raise OSError(ffi.errno, f"cannot make a pump: {os.strerror(ffi.errno)}")
        self._event = ffi.new("pl_pump_event *")
        self._thread: Thread | None = None
        self._rings = ExitStack()

    def start(self) -> None:
        """Start the thread, held: nothing is forwarded before `go`."""
        if self._thread is not None:
            raise Conflict("the pump was started before")
        self._rings.enter_context(self._source.held())
        self._rings.enter_context(self._sink.held())
        self._thread = Thread(target=self._run, name=f"parlora-{type(self).__name__}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._rings:
            lib.pl_pump_run(self._pointer)

    def stop(self) -> None:
        """Ask the pump to end; STOPPED is its last event. What is still in the source ring stays there."""
        lib.pl_pump_stop(self._pointer)

    def fileno(self) -> int:
        """Readable when there are events."""
        return int(lib.pl_pump_event_fd(self._pointer))

    def events(self) -> list[PumpEvent]:
        """The events since the last call, oldest first. One thread at a time."""
        pointer, raw = self._pointer, self._event
        lib.pl_event_consume(self.fileno())
        events = []
        while lib.pl_pump_next_event(pointer, raw):
            events.append(
                PumpEvent(
                    kind=_KINDS[raw.kind - 1],
                    cause=_CAUSES[raw.cause],
                    command=raw.command,
                    epoch=raw.epoch,
                    loss=Loss(raw.frames, raw.bytes, raw.duration_us),
                    at_us=raw.at_us,
                )
            )
        return events

    def health(self) -> PumpHealth:
        """The counters, from any thread at any time."""
        raw = ffi.new("pl_pump_health *")
        lib.pl_pump_get_health(self._pointer, raw)
        return PumpHealth(
            frames=raw.frames,
            bytes=raw.bytes,
            duration_us=raw.duration_us,
            last_at_us=raw.last_at_us,
            late_max_us=raw.late_max_us,
            wakes=raw.wakes,
            turns=raw.turns,
            epoch=raw.epoch,
            forwarding=bool(raw.forwarding),
            suppressed=bool(raw.suppressed),
            realtime=bool(raw.realtime),
            finished=bool(raw.finished),
        )

    def join(self, deadline_us: int) -> None:
        """Wait for the thread's end; raises `Timeout` at the deadline."""
        if self._thread is None:
            return
        self._thread.join(max(0, deadline_us - now_us()) / 1e6)
        if self._thread.is_alive():
            raise Timeout("the pump did not stop in time")

    def close(self, deadline_us: int) -> None:
        """Stop, wait and free; again is fine. Take the last events before. The rings stay the caller's."""
        if self._native is None:
            return
        self.stop()
        self.join(deadline_us)
        native, self._native = self._native, None
        lib.pl_pump_free(native)

    @property
    def _pointer(self) -> object:
        if self._native is None:
            raise Closed("the pump is closed")
        return self._native


class InputPump(Pump):
    """From the capture ring to the uplink ring, at media rate (or, with `paced=False`, as data comes).

    What a stall has piled up is forwarded at up to twice media rate, so that it does not delay the caller for good.
    """

    def __init__(
        self,
        source: Ring,
        sink: Ring,
        audio_format: AudioFormat,
        *,
        backpressure_timeout_ms: int,
        paced: bool = True,
        source_pidfd: int | None = None,
        sink_pidfd: int | None = None,
    ) -> None:
        super().__init__(
            source,
            sink,
            audio_format,
            backpressure_timeout_ms=backpressure_timeout_ms,
            paced=paced,
            catches_up=True,
            source_pidfd=source_pidfd,
            sink_pidfd=sink_pidfd,
        )

    def go(self, *, drain: bool) -> None:
        """Begin to forward. With `drain` everything captured so far is dropped first and reported by STARTED."""
        lib.pl_pump_go(self._pointer, drain)


class OutputPump(Pump):
    """From the generated ring to the playback ring, under the playback epoch."""

    def __init__(
        self,
        source: Ring,
        sink: Ring,
        audio_format: AudioFormat,
        *,
        backpressure_timeout_ms: int,
        pacing: Pacing = Pacing.PIPELINE,
        source_pidfd: int | None = None,
        sink_pidfd: int | None = None,
    ) -> None:
        super().__init__(
            source,
            sink,
            audio_format,
            backpressure_timeout_ms=backpressure_timeout_ms,
            paced=pacing is Pacing.PIPELINE,
            reports_pressure=pacing is Pacing.CHANNEL,
            source_pidfd=source_pidfd,
            sink_pidfd=sink_pidfd,
        )

    def go(self) -> None:
        """Begin to forward; nothing is dropped."""
        lib.pl_pump_go(self._pointer, False)

    def suppress(self, on: bool) -> int:
        """Throw away what arrives, or forward again; answered by SUPPRESSED or RESUMED with this number or a later."""
        return int(lib.pl_pump_suppress(self._pointer, on))

    def clear(self, epoch: int) -> None:
        """End every epoch below `epoch` in both rings, at once; answered by CLEARED with this epoch or a later.

        Nothing older is read from either ring once this has returned. If `health().epoch` is `epoch` or more already,
        no event follows.
        """
        if not 0 <= epoch <= EPOCH_MAX:
            raise InvalidArgument(f"epoch must be from 0 to {EPOCH_MAX}, got {epoch}", field="epoch")
        lib.pl_pump_clear(self._pointer, epoch)
