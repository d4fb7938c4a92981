"""Exact books: every frame that entered is delivered once, in order, in its epoch, or counted in exactly one report."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.audio.pump import InputPump, OutputPump, Pacing, Pump, PumpCause, PumpEvent, PumpEventKind
from parlora.audio.ring import Ring, RingReader, RingSpec, RingWriter, Verdict, now_us
from tests.audio.adapters import ADAPTERS, FRAME_BYTES, FRAME_US, HEAD, taken
from tests.audio.books import told_as_dropped
from tests.sessions import Call, wait_for

Start = Callable[..., Call]

TEN_MINUTES = 30_000
"""Frames of 20 ms."""

QUEUE = RingSpec(9_600, 0, 4_800)
STORE = RingSpec(96_000, 0, 4_800)
EXPLAINED = {
    PumpEventKind.CLEARED: {PumpCause.NONE},
    PumpEventKind.RESUMED: {PumpCause.NONE},
    PumpEventKind.DISCARDED: {PumpCause.STALE_EPOCH, PumpCause.SUPPRESSED},
}
"""What may report a loss, and why."""


class Way:
    """One direction at full speed: a ring, a pump, a ring, and both far ends in this process."""

    def __init__(self, kind: type[Pump], source: RingSpec, rng: random.Random) -> None:
        self.rng = rng
        self.rings = [Ring.create(source), Ring.create(QUEUE)]
        self.pump = (
            OutputPump(*self.rings, AudioFormat.pcm16(), backpressure_timeout_ms=60_000, pacing=Pacing.CHANNEL)
            if kind is OutputPump
            else InputPump(*self.rings, AudioFormat.pcm16(), backpressure_timeout_ms=60_000, paced=False)
        )
        self.writer: RingWriter = self.rings[0].writer()
        self.reader: RingReader = self.rings[1].reader()
        self.events: list[PumpEvent] = []
        self.entered, self.heard = Loss(), Loss()
        self.numbers: list[int] = []
        self.offered = self.epoch = 0
        self.pump.start()

    def offer(self, frames: int) -> None:
        """A burst; what does not fit was never admitted, and the writer is told."""
        for _ in range(frames):
            size = FRAME_BYTES if self.rng.random() < 0.9 else 2 * self.rng.randrange(4, 2_400)
            duration = size * 1_000_000 // 48_000
            data = HEAD.pack(self.offered, self.epoch) + bytes(size - HEAD.size)
            if self.writer.write(data, epoch=self.epoch, duration_us=duration) is Verdict.OK:
                self.entered += Loss(1, size, duration)
                self.offered += 1

    def take(self, frames: int) -> None:
        for header, data in self.reader.read(QUEUE.max_bytes, max_frames=frames):
            number, epoch = HEAD.unpack_from(data)
            assert epoch == header.epoch == self.epoch, "in the epoch it was made for, which is the current one"
            self.numbers.append(number)
            self.heard += Loss(1, header.bytes, header.duration_us)

    def step(self) -> None:
        """Something that happens in a call."""
        chance = self.rng.random()
        if chance < 0.45:
            self.offer(self.rng.choice((1, 1, 2, 5, 25, 120)))
        elif chance < 0.9:
            self.take(self.rng.choice((1, 5, 64)))
        elif chance < 0.93 and isinstance(self.pump, OutputPump):
            self.epoch += self.rng.randrange(1, 3)
            self.pump.clear(self.epoch)
        elif chance < 0.96 and isinstance(self.pump, OutputPump):
            self.pump.suppress(self.rng.random() < 0.4)
        elif chance < 0.98:
            self.epoch += 1
            for ring in self.rings:
                ring.clear(self.epoch)  # by an owner, before the pump hears of it
        else:
            time.sleep(self.rng.random() * 0.003)  # a stall: the rest of the call piles up
        self.events += self.pump.events()

    def settle(self) -> None:
        """The end: everything is at rest."""
        self.pump.stop()
        self.pump.join(now_us() + 10_000_000)
        self.events += self.pump.events()

    def close(self) -> None:
        self.pump.close(now_us() + 10_000_000)
        for ring in self.rings:
            ring.close()


@pytest.mark.row("AU-13", "AU-23", "PR-30")
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", [InputPump, OutputPump])
def test_ten_minutes_of_trouble_balance_to_the_byte_and_microsecond(kind: type[Pump], seed: int) -> None:
    way = Way(kind, QUEUE if kind is InputPump else STORE, random.Random(seed))
    try:
        if isinstance(way.pump, OutputPump):
            way.pump.go()
        else:
            way.pump.go(drain=False)
        while way.offered < TEN_MINUTES:
            way.step()
        way.settle()
        reported = sum((event.loss for event in way.events), Loss())
        source, sink = (ring.stats() for ring in way.rings)
        passed = way.pump.health()
        assert way.entered == Loss(passed.frames, passed.bytes, passed.duration_us) + reported + source.queued
        assert Loss(sink.frames_in, sink.bytes_in, sink.duration_in_us) == way.heard + sink.dropped + sink.queued
        assert way.entered == way.heard + reported + source.queued + sink.dropped + sink.queued
        assert way.numbers == sorted(set(way.numbers)), "once, and in order"
        for event in way.events:
            assert not event.loss or event.cause in EXPLAINED[event.kind]
        assert sink.rejected[Verdict.FULL] == Loss()
        assert way.heard.frames > 1_000
        assert reported.frames > 1_000 or kind is InputPump
    finally:
        way.close()


@pytest.mark.row("AU-13", "EP-09")
@pytest.mark.parametrize(("end", "seconds"), [("close", 10), ("crash", 5)])
def test_seconds_of_clears_and_stalls_on_a_real_session_leave_no_frame_unaccounted_for(
    call: Start, tmp_path: Path, end: str, seconds: int
) -> None:
    path = tmp_path / "taken"
    session = call(
        channel=(f"{ADAPTERS}:NotingChannel", {"path": str(path), "pacing": "channel"}),
        provider=(f"{ADAPTERS}:NumberingProvider", {"count": str(tmp_path / "count")}),
    ).ready()
    wait_for("audio", lambda: path.exists() and taken(path))
    rng = random.Random(end)
    over = time.monotonic() + seconds
    number = 0
    while time.monotonic() < over:
        number += 1
        chance = rng.random()
        if chance < 0.5:
            session.session.control(("clear_output", "next"), f"control-{number}")
        elif chance < 0.7:
            session.session.control(("suppress_output", rng.random() < 0.5), f"control-{number}")
        else:
            victim = session.pid(rng.choice(("channel", "output_pipeline", "provider")))
            os.kill(victim, signal.SIGSTOP)
            threading.Event().wait(rng.random() * 0.25)
            os.kill(victim, signal.SIGCONT)
        threading.Event().wait(rng.random() * 0.1)
    if end == "close":
        session.end()
    else:
        os.kill(session.pid("provider"), signal.SIGKILL)
        session.closed()
    frames = taken(path)
    numbers = [each.number for each in frames]
    assert numbers == sorted(set(numbers)), "once, and in order"
    assert [each.epoch for each in frames] == sorted(each.epoch for each in frames)
    written, _ = HEAD.unpack((tmp_path / "count").read_bytes())
    dropped, size, duration = told_as_dropped(session)
    unknown = len(frames) + dropped - written
    assert unknown in ((0, 1) if end == "crash" else (0,)), "a killed provider may not have counted its last frame"
    assert (size, duration) == (dropped * FRAME_BYTES, dropped * FRAME_US)
