"""Readiness hints: an armed ring wakes its waiter once and promptly; a hint that is lost, stale or false does no harm.

`parlora_audio_ready` and `parlora_output_space` of the contract are the rings' data and space events.
"""

from __future__ import annotations

import os
import select
import threading
from contextlib import ExitStack

import pytest

from parlora.audio import pump as pump_module
from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.audio.pump import OutputPump, Pacing, PumpCause, PumpEventKind
from parlora.audio.ring import Ring, Verdict, now_us
from tests.native.pumping import FRAME_BYTES, PATIENCE_US, SINK, SOURCE, fill, number_of, numbered, rig, until


def is_readable(fd: int, timeout_s: float = 0.0) -> bool:
    return bool(select.select([fd], [], [], timeout_s)[0])


def poke(fd: int) -> None:
    os.write(fd, (1).to_bytes(8, "little"))


@pytest.fixture
def hints_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pumps that never poll: what no hint wakes stays asleep, and the test fails."""
    monkeypatch.setattr(pump_module, "PUMP_POLL_MS", 3_600_000)


@pytest.mark.row("AU-20", "PR-17", "PR-32")
@pytest.mark.usefixtures("hints_only")
def test_every_frame_after_an_empty_read_wakes_a_pump_that_does_not_poll() -> None:
    with rig() as r:
        r.pump.go()
        for number in range(200):
            fill(r, range(number, number + 1))
            assert number_of(r.read(1)[0][1]) == number


@pytest.mark.row("AU-20", "PR-26")
@pytest.mark.usefixtures("hints_only")
def test_room_in_the_channel_wakes_a_pump_that_does_not_poll_and_it_retries_what_it_retained() -> None:
    with rig(backpressure_timeout_ms=3_600_000) as r:
        r.pump.go()
        fill(r, range(100))
        for number in range(100):
            assert number_of(r.read(1)[0][1]) == number


@pytest.mark.row("AU-20")
def test_a_lost_hint_is_made_good_by_polling() -> None:
    """The writer wakes another descriptor than the pump sleeps on, so that no hint ever arrives."""
    with ExitStack() as stack:
        source, sink = (stack.enter_context(Ring.create(spec)) for spec in (SOURCE, SINK))
        numbers = [os.dup(number) for number in source.descriptors()]
        os.close(numbers[1])
        numbers[1] = os.eventfd(0)
        elsewhere = stack.enter_context(Ring.attach(numbers))
        pump = OutputPump(source, sink, AudioFormat.pcm16(), backpressure_timeout_ms=5_000, pacing=Pacing.CHANNEL)
        writer, reader = elsewhere.writer(), sink.reader()
        pump.start()
        stack.callback(pump.close, now_us() + PATIENCE_US)
        pump.go()
        for number in range(3):
            assert writer.write(numbered(number)) is Verdict.OK
            ((_, data),) = reader.receive(SINK.max_bytes, now_us() + PATIENCE_US, max_frames=1)
            assert number_of(data) == number


@pytest.mark.row("PR-14", "PR-15", "PR-16")
def test_arming_for_audio_gives_one_notification_for_what_comes_and_says_at_once_what_is_there() -> None:
    with Ring.create(SOURCE) as ring:
        writer, reader = ring.writer(), ring.reader()
        assert not reader.arm()
        assert not reader.arm(), "a new arm takes the place of the one before"
        assert not is_readable(reader.fileno())
        writer.write(numbered(0))
        assert is_readable(reader.fileno())
        reader.consume_event()
        writer.write(numbered(1))
        assert not is_readable(reader.fileno()), "one arm, one notification"
        assert reader.arm(), "audio that is queued already needs no wait"
        assert len(reader.read(SOURCE.max_bytes)) == 2
        assert not reader.arm()
        ring.finish()
        assert is_readable(reader.fileno()), "the end is told too"


@pytest.mark.row("PR-21", "PR-22", "PR-23")
def test_arming_for_room_gives_one_notification_when_that_much_fits_and_says_at_once_what_fits() -> None:
    with Ring.create(SINK) as ring:
        writer, reader = ring.writer(), ring.reader()
        assert writer.arm(SINK.max_frame_bytes), "room that is there needs no wait"
        for number in range(10):
            writer.write(numbered(number))
        assert not writer.arm(FRAME_BYTES)
        assert not writer.arm(2 * FRAME_BYTES), "a new waiter takes the place of the one before"
        reader.read(4_800, max_frames=1)
        assert not is_readable(writer.fileno()), "less than it waits for"
        reader.read(4_800, max_frames=1)
        assert is_readable(writer.fileno())
        writer.consume_event()
        reader.read(4_800, max_frames=1)
        assert not is_readable(writer.fileno()), "one arm, one notification"


@pytest.mark.row("PR-18", "PR-27", "PR-29")
def test_false_hints_change_neither_order_nor_bounds_nor_what_is_delivered() -> None:
    with rig() as r:
        r.pump.go()
        over = threading.Event()
        events = (r.source.descriptors().data_event, r.sink.descriptors().space_event)

        def hint() -> None:
            while not over.wait(0.0005):
                for fd in events:
                    poke(fd)

        thread = threading.Thread(target=hint)
        thread.start()
        try:
            for first in range(0, 500, 50):
                fill(r, range(first, first + 50))
                until("a full sink", lambda: r.sink.stats().queued.frames == 10)
                assert r.sink.stats().queued.bytes == SINK.max_bytes
                assert [number_of(data) for _, data in r.read(50)] == list(range(first, first + 50))
        finally:
            over.set()
            thread.join()
        assert r.sink.stats().rejected[Verdict.FULL] == Loss(), "a hint is no reason to offer what does not fit"


@pytest.mark.row("EP-14", "PR-23", "PR-27")
def test_a_hint_for_what_a_clear_or_suppression_ended_forwards_nothing() -> None:
    with rig() as r:
        fill(r, range(30))
        r.pump.go()
        until("a full sink", lambda: r.sink.stats().queued.frames == 10)
        r.pump.clear(1)
        r.wait_for(PumpEventKind.CLEARED)
        assert r.reader.read(SINK.max_bytes) == [], "the room that this makes was armed for by audio that is gone"
        fill(r, range(30, 60))
        until("a full sink", lambda: r.sink.stats().queued.frames == 10)
        r.pump.suppress(True)
        r.wait_for(PumpEventKind.SUPPRESSED)
        assert [number_of(data) for _, data in r.read(10)] == list(range(30, 40))
        poke(r.sink.descriptors().space_event)
        r.pump.suppress(False)
        assert r.wait_for(PumpEventKind.RESUMED).loss.frames == 20
        assert r.reader.read(SINK.max_bytes) == []


@pytest.mark.row("PR-28")
@pytest.mark.parametrize("voided_by", ["a transfer", "a clear"])
def test_a_blockage_is_measured_anew_after(voided_by: str) -> None:
    """Three times two thirds of the deadline: without a new start the second would end the pump."""
    deadline_ms = 1_200
    with rig(backpressure_timeout_ms=deadline_ms) as r:
        r.pump.go()
        for epoch in range(1, 4):
            fill(r, range(30))
            until("a full sink", lambda: r.sink.stats().queued.frames == 10)
            threading.Event().wait(deadline_ms * 2 / 3 / 1_000)
            if voided_by == "a clear":
                r.pump.clear(epoch)
                r.wait_for(PumpEventKind.CLEARED)
                assert r.reader.read(SINK.max_bytes) == []
            else:
                r.read(30)
        assert r.stop().cause is PumpCause.ASKED
