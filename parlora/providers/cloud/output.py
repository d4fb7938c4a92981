"""Generated audio on its way into the session's queue: whole packets, taken or refused, and nothing lost unsaid."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from parlora import telemetry
from parlora.audio.format import AudioFormat
from parlora.audio.port import AudioSink, Loss, WriteResult
from parlora.audio.ring_types import now_us
from parlora.providers.cloud.conversion import Conversion
from parlora.providers.cloud.trace import ReceiveTrace

FRAME_US: Final = 20_000
"""Length of the frames a packet is cut into: what channels expect, and short enough to be cleared exactly."""


@dataclass(frozen=True, slots=True)
class Overload:
    """A packet that did not fit; `diagnostics` are numbers only."""

    loss: Loss
    diagnostics: dict[str, Any]


class _Mode(StrEnum):
    FLOWING = "flowing"
    HELD = "held"
    DISCARDING = "discarding"
    CLOSED = "closed"


class Output:
    """Writes packets to the sink. Not thread-safe: the shell's lock guards it."""

    def __init__(
        self,
        sink: AudioSink,
        format: AudioFormat,
        max_frame_bytes: int,
        wire: AudioFormat,
        identity: Mapping[str, Any] | None = None,
    ) -> None:
        """`identity`: what telemetry says of who received a packet: session_id, adapter_id and generation."""
        self._sink = sink
        self._identity = dict(identity or {})
        self._format = format
        self._wire_sample_bytes = wire.sample_bytes
        self._frame_bytes = min(format.bytes_for_us(FRAME_US), max_frame_bytes)
        self._conversion = Conversion(wire, format)
        self._trace = ReceiveTrace()
        self._mode = _Mode.FLOWING
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._discarded: dict[str, Loss] = {}
        self.half_samples = 0
        """Packets that ended within a sample; the rest of each was dropped."""

    def offer(self, packet: bytes, dropped_for: str | None = None) -> Overload | None:
        """Take a packet in the service's format whole, or refuse it whole and say so.

        dropped_for: the cause for which it must not be heard; it is counted only.
        """
        extra = len(packet) % self._wire_sample_bytes
        if extra:
            # joining it to the next packet would make noise of all that follows, should the next one be whole again
            self.half_samples += 1
            packet = packet[:-extra]
        data = self._conversion.process(packet)
        if not data:
            return None
        if not telemetry.is_active():
            return self._take(data, dropped_for)
        at_us, before = now_us(), self._sink.status().queued_bytes
        discarded = self._discarded_bytes()
        overload = self._take(data, dropped_for)
        self._tell_received(at_us, before, data, overload, self._discarded_bytes() - discarded)
        return overload

    def _take(self, data: bytes, dropped_for: str | None) -> Overload | None:
        if self._mode is _Mode.CLOSED:
            return None
        if dropped_for is not None:
            self.count(dropped_for, self._loss(data))
            return None
        if self._mode is _Mode.DISCARDING:
            self.count("provider_recovery", self._loss(data))
            return None
        if self._mode is _Mode.HELD:
            return self._hold(data)
        return self._write(data)

    @property
    def unheard_us(self) -> int:
        """Length of the audio that is still here, in the sink or held."""
        return self._format.duration_us(self._sink.status().queued_bytes + self._held_bytes)

    def hold(self) -> None:
        """Keep what comes until `release`: what is queued is being cleared, and what comes now belongs after that."""
        if self._mode is _Mode.FLOWING:
            self._mode = _Mode.HELD
        self._forget_held("output_interrupted")  # of a response that was interrupted as well

    def release(self) -> Overload | None:
        """Write what was held, and go on."""
        if self._mode is not _Mode.HELD:
            return None
        self._mode = _Mode.FLOWING
        data = b"".join(self._held)
        self._drop_held()
        return self._write(data) if data else None

    def discard(self) -> None:
        """Drop and count everything until `resume`: what the session has is being cleared."""
        if self._mode is not _Mode.CLOSED:
            self._mode = _Mode.DISCARDING
            self._forget_held("provider_recovery")

    def resume(self) -> None:
        """A fresh transport: begin anew."""
        if self._mode is _Mode.DISCARDING:
            self._mode = _Mode.FLOWING
            self._conversion.reset()

    def close(self) -> None:
        """Free what is held; whatever still comes is the tail of a call that is over, and no failure."""
        self._mode = _Mode.CLOSED
        self._drop_held()

    def count(self, cause: str, loss: Loss) -> None:
        """Add to what was discarded for this cause."""
        self._discarded[cause] = self._discarded.get(cause, Loss()) + loss

    def take_discarded(self) -> list[tuple[str, Loss]]:
        """What was discarded since the last call, by cause, to be told once."""
        discarded, self._discarded = self._discarded, {}
        return list(discarded.items())

    def diagnostics(self, incoming_bytes: int = 0, discarded_bytes: int = 0) -> dict[str, Any]:
        """Numbers about the queue and the last 64 receives and reads."""
        now = now_us()
        status = self._sink.status()
        self._trace.saw(status.queued_bytes, now)
        return {
            "queued_bytes": status.queued_bytes,
            "incoming_bytes": incoming_bytes,
            "discarded_bytes": discarded_bytes,
            "capacity_bytes": status.capacity_bytes,
            "oldest_age_us": self._trace.oldest_age_us(now),
            "trace": self._trace.entries(now),
        }

    def _discarded_bytes(self) -> int:
        return sum(loss.bytes for loss in self._discarded.values())

    def _tell_received(self, at_us: int, before: int, data: bytes, overload: Overload | None, discarded: int) -> None:
        """One measurement of one packet, whatever became of it (spec 000 §14)."""
        if self._mode is _Mode.CLOSED:
            outcome = "closed"
        elif overload is not None:
            outcome = "backpressure"
        else:
            outcome = "discarded" if discarded else "accepted"
        telemetry.emit(
            telemetry.PROVIDER_AUDIO_RECEIVED,
            {
                "at_us": at_us,
                "bytes": len(data),
                "duration_us": self._format.duration_us(len(data)),
                "queue_before_bytes": before,
                "queue_bytes": self._sink.status().queued_bytes,
                "dropped_bytes": 0 if outcome == "accepted" else len(data),
            },
            {**self._identity, "outcome": outcome},
        )

    def _write(self, data: bytes) -> Overload | None:
        now = now_us()
        queued = self._sink.status().queued_bytes
        self._trace.saw(queued, now)
        result = self._sink.write_packet(data, self._frame_bytes)
        admitted = result is WriteResult.OK
        self._trace.received(len(data), queued, admitted, now)
        if admitted:
            return None
        if result is WriteResult.BACKPRESSURE and self._trace.drained:
            loss = self._loss(data)
            return Overload(loss, self.diagnostics(len(data), loss.bytes))
        # a closed port, or nobody listens yet: the session has not begun, and the pipeline drops what came before it
        self.count("startup_buffer_discard", self._loss(data))
        return None

    def _hold(self, data: bytes) -> Overload | None:
        capacity = self._sink.status().capacity_bytes
        if self._held_bytes + len(data) > capacity:
            loss = self._loss(data)
            return Overload(loss, self.diagnostics(len(data), loss.bytes))
        self._held.append(data)
        self._held_bytes += len(data)
        return None

    def _forget_held(self, cause: str) -> None:
        if self._held:
            self.count(cause, self._loss(b"".join(self._held)))
        self._drop_held()

    def _drop_held(self) -> None:
        self._held.clear()
        self._held_bytes = 0

    def _loss(self, data: bytes) -> Loss:
        frames = -(-len(data) // self._frame_bytes)
        return Loss(frames, len(data), self._format.duration_us(len(data)))
