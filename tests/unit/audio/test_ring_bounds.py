"""A producer that learns its real bounds after the ring was made tightens them."""

import pytest

from parlora.audio.ring import Ring, RingSpec, Verdict
from parlora.errors import InvalidArgument

FRAME = bytes(100)


def test_tightened_bounds_hold_from_the_next_frame_on() -> None:
    with Ring.create(RingSpec(1_000, 0, 100)) as ring:
        writer, reader = ring.writer(), ring.reader()
        writer.set_bounds(300, 0)
        assert [writer.write(FRAME) for _ in range(4)] == [Verdict.OK, Verdict.OK, Verdict.OK, Verdict.FULL]
        reader.read(100)
        assert writer.write(FRAME) is Verdict.OK
        assert ring.stats().max_bytes == 300


def test_a_waiting_producer_is_woken_by_the_tightened_bound() -> None:
    with Ring.create(RingSpec(1_000, 0, 100)) as ring:
        writer, reader = ring.writer(), ring.reader()
        writer.set_bounds(200, 0)
        writer.write(FRAME)
        writer.write(FRAME)
        assert not writer.arm(100)
        reader.read(100)
        assert writer.wait(100, 2**62) is Verdict.OK


def test_an_age_bound_set_later_is_enforced() -> None:
    with Ring.create(RingSpec(1_000, 0, 100)) as ring:
        from parlora._native import lib

        writer = ring.writer()
        lib.pl_ring_set_clock(ring.pointer, 1_000_000)
        writer.set_bounds(1_000, 100)
        assert writer.write(FRAME) is Verdict.OK
        lib.pl_ring_set_clock(ring.pointer, 1_100_001)
        assert writer.write(FRAME) is Verdict.TOO_OLD
        assert ring.stats().max_age_us == 100_000


@pytest.mark.parametrize("bound", [99, 1_001, -1])
def test_bounds_outside_what_the_ring_can_hold_are_refused(bound: int) -> None:
    with Ring.create(RingSpec(1_000, 0, 100)) as ring, pytest.raises(InvalidArgument, match="bounded"):
        ring.writer().set_bounds(bound, 0)
