"""What holds for a pump whoever keeps the time, and what only the channel's own clock changes."""

from __future__ import annotations

import pytest

from parlora.audio.port import Loss
from parlora.audio.pump import OutputPump, PumpCause, PumpEventKind
from parlora.audio.ring import RingSpec, Verdict
from tests.native.pumping import FRAME_BYTES, FRAME_US, SINK, SOURCE, fill, number_of, numbered, rig, until

ROOMY = RingSpec(max_bytes=960_000, max_age_ms=0, max_frame_bytes=4_800)
BOTH = pytest.mark.parametrize("paced", [True, False], ids=["pipeline", "channel"])


@pytest.mark.row("AU-22", "AU-23")
@BOTH
def test_both_queues_keep_their_bounds_and_a_frame_beyond_them_is_refused_and_counted(paced: bool) -> None:
    with rig(paced=paced) as r:
        r.pump.go()
        r.wait_for(PumpEventKind.STARTED)
        refused = 0
        while not (refused and r.sink.stats().queued.frames == 10):
            refused += r.writer.write(numbered(0)) is Verdict.FULL
        while r.writer.write(numbered(0)) is Verdict.OK:
            pass
        source, sink = r.source.stats(), r.sink.stats()
        assert (source.queued.bytes, sink.queued.bytes) == (SOURCE.max_bytes, SINK.max_bytes)
        assert source.rejected[Verdict.FULL].frames == refused + 1


@pytest.mark.row("AU-22", "LM-10")
@BOTH
def test_backpressure_ends_the_pump_at_its_deadline(paced: bool) -> None:
    with rig(paced=paced, backpressure_timeout_ms=50) as r:
        fill(r, range(12))
        r.pump.go()
        assert r.wait_for(PumpEventKind.STOPPED).cause is PumpCause.BACKPRESSURE
        assert (r.sink.stats().queued.frames, r.source.stats().queued.frames) == (10, 2), "it retained nothing"


@pytest.mark.row("AU-22", "EP-09")
@BOTH
def test_a_clear_drains_a_store_of_20_seconds_and_everything_on_its_way(paced: bool) -> None:
    with rig(paced=paced, source=ROOMY) as r:
        fill(r, range(1_000))
        r.pump.go()
        until("the first frame", lambda: r.sink.stats().frames_in > 0)
        r.pump.clear(1)
        cleared = r.wait_for(PumpEventKind.CLEARED)
        assert r.reader.read(SINK.max_bytes) == []
        passed = r.sink.stats()
        assert r.source.stats().queued == Loss()
        assert cleared.loss.frames + passed.dropped.frames == 1_000
        assert cleared.loss.duration_us + passed.dropped.duration_us == 1_000 * FRAME_US
        fill(r, range(1_000, 1_001))
        assert r.read(1) == [(1, numbered(1_000))]


@pytest.mark.row("AU-22", "EP-10", "EP-11")
@BOTH
def test_suppression_discards_and_drains_again_on_resume(paced: bool) -> None:
    with rig(paced=paced) as r:
        r.pump.go()
        r.pump.suppress(True)
        r.wait_for(PumpEventKind.SUPPRESSED)
        fill(r, range(40))
        r.pump.suppress(False)
        assert r.wait_for(PumpEventKind.RESUMED).loss == Loss(40, 40 * FRAME_BYTES, 40 * FRAME_US)
        fill(r, range(40, 42))
        assert [number_of(data) for _, data in r.read(2)] == [40, 41]


@pytest.mark.row("AU-18", "AU-19", "LM-24")
def test_a_received_packet_goes_to_a_channel_with_its_own_clock_at_once_in_turns_of_20_frames() -> None:
    with rig(sink=ROOMY) as r:
        taken, verdict = r.writer.write_packet(bytes(100 * FRAME_BYTES), FRAME_BYTES, frame_us=FRAME_US)
        assert (taken, verdict) == (100, Verdict.OK)
        before = r.pump.health().wakes
        r.pump.go()
        headers = r.headers(100)
        until("the end of the turn", lambda: r.pump.health().frames == 100)
        health = r.pump.health()
        assert health.turns >= 5, "a turn moves 20 frames at most, and yields"
        assert health.wakes - before <= 2, "one wake to begin, none between the fragments"
        took = headers[-1].admitted_us - headers[0].admitted_us
        assert took < 100 * FRAME_US // 4, "two seconds of audio, far faster than media rate"


@pytest.mark.row("AU-19")
def test_a_turn_ends_when_the_source_is_empty_or_the_channel_full_and_goes_on_with_the_next_hint() -> None:
    with rig() as r:
        r.pump.go()
        r.wait_for(PumpEventKind.STARTED)
        fill(r, range(15))
        until("a full sink", lambda: r.sink.stats().queued.frames == 10)
        assert r.source.stats().queued.frames == 5, "backpressure ends the turn; the rest waits under its own bound"
        assert [number_of(data) for _, data in r.read(15)] == list(range(15))


@pytest.mark.row("AU-16")
def test_a_larger_store_adds_no_wait_before_the_first_frame() -> None:
    for source in (SOURCE, ROOMY):
        with rig(OutputPump, paced=True, source=source) as r:
            r.pump.go()
            fill(r, range(1))
            assert r.read(1) == [(0, numbered(0))], "with nothing behind it"


@pytest.mark.row("AU-11")
def test_one_bounded_read_may_take_everything_that_a_provider_has_stored() -> None:
    with rig(source=ROOMY, sink=ROOMY) as r:
        fill(r, range(1_000))
        r.pump.go()
        until("everything", lambda: r.sink.stats().queued.frames == 1_000)
        frames = r.reader.read(ROOMY.max_bytes, max_frames=1_000)
        assert [number_of(data) for _, data in frames] == list(range(1_000))
