"""The two processes that move frames: a shell around the native pump, which does all of it (design §6).

Python hears of control only: hold, drain, forward, a new epoch, suppression, backpressure, the end. No adapter code
runs here and none is called, so nothing an application does keeps a pipeline from stopping. Only a telemetry handler,
if the application has one, runs on a thread of its own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.audio.pump import InputPump, OutputPump, Pacing, Pump, PumpCause, PumpEvent, PumpEventKind
from parlora.audio.ring import Ring, RingReader
from parlora.component import Component
from parlora.contract.channel import OutputPacing
from parlora.errors import Unsupported
from parlora.session.roles import Role
from parlora.wire import from_data
from parlora_actors.audio_telemetry import listen, tell_ticks
from parlora_actors.loop import Loop
from parlora_actors.messages.pipeline import (
    FROM_PIPELINE,
    TO_PIPELINE,
    Control,
    Done,
    Drain,
    Drained,
    Lost,
    Open,
    Pressed,
    Stalled,
    Stop,
)
from parlora_actors.watched_link import WatchedLink


@dataclass(frozen=True, slots=True)
class PipelineInit:
    """What a pipeline is started with: its link, and the rings it reads and writes, as inherited descriptors."""

    role: Role
    session_id: str
    audio_format: AudioFormat
    backpressure_timeout_ms: int
    link: int
    source: tuple[int, ...]
    sink: tuple[int, ...]
    telemetry: Component | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything this process inherits."""
        return (self.link, *self.source, *self.sink)


class Pipeline:
    """One direction, on a loop. Before `Open` nothing is forwarded; a subclass says what its direction can do."""

    stream: str

    def __init__(self, init: dict[str, Any], loop: Loop) -> None:
        self._init = from_data(init, PipelineInit)
        self._loop = loop
        self._source = Ring.attach(self._init.source)
        self._sink = Ring.attach(self._init.sink)
        self._pump: Pump | None = None
        self._link = WatchedLink(
            loop, self._init.link, TO_PIPELINE, FROM_PIPELINE, self._on_message, on_end=lambda: loop.stop(0)
        )

    def open(self, pacing: OutputPacing) -> Pump:
        """Start to forward; called once."""
        raise NotImplementedError

    def drain(self) -> None:
        """Drop what piled up before `Open`, and say so."""

    def control(self, message: Control) -> None:
        """Carry a control out; `Done` follows."""
        error = Unsupported(f"the {self._init.role} takes no controls").to_data()
        self.done(message, self._sink.epoch, Loss(), error)

    def on_loss(self, event: PumpEvent) -> None:
        """A pump's report, when it discarded something or acknowledges a control."""
        if event.loss:
            self._link.send(Lost(self.stream, str(event.cause), event.loss))

    def done(self, message: Control, epoch: int, loss: Loss, error: dict[str, Any] | None = None) -> None:
        """Answer a control."""
        self._link.send(Done(message.command_id, epoch, loss, error))

    def _on_message(self, message: Drain | Open | Control | Stop) -> None:
        if isinstance(message, Drain):
            self.drain()
        elif isinstance(message, Control):
            self.control(message)
        elif isinstance(message, Stop):
            self._stop()
        elif self._pump is None:
            self._pump = self.open(message.pacing)
            self._loop.watch(self._pump.fileno(), self._take_events)
            listen(self._init.telemetry)
            who = {"session_id": self._init.session_id, "stream": self.stream}
            tell_ticks(self._loop, self._pump, self._sink, who)

    def _stop(self) -> None:
        if self._pump is None:
            self._loop.stop(0)
        else:
            self._pump.stop()

    def _take_events(self) -> None:
        assert self._pump is not None
        for event in self._pump.events():
            self.on_loss(event)
            if event.kind is PumpEventKind.STOPPED:
                self._on_stopped(event)

    def _on_stopped(self, event: PumpEvent) -> None:
        if event.cause is PumpCause.ASKED:
            self._loop.stop(0)
        elif event.cause is PumpCause.BACKPRESSURE:
            self._link.send(Stalled(event.epoch, self._init.backpressure_timeout_ms * 1_000))
        elif event.cause is PumpCause.CORRUPT:
            raise RuntimeError(f"the {self.stream} ring holds a record that is not a frame")
        # A ring that was closed ends the stream, not the process: the session decides what follows.


class InputPipeline(Pipeline):
    """From the capture ring to the uplink ring, always at media rate."""

    stream = "input"

    def __init__(self, init: dict[str, Any], loop: Loop) -> None:
        super().__init__(init, loop)
        self._input = InputPump(
            self._source,
            self._sink,
            self._init.audio_format,
            backpressure_timeout_ms=self._init.backpressure_timeout_ms,
        )

    def open(self, pacing: OutputPacing) -> Pump:
        """Forward from now on."""
        self._input.start()
        self._input.go(drain=False)
        return self._input

    def drain(self) -> None:
        """Drop what was captured so far. The pump has claimed the ring and does not run yet, so we are its reader."""
        loss = Loss() if self._pump is not None else RingReader(self._source).discard(everything=True)
        self._link.send(Drained(loss))


class OutputPipeline(Pipeline):
    """From the generated ring to the playback ring, under the playback epoch, paced as the channel asks."""

    stream = "output"

    def __init__(self, init: dict[str, Any], loop: Loop) -> None:
        super().__init__(init, loop)
        self._output: OutputPump | None = None
        self._suppressed = False
        self._clears: deque[Control] = deque()
        self._switches: deque[tuple[int, Control]] = deque()

    def open(self, pacing: OutputPacing) -> Pump:
        """Forward from now on."""
        pump = OutputPump(
            self._source,
            self._sink,
            self._init.audio_format,
            backpressure_timeout_ms=self._init.backpressure_timeout_ms,
            pacing=Pacing(str(pacing)),
        )
        pump.start()
        if self._suppressed:
            pump.suppress(True)
        pump.go()
        self._output = pump
        return pump

    def control(self, message: Control) -> None:
        """Adopt an epoch in both rings at once, or switch suppression."""
        if message.epoch is not None:
            self._clear(message, message.epoch)
        elif message.suppress is not None:
            self._suppress(message, message.suppress)

    def on_loss(self, event: PumpEvent) -> None:
        """Match acknowledgments with the controls they answer; the newest of several carries the loss."""
        if event.kind is PumpEventKind.CLEARED:
            answered = [control for control in self._clears if (control.epoch or 0) <= event.epoch]
            self._clears = deque(control for control in self._clears if control not in answered)
        elif event.kind in (PumpEventKind.SUPPRESSED, PumpEventKind.RESUMED):
            answered = [control for number, control in self._switches if number <= event.command]
            self._switches = deque(pair for pair in self._switches if pair[0] > event.command)
        else:
            answered = []
            if event.kind is PumpEventKind.PRESSED:
                self._tell_pressure(event)
        for control in answered[:-1]:
            self.done(control, event.epoch, Loss())
        if answered:
            self.done(answered[-1], event.epoch, event.loss)
        else:
            super().on_loss(event)

    def _tell_pressure(self, event: PumpEvent) -> None:
        capacity = self._source.stats().max_bytes
        threshold = min(capacity // 2, self._sink.stats().max_bytes)
        self._link.send(Pressed(event.epoch, event.command, capacity, 0, threshold))  # the pump holds no audio

    def _clear(self, message: Control, epoch: int) -> None:
        if self._output is None:
            for ring in (self._source, self._sink):
                ring.clear(epoch)
            self.done(message, self._sink.epoch, Loss())
        elif self._output.health().epoch >= epoch:  # acknowledged by an earlier clear: no event will follow
            self.done(message, self._sink.epoch, Loss())
        else:
            self._clears.append(message)
            self._output.clear(epoch)

    def _suppress(self, message: Control, on: bool) -> None:
        self._suppressed = on
        if self._output is None:
            self.done(message, self._sink.epoch, Loss())
        else:
            self._switches.append((self._output.suppress(on), message))
