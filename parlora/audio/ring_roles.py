"""The two sides of a frame ring: what its producer and its consumer may do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import parlora._native_frames as frames
from parlora._native import ffi, lib
from parlora._native_frames import FrameHeader
from parlora.audio.port import Loss
from parlora.audio.ring_types import Data, Verdict
from parlora.errors import Closed, InvalidArgument, ParloraError

if TYPE_CHECKING:
    from parlora.audio.ring import Ring

READ_FRAMES: Final = 64
"""Most frames one read returns unless told otherwise: bounds the time in one call; a reader simply reads again."""

_VERDICTS: Final[tuple[Verdict, ...]] = tuple(Verdict)


class _Role:
    """A claim on one side of a ring, for one thread at a time."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring
        self.waiting = False
        """Inside a wait: the ring must not be closed."""
        self._address = int(ffi.cast("uintptr_t", ring.pointer))

    def detach(self) -> None:
        """The ring is being closed: every later call raises `Closed`."""
        self._address = 0

    def _gone(self) -> int:
        raise Closed("the ring handle is closed")


class RingWriter(_Role):
    """The producer's side; one thread at a time."""

    def write(
        self, data: Data, epoch: int | None = None, ts_us: int = 0, duration_us: int = 0, flags: int = 0
    ) -> Verdict:
        """Offer one frame: OK, or why it was refused whole (and counted). `epoch` None: the current; `ts_us` 0: now."""
        return _VERDICTS[frames.write(self._address or self._gone(), data, epoch, ts_us, duration_us, flags)]

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
        address = self._address or self._gone()
        taken, verdict = frames.write_packet(address, data, frame_bytes, epoch, ts_us, frame_us, flags, whole)
        return taken, _VERDICTS[verdict]

    def set_bounds(self, max_bytes: int, max_age_ms: int) -> None:
        """Bounds from the next frame on; what is queued already stays. `max_age_ms` 0 sets none.

        Raises `InvalidArgument` unless `max_bytes` is from one allowed frame to what the ring was created with.
        """
        if lib.pl_ring_set_bounds(self.ring.pointer, max(0, max_bytes), max_age_ms * 1_000):
            raise InvalidArgument(f"the ring cannot be bounded to {max_bytes} bytes", field="max_bytes")

    def arm(self, size_bytes: int) -> bool:
        """True if a frame of `size_bytes` fits now; else the event behind `fileno` fires once it may."""
        return frames.arm_space(self._address or self._gone(), size_bytes)

    def wait(self, size_bytes: int, deadline_us: int) -> Verdict:
        """Wait until a frame of `size_bytes` may fit or the ring is closed: OK, TIMED_OUT or PEER_DIED."""
        self.waiting = True
        try:
            return _VERDICTS[frames.wait_space(self._address or self._gone(), size_bytes, deadline_us)]
        finally:
            self.waiting = False

    def fileno(self) -> int:
        """The space event, for poll: after `arm` returned False."""
        return self.ring.descriptors().space_event

    def consume_event(self) -> None:
        """Make the event unreadable again; do it before trying to write."""
        frames.consume_event(self.fileno())


class RingReader(_Role):
    """The consumer's side; one thread at a time."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(ring)
        self._max_frame_bytes = ring.stats().max_frame_bytes

    def read(self, max_bytes: int, max_frames: int = READ_FRAMES) -> list[tuple[FrameHeader, bytes]]:
        """Whole frames of at most `max_bytes` together, oldest first; empty if there are none.

        Raises `InvalidArgument` if `max_bytes` cannot hold one allowed frame, `Closed` when the ring is finished and
        drained, `ParloraError` if the memory holds no frame of ours.
        """
        if max_bytes < self._max_frame_bytes:
            raise self._too_small(max_bytes)
        got = frames.read(self._address or self._gone(), max_bytes, max_frames)
        return got if isinstance(got, list) else self._nothing(got)

    def read_packet(self, max_bytes: int) -> tuple[FrameHeader, int, bytes] | None:
        """Frames that follow each other without a gap under one epoch, as one piece of at most `max_bytes`.

        Returns their header (bytes and duration of all together, the rest of the first), how many they are, and the
        data; None if there are none. Far cheaper than `read` for who does not need the single frames. Raises as `read`.
        """
        if max_bytes < self._max_frame_bytes:
            raise self._too_small(max_bytes)
        got = frames.read_packet(self._address or self._gone(), max_bytes)
        if isinstance(got, tuple):
            return got
        self._nothing(got)
        return None

    def receive(
        self, max_bytes: int, deadline_us: int, max_frames: int = READ_FRAMES
    ) -> list[tuple[FrameHeader, bytes]]:
        """`read`, but wait for the first frame until `deadline_us`; empty then, or when the watched peer died."""
        if max_bytes < self._max_frame_bytes:
            raise self._too_small(max_bytes)
        self.waiting = True
        try:
            got = frames.receive(self._address or self._gone(), max_bytes, max_frames, deadline_us)
        finally:
            self.waiting = False
        return got if isinstance(got, list) else self._nothing(got)

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
        return frames.arm_data(self._address or self._gone())

    def wait(self, deadline_us: int) -> Verdict:
        """Wait until there may be something to read: OK, TIMED_OUT or PEER_DIED."""
        self.waiting = True
        try:
            return _VERDICTS[frames.wait_data(self._address or self._gone(), deadline_us)]
        finally:
            self.waiting = False

    def fileno(self) -> int:
        """The data event, for poll: after `arm` returned False."""
        return self.ring.descriptors().data_event

    def consume_event(self) -> None:
        """Make the event unreadable again; do it before reading."""
        frames.consume_event(self.fileno())

    def _too_small(self, max_bytes: int) -> InvalidArgument:
        return InvalidArgument(
            f"max_bytes must hold one allowed frame ({self._max_frame_bytes} bytes), got {max_bytes}",
            field="max_bytes",
        )

    @staticmethod
    def _nothing(verdict: int) -> list[tuple[FrameHeader, bytes]]:
        if verdict == Verdict.CLOSED:
            raise Closed("the ring is finished and drained")
        if verdict == Verdict.CORRUPT:
            raise ParloraError("the ring holds a record that is not a frame")
        return []
