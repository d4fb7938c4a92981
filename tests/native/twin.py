"""A frame ring in plain Python: slow, single-process, obviously right. The oracle of the native one."""

from __future__ import annotations

from dataclasses import dataclass, field

from parlora.audio.port import Loss
from parlora.audio.ring import REFUSALS, RingSpec, Verdict

LINE = 64


def record_bytes(payload: int) -> int:
    """Memory of one frame: a 64-byte header and the payload, rounded up to 64."""
    return -(-(payload + LINE) // LINE) * LINE


@dataclass(frozen=True)
class TwinFrame:
    data: bytes
    sequence: int
    epoch: int
    ts_us: int
    admitted_us: int
    duration_us: int
    flags: int

    @property
    def loss(self) -> Loss:
        return Loss(1, len(self.data), self.duration_us)


@dataclass
class TwinRing:
    spec: RingSpec
    clock_us: int = 1
    epoch: int = 0
    closed: bool = False
    queue: list[TwinFrame] = field(default_factory=list)
    taken_in: Loss = field(default_factory=Loss)
    given_out: Loss = field(default_factory=Loss)
    dropped: Loss = field(default_factory=Loss)
    rejected: dict[Verdict, Loss] = field(default_factory=lambda: dict.fromkeys(REFUSALS, Loss()))
    last_in_us: int = 0
    last_out_us: int = 0
    data_armed: bool = False
    space_armed: int = 0
    data_event: bool = False
    space_event: bool = False

    def __post_init__(self) -> None:
        self.capacity = 4_096
        while self.capacity < 2 * self.spec.max_bytes + record_bytes(self.spec.max_frame_bytes):
            self.capacity *= 2

    # producer

    def _fits(self, payload: int, records: int) -> bool:
        used = sum(record_bytes(len(frame.data)) for frame in self.queue)
        queued = sum(len(frame.data) for frame in self.queue)
        return used + records <= self.capacity and queued + payload <= self.spec.max_bytes

    def _bounds(self, payload: int, records: int) -> Verdict:
        if not self._fits(payload, records):
            return Verdict.FULL
        if self.spec.max_age_ms and self.queue:
            oldest = self.queue[0]
            over = self.clock_us > oldest.admitted_us + self.spec.max_age_ms * 1_000
            if over and oldest.epoch >= self.epoch:
                return Verdict.TOO_OLD
        return Verdict.OK

    def _admit(self, size: int, epoch: int, payload: int, records: int) -> Verdict:
        if not 1 <= size <= self.spec.max_frame_bytes:
            return Verdict.TOO_BIG
        if self.closed:
            return Verdict.CLOSED
        if epoch < self.epoch:
            return Verdict.STALE_EPOCH
        return self._bounds(payload, records)

    def write(self, data: bytes, epoch: int | None, ts_us: int, duration_us: int, flags: int = 0) -> Verdict:
        epoch = self.epoch if epoch is None else epoch
        verdict = self._admit(len(data), epoch, len(data), record_bytes(len(data)))
        if verdict is not Verdict.OK:
            self.rejected[verdict] += Loss(1, len(data))
            return verdict
        frame = TwinFrame(data, self.taken_in.frames, epoch, ts_us or self.clock_us, self.clock_us, duration_us, flags)
        self.queue.append(frame)
        self.taken_in += frame.loss
        self.last_in_us = self.clock_us
        self._wake_reader()
        return Verdict.OK

    def write_packet(
        self, data: bytes, frame_bytes: int, epoch: int | None, ts_us: int, frame_us: int, whole: bool
    ) -> tuple[int, Verdict]:
        epoch = self.epoch if epoch is None else epoch
        ts_us = ts_us or self.clock_us
        pieces = [data[start : start + frame_bytes] for start in range(0, len(data), frame_bytes)]
        if whole:
            records = sum(record_bytes(len(piece)) for piece in pieces)
            verdict = self._admit(frame_bytes, epoch, len(data), records)
            if verdict is not Verdict.OK:
                for piece in pieces:
                    self.rejected[verdict] += Loss(1, len(piece))
                return 0, verdict
        for count, piece in enumerate(pieces):
            duration_us = frame_us * len(piece) // frame_bytes
            verdict = self.write(piece, epoch, ts_us, duration_us)
            if verdict is not Verdict.OK:
                return count, verdict
            ts_us += duration_us
        return len(pieces), Verdict.OK

    def arm_space(self, size: int) -> bool:
        room = self._bounds(size, record_bytes(size)) is Verdict.OK or self.closed
        self.space_armed = 0 if room else size
        return room

    # consumer

    def _consumed(self) -> None:
        if self.space_armed and self._fits(self.space_armed, record_bytes(self.space_armed)):
            self.space_event, self.space_armed = True, 0

    def _drop(self) -> None:
        self.dropped += self.queue.pop(0).loss

    def _drop_stale(self) -> None:
        while self.queue and self.queue[0].epoch < self.epoch:
            self._drop()
            self._consumed()

    def read(self, max_bytes: int, max_frames: int) -> list[TwinFrame]:
        frames: list[TwinFrame] = []
        while len(frames) < max_frames:
            self._drop_stale()
            if not self.queue or sum(len(f.data) for f in frames) + len(self.queue[0].data) > max_bytes:
                break
            frames.append(self.queue.pop(0))
            self.given_out += frames[-1].loss
            self.last_out_us = frames[-1].admitted_us
        if frames:
            self._consumed()
        return frames

    def joined(self, max_bytes: int) -> list[TwinFrame]:
        """The frames at the front that make one packet, consumed."""
        count = 0
        while count < len(self.queue):
            upto = self.queue[: count + 1]
            alike = {(f.epoch, f.flags, f.sequence - i) for i, f in enumerate(upto)}
            if len(alike) > 1 or sum(len(f.data) for f in upto) > max_bytes:
                break
            count += 1
        return self.read(max_bytes, count) if count else []

    def discard(self, everything: bool) -> Loss:
        before = self.dropped
        if everything:
            while self.queue:
                self._drop()
            self._consumed()
        else:
            self._drop_stale()
        after = self.dropped
        return Loss(after.frames - before.frames, after.bytes - before.bytes, after.duration_us - before.duration_us)

    def arm_data(self) -> bool:
        ready = bool(self.queue) or self.closed
        self.data_armed = not ready
        return ready

    # anyone

    def _wake_reader(self) -> None:
        if self.data_armed:
            self.data_event, self.data_armed = True, False

    def clear(self, epoch: int) -> int:
        self.epoch = max(self.epoch, epoch)
        self._wake_reader()
        return self.epoch

    def finish(self) -> None:
        self.closed = True
        self._wake_reader()
        if self.space_armed:
            self.space_event, self.space_armed = True, 0
