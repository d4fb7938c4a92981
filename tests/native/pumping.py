"""Help for pump tests: rings, a pump that always ends, and waiting for its events."""

from __future__ import annotations

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.audio.pump import InputPump, OutputPump, Pacing, Pump, PumpEvent, PumpEventKind
from parlora.audio.ring import FrameHeader, Ring, RingReader, RingSpec, RingWriter, Verdict, now_us

PATIENCE_US = 10_000_000
FRAME_BYTES = 960
FRAME_US = 20_000
SOURCE = RingSpec(max_bytes=96_000, max_age_ms=0, max_frame_bytes=4_800)
SINK = RingSpec(max_bytes=9_600, max_age_ms=0, max_frame_bytes=4_800)


@dataclass
class Rig:
    """One pump between two rings, with this process at both far ends."""

    source: Ring
    sink: Ring
    writer: RingWriter
    reader: RingReader
    pump: Pump
    seen: list[PumpEvent] = field(default_factory=list)
    waited_for: int = 0

    def wait_for(self, kind: PumpEventKind) -> PumpEvent:
        """The next event of `kind` after the one last waited for; all are kept in `seen`."""
        deadline = now_us() + PATIENCE_US
        while True:
            self.seen += self.pump.events()
            for index in range(self.waited_for, len(self.seen)):
                if self.seen[index].kind is kind:
                    self.waited_for = index + 1
                    return self.seen[index]
            left = deadline - now_us()
            assert left > 0, f"no {kind} within {PATIENCE_US} us; seen: {self.seen}"
            select.select([self.pump], [], [], left / 1e6)

    def frames(self, count: int) -> list[tuple[FrameHeader, bytes]]:
        """`count` frames, waited for."""
        deadline = now_us() + PATIENCE_US
        got: list[tuple[FrameHeader, bytes]] = []
        while len(got) < count:
            frames = self.reader.receive(SINK.max_bytes, deadline, max_frames=min(64, count - len(got)))
            assert frames, f"{len(got)} of {count} frames within {PATIENCE_US} us"
            got += frames
        return got

    def read(self, count: int) -> list[tuple[int, bytes]]:
        """`count` frames as (epoch, data)."""
        return [(header.epoch, data) for header, data in self.frames(count)]

    def headers(self, count: int) -> list[FrameHeader]:
        return [header for header, _ in self.frames(count)]

    def stop(self) -> PumpEvent:
        self.pump.stop()
        return self.wait_for(PumpEventKind.STOPPED)

    def reported(self) -> Loss:
        """Everything that the events seen so far report as discarded."""
        return sum((event.loss for event in self.seen), Loss())


@contextmanager
def rig(
    kind: type[Pump] = OutputPump,
    *,
    paced: bool = False,
    audio_format: AudioFormat | None = None,
    source: RingSpec = SOURCE,
    sink: RingSpec = SINK,
    backpressure_timeout_ms: int = 5_000,
    sink_pidfd: int | None = None,
) -> Iterator[Rig]:
    with ExitStack() as stack:
        rings = [stack.enter_context(Ring.create(spec)) for spec in (source, sink)]
        options = {"backpressure_timeout_ms": backpressure_timeout_ms, "sink_pidfd": sink_pidfd}
        pump: Pump
        if kind is OutputPump:
            pacing = Pacing.PIPELINE if paced else Pacing.CHANNEL
            pump = OutputPump(*rings, audio_format or AudioFormat.pcm16(), pacing=pacing, **options)  # type: ignore[arg-type]
        else:
            pump = InputPump(*rings, audio_format or AudioFormat.pcm16(), paced=paced, **options)  # type: ignore[arg-type]
        made = Rig(rings[0], rings[1], rings[0].writer(), rings[1].reader(), pump)
        pump.start()
        try:
            yield made
        finally:
            pump.close(now_us() + PATIENCE_US)


def fill(r: Rig, numbers: range) -> None:
    """Write frames that all fit."""
    for number in numbers:
        assert r.writer.write(numbered(number), duration_us=FRAME_US) is Verdict.OK


def until(what: str, look: Callable[[], bool]) -> None:
    """Wait until `look` is true."""
    deadline = now_us() + PATIENCE_US
    while not look():
        assert now_us() < deadline, f"waited {PATIENCE_US} us for {what}"
        threading.Event().wait(0.001)


def numbered(number: int, size: int = FRAME_BYTES) -> bytes:
    return number.to_bytes(4) * (size // 4)


def number_of(data: bytes) -> int:
    return int.from_bytes(data[:4])
