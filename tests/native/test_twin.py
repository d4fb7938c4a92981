"""The native ring does what its plain Python twin does, whatever is asked of it."""

from __future__ import annotations

import os
import select

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from parlora._native import ffi, lib
from parlora.audio.port import Loss
from parlora.audio.ring import Ring, RingSpec, Verdict
from parlora.errors import Closed
from tests.native.twin import TwinFrame, TwinRing

EPOCHS = st.one_of(st.none(), st.integers(0, 12))
SIZES = st.one_of(st.integers(0, 40), st.integers(0, 700), st.just(256))


class RingAgainstTwin(RuleBasedStateMachine):
    @initialize(
        max_bytes=st.integers(600, 5_000), max_age_ms=st.sampled_from([0, 0, 5, 50]), frame=st.integers(100, 600)
    )
    def start(self, max_bytes: int, max_age_ms: int, frame: int) -> None:
        self.spec = RingSpec(max_bytes, max_age_ms, frame)
        self.ring = Ring.create(self.spec)
        self.writer, self.reader = self.ring.writer(), self.ring.reader()
        self.twin = TwinRing(self.spec)
        self.counter = 0
        self.tick(0)

    def teardown(self) -> None:
        if hasattr(self, "ring"):
            self.ring.close()

    def content(self, size: int) -> bytes:
        self.counter += 1
        return (self.counter.to_bytes(4) * (size // 4 + 1))[:size]

    @rule(by_us=st.integers(0, 20_000))
    def tick(self, by_us: int) -> None:
        self.twin.clock_us += by_us
        lib.pl_ring_set_clock(self.ring.pointer, self.twin.clock_us)

    @rule(size=SIZES, epoch=EPOCHS, ts_us=st.integers(0, 9), duration_us=st.integers(0, 50_000))
    def write(self, size: int, epoch: int | None, ts_us: int, duration_us: int) -> None:
        data = self.content(size)
        assert self.writer.write(data, epoch, ts_us, duration_us, 3) is self.twin.write(
            data, epoch, ts_us, duration_us, 3
        )

    @rule(size=st.integers(0, 4_000), frame=st.integers(1, 700), epoch=EPOCHS, whole=st.booleans())
    def write_packet(self, size: int, frame: int, epoch: int | None, whole: bool) -> None:
        data = self.content(size)
        expected = self.twin.write_packet(data, frame, epoch, 0, 20_000, whole)
        assert self.writer.write_packet(data, frame, epoch, 0, 20_000, whole=whole) == expected

    @rule(size=SIZES, clear=st.booleans())
    def reserve_and_publish(self, size: int, clear: bool) -> None:
        """A frame made in place; a clear may come while it is being made."""
        data, verdict = self.content(size), ffi.new("int *")
        epoch = self.twin.epoch
        room = lib.pl_ring_reserve(self.ring.pointer, size, epoch, verdict)
        if room == ffi.NULL:
            assert Verdict(verdict[0]) is self.twin.write(data, epoch, 0, 7)
            return
        ffi.memmove(room, data, size)
        if clear:
            self.clear(epoch + 1)
        assert lib.pl_ring_publish(self.ring.pointer, size, epoch, 0, 7, 0) == self.twin.write(data, epoch, 0, 7)

    @rule(extra=st.integers(0, 4_500), frames=st.integers(1, 64))
    def read(self, extra: int, frames: int) -> None:
        most = self.spec.max_frame_bytes + extra
        expected = self.twin.read(most, frames)
        try:
            got = self.reader.read(most, frames)
        except Closed:
            assert self.twin.closed
            assert not self.twin.queue
            got = []
        assert [TwinFrame(data, *header[1:]) for header, data in got] == expected

    @rule(extra=st.integers(0, 4_500))
    def read_packet(self, extra: int) -> None:
        most = self.spec.max_frame_bytes + extra
        self.twin.discard(False)
        expected = self.twin.joined(most)
        try:
            got = self.reader.read_packet(most)
        except Closed:
            assert self.twin.closed
            got = None
        if not expected:
            assert got is None
            return
        assert got is not None
        header, frames, data = got
        assert (frames, data) == (len(expected), b"".join(frame.data for frame in expected))
        assert header.duration_us == sum(frame.duration_us for frame in expected)
        assert (header.sequence, header.epoch, header.ts_us) == (
            expected[0].sequence,
            expected[0].epoch,
            expected[0].ts_us,
        )

    @rule(clear=st.booleans())
    def peek_and_commit(self, clear: bool) -> None:
        frame, verdict = ffi.new("pl_frame *"), ffi.new("int *")
        payload = lib.pl_ring_peek(self.ring.pointer, frame, verdict)
        self.twin.discard(False)
        if payload == ffi.NULL:
            assert not self.twin.queue
            assert lib.pl_ring_commit(self.ring.pointer) == Verdict.EMPTY
            return
        assert ffi.buffer(payload, frame.bytes)[:] == self.twin.queue[0].data
        if clear:
            self.clear(self.twin.epoch + 1)
        stale = self.twin.queue[0].epoch < self.twin.epoch
        assert lib.pl_ring_commit(self.ring.pointer) == (Verdict.STALE_EPOCH if stale else Verdict.OK)
        if stale:
            self.twin._drop()
            self.twin._consumed()
        else:
            self.twin.read(self.spec.max_frame_bytes, 1)

    @rule(everything=st.booleans())
    def discard(self, everything: bool) -> None:
        assert self.reader.discard(everything=everything) == self.twin.discard(everything)

    @rule(epoch=st.integers(0, 12))
    def clear(self, epoch: int) -> None:
        assert self.ring.clear(epoch) == self.twin.clear(epoch)

    @rule()
    def arm_data(self) -> None:
        assert self.reader.arm() == self.twin.arm_data()

    @rule(size=st.integers(1, 4_000))
    def arm_space(self, size: int) -> None:
        assert self.writer.arm(size) == self.twin.arm_space(size)

    @rule()
    def take_events(self) -> None:
        self.reader.consume_event()
        self.writer.consume_event()
        self.twin.data_event = self.twin.space_event = False

    @rule()
    def hand_over(self) -> None:
        """Another handle continues both roles, as after a death."""
        successor = Ring.attach([os.dup(number) for number in self.ring.descriptors()])
        self.ring.close()
        self.ring = successor
        self.writer, self.reader = successor.writer(), successor.reader()
        self.tick(0)

    @precondition(lambda self: self.counter > 15)
    @rule()
    def finish(self) -> None:
        self.ring.finish()
        self.twin.finish()

    @invariant()
    def events_agree(self) -> None:
        if not hasattr(self, "ring"):
            return
        data, space = self.reader.fileno(), self.writer.fileno()
        assert set(select.select([data, space], [], [], 0)[0]) == {
            fd for fd, fired in ((data, self.twin.data_event), (space, self.twin.space_event)) if fired
        }

    @invariant()
    def counters_agree(self) -> None:
        if not hasattr(self, "ring"):
            return
        stats, twin = self.ring.stats(), self.twin
        assert Loss(stats.frames_in, stats.bytes_in, stats.duration_in_us) == twin.taken_in
        assert Loss(stats.frames_out, stats.bytes_out, stats.duration_out_us) == twin.given_out
        assert stats.dropped == twin.dropped
        assert stats.queued == sum((frame.loss for frame in twin.queue), Loss())
        assert stats.queued.bytes <= self.spec.max_bytes
        assert stats.rejected == twin.rejected
        assert (stats.epoch, stats.closed, stats.capacity_bytes) == (twin.epoch, twin.closed, twin.capacity)
        assert (stats.last_in_us, stats.last_out_us) == (twin.last_in_us, twin.last_out_us)


RingAgainstTwin.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestRingAgainstTwin = RingAgainstTwin.TestCase
