"""The pumps: order, bounds, pacing, clear, suppression, backpressure, startup drain, and exact accounting."""

from __future__ import annotations

import os
import random
import threading

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.audio.pump import InputPump, OutputPump, PumpCause, PumpEventKind
from parlora.audio.ring import Ring, RingSpec, Verdict, now_us
from parlora.errors import Conflict, InvalidArgument
from tests.native.pumping import FRAME_BYTES, FRAME_US, SINK, SOURCE, number_of, numbered, rig


def fill(writer: object, numbers: range) -> None:
    for number in numbers:
        assert writer.write(numbered(number), duration_us=FRAME_US) is Verdict.OK  # type: ignore[attr-defined]


def test_frames_pass_whole_in_order_with_their_headers() -> None:
    with rig() as r:
        r.pump.go()
        assert r.writer.write(numbered(0), ts_us=123, duration_us=FRAME_US, flags=7) is Verdict.OK
        ((header, data),) = r.reader.receive(9_600, now_us() + 5_000_000)
        assert (header.ts_us, header.duration_us, header.flags, data) == (123, FRAME_US, 7, numbered(0))
        fill(r.writer, range(1, 100))
        assert [number_of(data) for _, data in r.read(99)] == list(range(1, 100))
        health = r.pump.health()
        assert (health.frames, health.bytes, health.duration_us) == (100, 96_000, 100 * FRAME_US)
        assert r.stop().cause is PumpCause.ASKED


def test_a_pump_is_held_until_told_to_go() -> None:
    with rig() as r:
        fill(r.writer, range(10))
        r.pump.clear(0)
        number = r.pump.suppress(False)
        assert r.wait_for(PumpEventKind.RESUMED).command == number, "it obeys commands while held"
        assert r.sink.stats().frames_in == 0
        assert not r.pump.health().forwarding


@pytest.mark.row("SL-35", "SL-36")
def test_the_startup_drain_drops_what_piled_up_and_only_fresh_capture_follows() -> None:
    with rig(InputPump) as r:
        fill(r.writer, range(100))
        assert r.writer.write(numbered(100)) is Verdict.FULL, "held within the bound"
        r.pump.go(drain=True)
        started = r.wait_for(PumpEventKind.STARTED)
        assert started.cause is PumpCause.STARTUP
        assert started.loss == Loss(100, 96_000, 100 * FRAME_US)
        fill(r.writer, range(200, 205))
        assert [number_of(data) for _, data in r.read(5)] == [200, 201, 202, 203, 204]
        assert r.sink.stats().frames_in == 5


def test_a_go_without_drain_drops_nothing() -> None:
    with rig() as r:
        fill(r.writer, range(5))
        r.pump.go()
        assert not r.wait_for(PumpEventKind.STARTED).loss
        assert [number_of(data) for _, data in r.read(5)] == [0, 1, 2, 3, 4]


@pytest.mark.row("AU-06")
@pytest.mark.parametrize(
    ("audio_format", "frame_bytes", "frames"),
    [(AudioFormat.pcmu(), 1, 800), (AudioFormat.pcmu(), 13, 62), (AudioFormat.pcm16(), 442, 11)],
)
def test_pacing_keeps_fractions_of_a_millisecond(audio_format: AudioFormat, frame_bytes: int, frames: int) -> None:
    """100 ms of audio take 100 ms whatever the frame size: no frame is early, and nothing adds up to lateness."""
    bounds = RingSpec(max_bytes=96_000, max_age_ms=0, max_frame_bytes=4_800)
    with rig(paced=True, audio_format=audio_format, source=bounds, sink=bounds) as r:
        for _ in range(frames):
            assert r.writer.write(b"\xff" * frame_bytes) is Verdict.OK
        r.pump.go()
        started = r.wait_for(PumpEventKind.STARTED)
        headers = r.headers(frames)
        for number, header in enumerate(headers):
            due = number * frame_bytes * 1_000_000 // audio_format.bytes_per_second
            assert header.admitted_us >= started.at_us + due
        late = r.pump.health().late_max_us
        if late < 20_000:  # the machine gave us the processor
            exact = (frames - 1) * frame_bytes * 1_000_000 // audio_format.bytes_per_second
            assert headers[-1].admitted_us - headers[0].admitted_us <= exact + late + 20_000


@pytest.mark.row("AU-17")
def test_a_paced_pump_never_runs_ahead_of_media_rate() -> None:
    bounds = RingSpec(max_bytes=96_000, max_age_ms=0, max_frame_bytes=4_800)
    with rig(paced=True, source=bounds, sink=bounds) as r:
        fill(r.writer, range(100))
        r.pump.go()
        started = r.wait_for(PumpEventKind.STARTED)
        for number, header in enumerate(r.headers(10)):
            assert header.admitted_us >= started.at_us + number * FRAME_US


@pytest.mark.row("AU-07")
def test_output_is_offered_only_where_there_is_room_and_waits_in_the_source() -> None:
    with rig() as r:
        fill(r.writer, range(50))
        r.pump.go()
        r.wait_for(PumpEventKind.STARTED)
        assert [number_of(data) for _, data in r.read(50)] == list(range(50))
        stats = r.sink.stats()
        assert stats.rejected[Verdict.FULL] == Loss(), "a frame that does not fit is not even offered"


@pytest.mark.row("LM-10")
def test_sustained_backpressure_stops_the_pump_and_loses_nothing() -> None:
    with rig(backpressure_timeout_ms=50) as r:
        fill(r.writer, range(15))
        r.pump.go()
        stopped = r.wait_for(PumpEventKind.STOPPED)
        assert stopped.cause is PumpCause.BACKPRESSURE
        assert r.sink.stats().queued.frames == 10
        assert r.source.stats().queued.frames == 5
        assert not r.reported()


def test_a_sink_that_empties_in_time_is_no_backpressure() -> None:
    with rig(backpressure_timeout_ms=2_000) as r:
        fill(r.writer, range(100))
        r.pump.go()
        for expected in range(100):
            assert number_of(r.read(1)[0][1]) == expected
        assert r.stop().cause is PumpCause.ASKED


@pytest.mark.row("AU-14", "EP-03", "EP-13")
def test_a_clear_drops_what_waits_and_is_acknowledged_with_the_loss() -> None:
    with rig() as r:
        fill(r.writer, range(30))
        r.pump.go()
        r.wait_for(PumpEventKind.STARTED)
        while r.sink.stats().queued.frames < 10:
            threading.Event().wait(0.001)
        r.pump.clear(3)
        assert r.reader.read(9_600) == [], "both rings are cleared when the command returns"
        cleared = r.wait_for(PumpEventKind.CLEARED)
        assert (cleared.epoch, cleared.loss) == (3, Loss(20, 20 * FRAME_BYTES, 20 * FRAME_US))
        assert r.sink.stats().dropped == Loss(10, 10 * FRAME_BYTES, 10 * FRAME_US)
        assert r.writer.write(numbered(1), epoch=2) is Verdict.STALE_EPOCH
        fill(r.writer, range(40, 42))
        assert [(epoch, number_of(data)) for epoch, data in r.read(2)] == [(3, 40), (3, 41)]
        assert r.pump.health().epoch == 3


def test_a_repeated_clear_needs_no_second_acknowledgment_and_concurrent_ones_coalesce_upward() -> None:
    with rig() as r:
        for epoch in (1, 4, 2):
            r.pump.clear(epoch)
        while (cleared := r.wait_for(PumpEventKind.CLEARED)).epoch < 4:
            pass
        assert cleared.epoch == 4
        assert r.source.epoch == r.sink.epoch == 4
        r.pump.clear(4)
        assert r.stop().cause is PumpCause.ASKED
        assert [event.epoch for event in r.seen if event.kind is PumpEventKind.CLEARED][-1] == 4


@pytest.mark.row("EP-02")
def test_nothing_of_an_old_epoch_is_read_after_a_clear_while_frames_flow() -> None:
    with rig() as r:
        r.pump.go()
        over = threading.Event()

        def produce() -> None:
            number = 0
            while not over.is_set():
                if r.writer.write(numbered(number), duration_us=FRAME_US) is Verdict.OK:
                    number += 1
                else:
                    r.writer.wait(FRAME_BYTES, now_us() + 1_000)

        thread = threading.Thread(target=produce)
        thread.start()
        last = -1
        for epoch in range(1, 200):
            r.pump.clear(epoch)
            for header, data in r.reader.receive(9_600, now_us() + 1_000):
                assert header.epoch >= epoch
                assert number_of(data) > last
                last = number_of(data)
        over.set()
        thread.join()


@pytest.mark.row("EP-10", "EP-11")
def test_suppression_throws_away_each_poll_and_once_more_on_resume() -> None:
    with rig() as r:
        r.pump.go()
        first = r.pump.suppress(True)
        assert r.wait_for(PumpEventKind.SUPPRESSED).command == first
        fill(r.writer, range(100))
        while r.source.stats().queued.frames:
            threading.Event().wait(0.001)
        fill(r.writer, range(100, 130))
        second = r.pump.suppress(False)
        resumed = r.wait_for(PumpEventKind.RESUMED)
        assert resumed.command == second == first + 1
        assert resumed.loss == Loss(130, 130 * FRAME_BYTES, 130 * FRAME_US)
        assert r.sink.stats().frames_in == 0
        fill(r.writer, range(130, 132))
        assert [number_of(data) for _, data in r.read(2)] == [130, 131]


def test_a_stop_while_suppressed_reports_what_was_thrown_away() -> None:
    with rig() as r:
        r.pump.go()
        r.pump.suppress(True)
        r.wait_for(PumpEventKind.SUPPRESSED)
        fill(r.writer, range(7))
        while r.source.stats().queued.frames:
            threading.Event().wait(0.001)
        r.stop()
        assert [(e.cause, e.loss.frames) for e in r.seen if e.kind is PumpEventKind.DISCARDED] == [
            (PumpCause.SUPPRESSED, 7)
        ]


def test_a_finished_source_is_forwarded_to_its_end() -> None:
    with rig() as r:
        fill(r.writer, range(5))
        r.source.finish()
        r.pump.go()
        assert r.wait_for(PumpEventKind.STOPPED).cause is PumpCause.SOURCE_CLOSED
        assert len(r.read(5)) == 5


def test_a_finished_sink_stops_the_pump() -> None:
    with rig() as r:
        r.sink.finish()
        fill(r.writer, range(5))
        r.pump.go()
        assert r.wait_for(PumpEventKind.STOPPED).cause is PumpCause.SINK_CLOSED
        assert r.source.stats().queued.frames == 5


def test_a_dead_peer_is_reported_once_and_audio_goes_on() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    pidfd = os.pidfd_open(pid)
    with rig(sink_pidfd=pidfd) as r:
        assert r.wait_for(PumpEventKind.PEER_DIED).cause is PumpCause.SINK_PEER
        fill(r.writer, range(3))
        r.pump.go()
        assert len(r.read(3)) == 3
        r.stop()
        assert sum(event.kind is PumpEventKind.PEER_DIED for event in r.seen) == 1
    os.close(pidfd)
    os.waitpid(pid, 0)


def test_more_events_than_the_array_holds_are_merged_and_no_loss_is_forgotten() -> None:
    with rig() as r:
        r.pump.go()
        number = 0
        for _ in range(200):
            number = r.pump.suppress(True)
            fill(r.writer, range(2))
            number = r.pump.suppress(False)
            while r.source.stats().queued.frames:
                threading.Event().wait(0.0005)
        while max((event.command for event in r.seen), default=0) < number:  # a stop may overtake the last command
            r.seen += r.pump.events()
            threading.Event().wait(0.0005)
        r.stop()
        assert r.reported().frames + r.pump.health().frames == 400
        assert r.seen[-1].kind is PumpEventKind.STOPPED


@pytest.mark.parametrize("seed", range(4))
def test_every_frame_is_delivered_once_or_counted_in_exactly_one_report(seed: int) -> None:
    """Random writes, reads, clears and suppressions; then the books must balance to the byte and microsecond."""
    rng = random.Random(seed)
    sent, read = Loss(), Loss()
    with rig() as r:
        assert isinstance(r.pump, OutputPump)
        epoch = 0
        r.pump.go()
        for number in range(600):
            size, duration = rng.randrange(1, 1_200), rng.randrange(1, 40_000)
            if r.writer.write(numbered(number, size + 3)[:size], duration_us=duration) is Verdict.OK:
                sent += Loss(1, size, duration)
            chance = rng.random()
            if chance < 0.05:
                epoch += rng.randrange(1, 3)
                r.pump.clear(epoch)
            elif chance < 0.1:
                r.pump.suppress(rng.random() < 0.5)
            elif chance < 0.6:
                for header, _ in r.reader.read(9_600):
                    read += Loss(1, header.bytes, header.duration_us)
            elif chance < 0.63:
                r.source.clear(epoch := epoch + 1)  # by another process, behind the pump's back
        r.stop()
        health = r.pump.health()
        forwarded = Loss(health.frames, health.bytes, health.duration_us)
        assert sent == forwarded + r.reported() + r.source.stats().queued
        sink = r.sink.stats()
        assert forwarded == read + sink.queued + sink.dropped
        assert sink.rejected[Verdict.FULL] == Loss()


def test_a_pump_needs_both_roles_and_matching_bounds() -> None:
    with Ring.create(SOURCE) as source, Ring.create(SINK) as sink, Ring.create(RingSpec(960, 0, 960)) as small:
        source.reader()
        with pytest.raises(Conflict):
            OutputPump(source, sink, AudioFormat.pcm16(), backpressure_timeout_ms=500)
        with pytest.raises(InvalidArgument):
            OutputPump(sink, small, AudioFormat.pcm16(), backpressure_timeout_ms=500)
        with pytest.raises(InvalidArgument):
            OutputPump(sink, small, AudioFormat.pcm16(), backpressure_timeout_ms=0)


def test_a_ring_cannot_be_closed_under_a_running_pump() -> None:
    with rig() as r:
        with pytest.raises(Conflict):
            r.sink.close()
        r.pump.close(now_us() + 5_000_000)
        r.pump.close(now_us() + 5_000_000)
