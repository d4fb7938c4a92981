"""Recovery pressure: a pump tells, once, that a channel with its own clock takes nothing while audio piles up."""

from __future__ import annotations

import pytest

from parlora.audio.port import Loss
from parlora.audio.pump import InputPump, OutputPump, Pump, PumpCause, PumpEventKind
from tests.native.pumping import FRAME_BYTES, SINK, SOURCE, fill, number_of, rig, until

THRESHOLD = SINK.max_bytes // FRAME_BYTES
"""All that the sink may hold, which is less than half of what the source may."""


@pytest.mark.row("PR-05", "PR-06", "PR-30")
def test_pressure_is_told_once_a_blockage_when_as_much_waits_as_the_channel_may_hold() -> None:
    with rig() as r:
        r.pump.go()
        for epoch in range(2):
            fill(r, range(10 + THRESHOLD))
            pressed = r.wait_for(PumpEventKind.PRESSED)
            assert (pressed.command, pressed.epoch, pressed.loss) == (THRESHOLD * FRAME_BYTES, epoch, Loss())
            assert [number_of(data) for _, data in r.read(10 + THRESHOLD)] == list(range(10 + THRESHOLD)), "all kept"
            r.pump.clear(epoch + 1)
            r.wait_for(PumpEventKind.CLEARED)
        r.stop()
        assert sum(event.kind is PumpEventKind.PRESSED for event in r.seen) == 2


@pytest.mark.row("PR-06", "PR-31")
def test_below_the_threshold_nothing_is_told_and_the_backpressure_deadline_ends_it_either_way() -> None:
    for waiting in (THRESHOLD - 1, THRESHOLD):
        with rig(backpressure_timeout_ms=300) as r:
            fill(r, range(10 + waiting))
            r.pump.go()
            assert r.wait_for(PumpEventKind.STOPPED).cause is PumpCause.BACKPRESSURE
            told = any(event.kind is PumpEventKind.PRESSED for event in r.seen)
            assert told == (waiting == THRESHOLD)
            assert r.source.stats().queued.frames == waiting, "nothing is dropped"


@pytest.mark.row("PR-10")
@pytest.mark.parametrize(("kind", "paced"), [(OutputPump, True), (InputPump, True), (InputPump, False)])
def test_pipeline_paced_and_input_pumps_know_no_pressure(kind: type[Pump], paced: bool) -> None:
    with rig(kind, paced=paced, source=SOURCE, backpressure_timeout_ms=300) as r:
        fill(r, range(60))
        if isinstance(r.pump, InputPump):
            r.pump.go(drain=False)
        else:
            assert isinstance(r.pump, OutputPump)
            r.pump.go()
        until("the end", lambda: r.pump.health().finished)
        assert r.wait_for(PumpEventKind.STOPPED).cause is PumpCause.BACKPRESSURE
        assert not any(event.kind is PumpEventKind.PRESSED for event in r.seen)
