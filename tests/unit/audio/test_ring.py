"""The ring's Python face, in one process and across a fork."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from parlora.audio.port import Loss
from parlora.audio.ring import Ring, RingReader, RingSpec, RingWriter, Verdict, now_us
from parlora.errors import Closed, InvalidArgument

SPEC = RingSpec(max_bytes=9_600, max_age_ms=0, max_frame_bytes=4_800)
FRAME = b"\x01\x02" * 480


@pytest.fixture
def ring() -> Iterator[Ring]:
    with Ring.create(SPEC) as made:
        yield made


@pytest.mark.row("EP-01")
def test_a_new_ring_is_at_epoch_0_and_stamps_frames_with_it(ring: Ring) -> None:
    ring.writer().write(FRAME)
    assert ring.epoch == 0
    assert ring.reader().read(9_600)[0][0].epoch == 0


def test_a_frame_comes_out_with_what_it_went_in_with(ring: Ring) -> None:
    before = now_us()
    assert ring.writer().write(FRAME, epoch=0, ts_us=77, duration_us=20_000, flags=5) is Verdict.OK
    ((header, data),) = ring.reader().read(9_600)
    assert data == FRAME
    assert (header.bytes, header.sequence, header.ts_us, header.duration_us, header.flags) == (960, 0, 77, 20_000, 5)
    assert before <= header.admitted_us <= now_us()


@pytest.mark.row("AU-09", "SL-17")
def test_the_byte_bound_is_exact_and_a_frame_over_it_is_refused_whole_and_counted(ring: Ring) -> None:
    writer = ring.writer()
    assert [writer.write(FRAME) for _ in range(10)] == [Verdict.OK] * 10
    assert writer.write(b"\0") is Verdict.FULL
    assert writer.write(FRAME) is Verdict.FULL
    stats = ring.stats()
    assert stats.queued.bytes == 9_600
    assert stats.rejected[Verdict.FULL] == Loss(2, 961)
    assert sum(header.bytes for header, _ in ring.reader().read(9_600)) == 9_600


@pytest.mark.row("AU-03")
def test_any_byte_count_is_a_legal_frame(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    for size in (1, 3, 159, 160, 161, 4_799):
        assert writer.write(b"\xff" * size, duration_us=size * 125) is Verdict.OK
        ((header, data),) = reader.read(4_800)
        assert (len(data), header.duration_us) == (size, size * 125)


@pytest.mark.row("AU-08")
def test_a_read_that_cannot_hold_one_allowed_frame_is_an_invalid_argument(ring: Ring) -> None:
    reader = ring.reader()
    with pytest.raises(InvalidArgument, match="4800") as caught:
        reader.read(4_799)
    assert caught.value.details["field"] == "max_bytes"
    assert reader.read(4_800) == []


@pytest.mark.row("AU-07")
def test_a_read_returns_whole_frames_within_its_bound_in_order(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    for number in range(9):
        writer.write(bytes([number]) * 1_000)
    assert [data[0] for _, data in reader.read(4_800)] == [0, 1, 2, 3]
    assert [data[0] for _, data in reader.read(9_600, max_frames=2)] == [4, 5]


def test_an_empty_or_oversized_frame_is_refused(ring: Ring) -> None:
    writer = ring.writer()
    assert writer.write(b"") is Verdict.TOO_BIG
    assert writer.write(b"\0" * 4_801) is Verdict.TOO_BIG
    assert ring.stats().rejected[Verdict.TOO_BIG] == Loss(2, 4_801)


def test_a_frame_that_waited_longer_than_the_age_bound_stops_admission() -> None:
    from parlora._native import lib

    with Ring.create(RingSpec(9_600, 100, 960)) as ring:
        writer, reader = ring.writer(), ring.reader()
        lib.pl_ring_set_clock(ring.pointer, 1_000_000)
        assert writer.write(FRAME) is Verdict.OK
        lib.pl_ring_set_clock(ring.pointer, 1_100_000)
        assert writer.write(FRAME) is Verdict.OK
        lib.pl_ring_set_clock(ring.pointer, 1_100_001)
        assert writer.write(FRAME) is Verdict.TOO_OLD
        assert not writer.arm(960)
        reader.read(9_600, max_frames=1)
        assert writer.write(FRAME) is Verdict.OK


def test_a_packet_is_cut_into_frames_with_their_own_times(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    assert writer.write_packet(b"\0" * 2_000, 960, ts_us=1_000, frame_us=20_000) == (3, Verdict.OK)
    headers = [header for header, _ in reader.read(9_600)]
    assert [(h.bytes, h.ts_us, h.duration_us) for h in headers] == [
        (960, 1_000, 20_000),
        (960, 21_000, 20_000),
        (80, 41_000, 1_666),
    ]


def test_a_packet_that_does_not_fit_is_taken_frame_by_frame_or_not_at_all(ring: Ring) -> None:
    writer = ring.writer()
    writer.write(b"\0" * 1_000)
    assert writer.write_packet(b"\0" * 9_000, 960, whole=True) == (0, Verdict.FULL)
    assert ring.stats().rejected[Verdict.FULL] == Loss(10, 9_000)
    assert writer.write_packet(b"\0" * 9_000, 960) == (8, Verdict.FULL)
    assert ring.stats().queued.frames == 9


def test_a_clear_drops_what_is_older_and_refuses_what_comes_late(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    for _ in range(3):
        writer.write(FRAME, duration_us=20_000)
    assert reader.clear(2) == Loss(3, 2_880, 60_000)
    assert ring.clear(1) == 2
    assert writer.write(FRAME, epoch=1) is Verdict.STALE_EPOCH
    assert writer.write(FRAME) is Verdict.OK
    assert [header.epoch for header, _ in reader.read(9_600)] == [2]
    assert ring.stats().dropped == Loss(3, 2_880, 60_000)


def test_a_frame_under_the_reader_is_not_delivered_after_a_clear(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    writer.write(FRAME, epoch=0)
    writer.write(FRAME, epoch=7)
    ring.clear(5)
    assert [header.epoch for header, _ in reader.read(9_600)] == [7]


def test_a_finished_ring_is_read_to_its_end_and_takes_nothing_more(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    writer.write(FRAME)
    ring.finish()
    assert writer.write(FRAME) is Verdict.CLOSED
    assert len(reader.read(9_600)) == 1
    with pytest.raises(Closed):
        reader.read(9_600)


def test_arming_fires_once_for_data_and_for_space(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    assert not reader.arm()
    assert not select.select([reader], [], [], 0)[0]
    writer.write(FRAME)
    writer.write(FRAME)
    assert select.select([reader], [], [], 0)[0]
    reader.consume_event()
    assert ring.stats().wakes == 1
    while writer.write(FRAME) is Verdict.OK:
        pass
    assert not writer.arm(1_920)
    reader.read(4_800, max_frames=1)
    assert not select.select([writer], [], [], 0)[0], "960 bytes are free, 1,920 were asked for"
    reader.read(4_800, max_frames=1)
    assert select.select([writer], [], [], 0)[0]


def test_a_wait_ends_at_its_deadline(ring: Ring) -> None:
    reader = ring.reader()
    assert reader.wait(now_us() + 2_000) is Verdict.TIMED_OUT
    assert reader.receive(9_600, now_us() + 2_000) == []


def test_memory_that_is_no_ring_is_refused_and_stays_the_callers() -> None:
    memory = os.memfd_create("other")
    os.ftruncate(memory, 8_192)
    with pytest.raises(InvalidArgument, match="not a ring"):
        Ring.attach((memory, memory, memory))
    os.fstat(memory)
    os.close(memory)
    with pytest.raises(InvalidArgument):
        Ring.attach((memory, memory, memory))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (RingSpec(0, 0, 1), "max_bytes"),
        (RingSpec(100, -1, 1), "max_age_ms"),
        (RingSpec(100, 0, 101), "max_frame_bytes"),
        (RingSpec(100, 0, True), "max_frame_bytes"),
    ],
)
def test_bounds_out_of_range_are_named(spec: RingSpec, field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Ring.create(spec)
    assert caught.value.details["field"] == field


def test_a_role_view_takes_buffers_of_any_kind(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    assert isinstance(writer, RingWriter)
    assert isinstance(reader, RingReader)
    for data in (FRAME, bytearray(FRAME), memoryview(FRAME)):
        assert writer.write(data) is Verdict.OK
        assert reader.read(9_600)[0][1] == FRAME


def test_frames_that_follow_each_other_are_read_as_one_packet(ring: Ring) -> None:
    writer, reader = ring.writer(), ring.reader()
    assert reader.read_packet(4_800) is None
    writer.write_packet(b"a" * 960 + b"b" * 500, 960, ts_us=1_000, frame_us=20_000)
    writer.write(b"c" * 960, epoch=3)
    writer.write(b"d" * 960, epoch=3, flags=1)
    header, frames, data = reader.read_packet(9_600) or pytest.fail("nothing")
    assert (frames, data) == (2, b"a" * 960 + b"b" * 500)
    assert (header.bytes, header.sequence, header.epoch, header.ts_us, header.duration_us) == (
        1_460,
        0,
        0,
        1_000,
        30_416,
    )
    assert (reader.read_packet(9_600) or pytest.fail("nothing"))[2] == b"c" * 960, "another flags word starts anew"
    ring.clear(4)
    assert reader.read_packet(9_600) is None
    assert ring.stats().dropped.frames == 1
    with pytest.raises(InvalidArgument):
        reader.read_packet(4_799)
    for _ in range(10):
        writer.write(FRAME)
    assert (reader.read_packet(4_800) or pytest.fail("nothing"))[1] == 5
    ring.finish()
    assert (reader.read_packet(9_600) or pytest.fail("nothing"))[1] == 5
    with pytest.raises(Closed):
        reader.read_packet(9_600)


@pytest.mark.parametrize("wrong", [-1, 2**64, "1", None])
def test_numbers_out_of_range_are_errors_and_write_nothing(ring: Ring, wrong: object) -> None:
    writer = ring.writer()
    with pytest.raises((OverflowError, TypeError)):
        writer.write(FRAME, ts_us=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        writer.write("text")  # type: ignore[arg-type]
    assert ring.stats().frames_in == 0
