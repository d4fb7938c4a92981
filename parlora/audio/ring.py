"""The frame ring: the bounded queue of the audio contract, in memory that two processes share (spec 000 §4).

One process writes, one reads, anyone who has the ring may clear it, close it or read its counters. A frame is taken
whole or refused whole with the reason; a clear raises the ring's epoch, after which no older frame is ever read.

    ring = Ring.create(RingSpec(max_bytes=9_600, max_age_ms=0, max_frame_bytes=4_800))
    ...                                         # fork; the child does Ring.attach(numbers) or keeps the object
    writer, reader = ring.writer(), ring.reader()   # each in its own process
    writer.write(b"..." , duration_us=20_000)
    for header, data in reader.read(9_600): ...

Writing and reading keep Python's lock, for they take well under a microsecond and getting the lock back from a busy
thread can take 5 ms; waiting lets it go. Moving frames from ring to ring is the work of `parlora.audio.pump`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

from parlora._native import ffi, lib
from parlora._native_frames import FrameHeader
from parlora.audio.port import Loss
from parlora.audio.ring_roles import READ_FRAMES, RingReader, RingWriter
from parlora.audio.ring_types import REFUSALS, Descriptors, RingSpec, RingStats, Verdict, now_us
from parlora.errors import Closed, Conflict, InvalidArgument

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

EPOCH_MAX: Final = 2**63 - 1


class Ring:
    """One process's handle of a ring. Closing it closes its descriptors; other processes keep the ring."""

    def __init__(self, pointer: Any) -> None:
        self._pointer: Any = pointer
        self._inside_lock = Lock()
        self._inside = 0  # calls and pumps that would crash if the memory were unmapped under them
        self._roles: list[RingWriter | RingReader] = []

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
        self._claim("producer", RingWriter)
        writer = RingWriter(self)
        self._roles.append(writer)
        return writer

    def reader(self) -> RingReader:
        """Claim the consumer's role; see `writer`. A frame read but not yet consumed by a dead one is read again."""
        self._claim("consumer", RingReader)
        reader = RingReader(self)
        self._roles.append(reader)
        return reader

    def _claim(self, role: str, kind: type[RingWriter | RingReader]) -> None:
        if any(isinstance(held, kind) for held in self._roles):
            raise Conflict(f"this process already is the ring's {role}")
        holder = lib.pl_ring_claim(self.pointer, int(role == "consumer"))
        if holder < 0:
            raise OSError(ffi.errno, f"cannot claim the ring's {role} role: {os.strerror(ffi.errno)}")
        if holder > 0:
            raise Conflict(f"process {holder} is the ring's {role}", details={"pid": int(holder)})

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
        if self._inside or any(role.waiting for role in self._roles):
            raise Conflict("a wait or a pump still uses the ring; stop it first")
        pointer, self._pointer = self._pointer, None
        for role in self._roles:
            role.detach()
        self._roles.clear()
        lib.pl_ring_free(pointer)

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
