"""The frame ring: the bounded queue of the audio contract, in memory that two processes share (spec 000 §4).

One process writes, one reads, anyone who has the ring may clear it, close it or read its counters. A frame is taken
whole or refused whole with the reason; a clear raises the ring's epoch, after which no older frame is ever read.

    ring = Ring.create(RingSpec(max_bytes=9_600, max_age_ms=0, max_frame_bytes=4_800))
    ...                                         # fork; the child does Ring.attach(numbers) or keeps the object
    writer, reader = ring.writer(), ring.reader()   # each in its own process
    writer.write(b"..." , duration_us=20_000)
    for header, data in reader.read(9_600): ...

Every call leaves Python (the GIL is released), so a process with busy threads should hand over whole packets
(`write_packet`, `read`) and leave moving frames to `parlora.audio.pump`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from struct import Struct
from threading import Lock
from typing import Any, Final

from parlora._native import ffi, lib
from parlora.audio.port import Loss
from parlora.audio.ring_types import REFUSALS, Descriptors, FrameHeader, RingSpec, RingStats, Verdict, now_us
from parlora.errors import Closed, Conflict, InvalidArgument, ParloraError

__all__ = [
    "EPOCH_MAX",
    "READ_FRAMES",
    "REFUSALS",
    "Descriptors",
    "FrameHeader",
    "Ring",
    "RingReader",
    "RingSpec",
    "RingStats",
    "RingWriter",
    "Verdict",
    "now_us",
]

Data = bytes | bytearray | memoryview

EPOCH_MAX: Final = 2**63 - 1
READ_FRAMES: Final = 64
"""Most frames one read returns: bounds the header buffer; a reader with more waiting simply reads again."""

_EPOCH_CURRENT: Final = 2**64 - 1
_HEADER: Final = Struct("=4xIQQQQII16x")
_new_uncleared: Final = ffi.new_allocator(should_clear_after_alloc=False)


_VERDICTS: Final[tuple[Verdict, ...]] = tuple(Verdict)


class Ring:
    """One process's handle of a ring. Closing it closes its descriptors; other processes keep the ring."""

    def __init__(self, pointer: Any) -> None:
        self._pointer: Any = pointer
        self._inside_lock = Lock()
        self._inside = 0  # calls and pumps that would crash if the memory were unmapped under them
        self._roles: set[str] = set()

    @classmethod
    def create(cls, spec: RingSpec) -> Ring:
        """A new, empty ring at epoch 0. Raises `InvalidArgument`, or `OSError` if the system refuses the memory."""
        spec.check()
        pointer = lib.pl_ring_create(spec.max_bytes, spec.max_age_ms * 1_000, spec.max_frame_bytes)
        if pointer == ffi.NULL:
            raise OSError(ffi.errno, f"cannot create a ring of {spec.max_bytes} bytes: {os.strerror(ffi.errno)}")
        return cls(pointer)

    @classmethod
    def attach(cls, descriptors: Sequence[int]) -> Ring:
        """The ring behind inherited or received descriptors, which it takes over.

        Raises `InvalidArgument` if they are not a ring's (the descriptors then stay the caller's).
        """
        memory, data_event, space_event = descriptors
        pointer = lib.pl_ring_attach(memory, data_event, space_event)
        if pointer == ffi.NULL:
            reason = "not a ring's memory" if ffi.errno == errno.EPROTO else os.strerror(ffi.errno)
            raise InvalidArgument(f"descriptors {tuple(descriptors)} are no ring: {reason}", field="descriptors")
        return cls(pointer)

    def descriptors(self) -> Descriptors:
        """The numbers to hand on; they stay this ring's."""
        numbers = ffi.new("int[3]")
        lib.pl_ring_descriptors(self.pointer, numbers)
        return Descriptors(*numbers)

    @property
    def pointer(self) -> Any:
        """The native handle. Raises `Closed` after `close`."""
        if self._pointer is None:
            raise Closed("the ring handle is closed")
        return self._pointer

    @property
    def epoch(self) -> int:
        """The epoch in force; 0 at first."""
        return int(lib.pl_ring_epoch(self.pointer))

    def clear(self, epoch: int) -> int:
        """Raise the epoch to at least `epoch` and wake the reader; returns the epoch in force.

        Any process, any thread. From the return on no frame of an older epoch is read; the reader counts them.
        """
        if not 0 <= epoch <= EPOCH_MAX:
            raise InvalidArgument(f"epoch must be from 0 to {EPOCH_MAX}, got {epoch}", field="epoch")
        return int(lib.pl_ring_clear(self.pointer, epoch))

    def finish(self) -> None:
        """Refuse further frames; what is queued can still be read. Any process."""
        lib.pl_ring_close(self.pointer)

    def stats(self) -> RingStats:
        """The counters, from any process at any time."""
        raw = ffi.new("pl_ring_stats *")
        lib.pl_ring_get_stats(self.pointer, raw)
        rejected = {
            verdict: Loss(raw.rejected_frames[index], raw.rejected_bytes[index])
            for index, verdict in enumerate(REFUSALS)
        }
        return RingStats(
            frames_in=raw.frames_in,
            bytes_in=raw.bytes_in,
            duration_in_us=raw.duration_in_us,
            last_in_us=raw.last_in_us,
            frames_out=raw.frames_out,
            bytes_out=raw.bytes_out,
            duration_out_us=raw.duration_out_us,
            last_out_us=raw.last_out_us,
            dropped=Loss(raw.dropped_frames, raw.dropped_bytes, raw.dropped_us),
            queued=Loss(raw.queued_frames, raw.queued_bytes, raw.queued_us),
            rejected=rejected,
            epoch=raw.epoch,
            closed=bool(raw.closed),
            wakes=raw.wakes,
            max_bytes=raw.max_bytes,
            max_frame_bytes=raw.max_frame_bytes,
            max_age_us=raw.max_age_us,
            capacity_bytes=raw.capacity_bytes,
            producer_pid=raw.producer_pid,
            consumer_pid=raw.consumer_pid,
        )

    def writer(self) -> RingWriter:
        """Claim the producer's role for this process, continuing where the last producer stopped.

        Raises `Conflict` naming the process that holds it. The role is free again when the process dies, or closes
        this ring or any other descriptor of the same memory.
        """
        self._claim("producer")
        return RingWriter(self)

    def reader(self) -> RingReader:
        """Claim the consumer's role; see `writer`. A frame read but not yet consumed by a dead one is read again."""
        self._claim("consumer")
        return RingReader(self)

    def _claim(self, role: str) -> None:
        if role in self._roles:
            raise Conflict(f"this process already is the ring's {role}")
        holder = lib.pl_ring_claim(self.pointer, int(role == "consumer"))
        if holder < 0:
            raise OSError(ffi.errno, f"cannot claim the ring's {role} role: {os.strerror(ffi.errno)}")
        if holder > 0:
            raise Conflict(f"process {holder} is the ring's {role}", details={"pid": int(holder)})
        self._roles.add(role)

    def watch_peer(self, pidfd: int | None) -> None:
        """End waits with `PEER_DIED` when the process behind `pidfd` is gone; the descriptor stays the caller's."""
        lib.pl_ring_watch_peer(self.pointer, -1 if pidfd is None else pidfd)

    @contextmanager
    def held(self) -> Iterator[Any]:
        """The native handle, protected from `close` while native code works on it."""
        pointer = self.pointer
        with self._inside_lock:
            self._inside += 1
        try:
            yield pointer
        finally:
            with self._inside_lock:
                self._inside -= 1

    def close(self) -> None:
        """Unmap and close the descriptors; again is fine. Raises `Conflict` while a wait or a pump uses the ring."""
        if self._pointer is None:
            return
        if self._inside:
            raise Conflict("a wait or a pump still uses the ring; stop it first")
        pointer, self._pointer = self._pointer, None
        self._roles.clear()
        lib.pl_ring_free(pointer)

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class RingWriter:
    """The producer's view; one thread at a time."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self._verdict = ffi.new("int *")

    def write(
        self, data: Data, epoch: int | None = None, ts_us: int = 0, duration_us: int = 0, flags: int = 0
    ) -> Verdict:
        """Offer one frame: OK, or why it was refused whole (and counted). `epoch` None: the current; `ts_us` 0: now."""
        if type(data) is not bytes:
            data = ffi.from_buffer(data)
        ended: int = lib.pl_ring_write(
            self.ring.pointer, data, len(data), _EPOCH_CURRENT if epoch is None else epoch, ts_us, duration_us, flags
        )
        return _VERDICTS[ended]

    def write_packet(
        self,
        data: Data,
        frame_bytes: int,
        epoch: int | None = None,
        ts_us: int = 0,
        frame_us: int = 0,
        flags: int = 0,
        *,
        whole: bool = False,
    ) -> tuple[int, Verdict]:
        """Offer a packet as frames of `frame_bytes` of `frame_us` each (the last may be shorter), in one call.

        Returns how many were taken and OK, or why the next one was refused; those after it were not offered.
        With `whole` all are taken or none.
        """
        if frame_bytes < 1:
            raise InvalidArgument(f"frame_bytes must be at least 1, got {frame_bytes}", field="frame_bytes")
        taken = lib.pl_ring_write_packet(
            self.ring.pointer,
            ffi.from_buffer(data),
            memoryview(data).nbytes,
            frame_bytes,
            _EPOCH_CURRENT if epoch is None else epoch,
            ts_us,
            frame_us,
            flags,
            whole,
            self._verdict,
        )
        return taken, _VERDICTS[self._verdict[0]]

    def set_bounds(self, max_bytes: int, max_age_ms: int) -> None:
        """Bounds from the next frame on; what is queued already stays. `max_age_ms` 0 sets none.

        Raises `InvalidArgument` unless `max_bytes` is from one allowed frame to what the ring was created with.
        """
        if lib.pl_ring_set_bounds(self.ring.pointer, max(0, max_bytes), max_age_ms * 1_000):
            raise InvalidArgument(f"the ring cannot be bounded to {max_bytes} bytes", field="max_bytes")

    def arm(self, size_bytes: int) -> bool:
        """True if a frame of `size_bytes` fits now; else the event behind `fileno` fires once it may."""
        return bool(lib.pl_ring_arm_space(self.ring.pointer, size_bytes))

    def wait(self, size_bytes: int, deadline_us: int) -> Verdict:
        """Wait until a frame of `size_bytes` may fit or the ring is closed: OK, TIMED_OUT or PEER_DIED."""
        with self.ring.held() as pointer:
            while (got := lib.pl_ring_wait_space(pointer, size_bytes, deadline_us)) == Verdict.INTERRUPTED:
                pass
        return Verdict(got)

    def fileno(self) -> int:
        """The space event, for poll: after `arm` returned False."""
        return self.ring.descriptors().space_event

    def consume_event(self) -> None:
        """Make the event unreadable again; do it before trying to write."""
        lib.pl_event_consume(self.fileno())


class RingReader:
    """The consumer's view; one thread at a time."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        stats = ring.stats()
        self._max_frame_bytes = stats.max_frame_bytes
        self._max_bytes = stats.max_bytes
        self._headers = _new_uncleared("pl_frame[]", READ_FRAMES)
        self._header_view = ffi.buffer(self._headers)
        self._verdict = ffi.new("int *")
        self._capacity = 0
        self._fit_buffer(stats.max_frame_bytes)

    def read(self, max_bytes: int, max_frames: int = READ_FRAMES) -> list[tuple[FrameHeader, bytes]]:
        """Whole frames of at most `max_bytes` together, oldest first; empty if there are none.

        Raises `InvalidArgument` if `max_bytes` cannot hold one allowed frame, `Closed` when the ring is finished and
        drained, `ParloraError` if the memory holds no frame of ours.
        """
        if max_bytes != self._capacity:
            self._fit_buffer(max_bytes)
        count = lib.pl_ring_read(
            self.ring.pointer,
            self._data,
            self._capacity,
            self._headers,
            max_frames if max_frames < READ_FRAMES else READ_FRAMES,
            self._verdict,
        )
        return self._frames(count)

    def receive(
        self, max_bytes: int, deadline_us: int, max_frames: int = READ_FRAMES
    ) -> list[tuple[FrameHeader, bytes]]:
        """`read`, but wait for the first frame until `deadline_us`; empty then, or when the watched peer died."""
        if max_bytes != self._capacity:
            self._fit_buffer(max_bytes)
        with self.ring.held() as pointer:
            while True:
                count = lib.pl_ring_receive(
                    pointer,
                    self._data,
                    self._capacity,
                    self._headers,
                    max_frames if max_frames < READ_FRAMES else READ_FRAMES,
                    deadline_us,
                    self._verdict,
                )
                if self._verdict[0] != Verdict.INTERRUPTED:
                    return self._frames(count)

    def discard(self, *, everything: bool = False) -> Loss:
        """Drop frames of ended epochs at the front, or everything queued now; returns what was dropped."""
        loss = ffi.new("pl_loss *")
        if lib.pl_ring_discard(self.ring.pointer, everything, loss) == Verdict.CORRUPT:
            raise ParloraError("the ring holds a record that is not a frame")
        return Loss(loss.frames, loss.bytes, loss.duration_us)

    def clear(self, epoch: int) -> Loss:
        """Raise the epoch and drop what is older at once; returns what was dropped here."""
        self.ring.clear(epoch)
        return self.discard()

    def arm(self) -> bool:
        """True if there is something to read (or the ring is finished); else the event behind `fileno` fires once."""
        return bool(lib.pl_ring_arm_data(self.ring.pointer))

    def wait(self, deadline_us: int) -> Verdict:
        """Wait until there may be something to read: OK, TIMED_OUT or PEER_DIED."""
        with self.ring.held() as pointer:
            while (got := lib.pl_ring_wait_data(pointer, deadline_us)) == Verdict.INTERRUPTED:
                pass
        return Verdict(got)

    def fileno(self) -> int:
        """The data event, for poll: after `arm` returned False."""
        return self.ring.descriptors().data_event

    def consume_event(self) -> None:
        """Make the event unreadable again; do it before reading."""
        lib.pl_event_consume(self.fileno())

    def _fit_buffer(self, max_bytes: int) -> None:
        if max_bytes < self._max_frame_bytes:
            raise InvalidArgument(
                f"max_bytes must hold one allowed frame ({self._max_frame_bytes} bytes), got {max_bytes}",
                field="max_bytes",
            )
        size = min(max_bytes, self._max_bytes)
        if size > self._capacity:
            self._data = _new_uncleared("uint8_t[]", size)
            self._payload = ffi.buffer(self._data)
        self._capacity = size

    def _frames(self, count: int) -> list[tuple[FrameHeader, bytes]]:
        if count == 0:
            verdict = self._verdict[0]
            if verdict == Verdict.CLOSED:
                raise Closed("the ring is finished and drained")
            if verdict == Verdict.CORRUPT:
                raise ParloraError("the ring holds a record that is not a frame")
            return []
        frames, start, payload = [], 0, self._payload
        for fields in _HEADER.iter_unpack(self._header_view[: count * _HEADER.size]):
            end = start + fields[0]
            frames.append((FrameHeader._make(fields), payload[start:end]))
            start = end
        return frames
