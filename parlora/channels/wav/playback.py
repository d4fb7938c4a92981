"""What is played to the caller, 20 ms at a time, and the evidence of it."""

from __future__ import annotations

from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.audio.port import AudioSource, Loss
from parlora.contract.channel import PlaybackEvidence, PlaybackStage

FRAME_US: Final = 20_000
OBSERVE_EVERY_TICKS: Final = 25  # the latest position of each stage twice a second, not one event a frame


class Playback:
    """Takes from the playback port at media rate; silence fills what is missing.

    Audio waits in the port's ring, where a clear reaches it without this process; here lies one read at most
    (`read_bytes`, at least the largest frame), and it is dropped as soon as the ring's epoch has moved on.
    """

    def __init__(self, source: AudioSource, format: AudioFormat, read_bytes: int) -> None:
        self._source = source
        self._format = format
        self._read_bytes = read_bytes
        self._silence = format.silence(FRAME_US)
        self._store = bytearray()
        self._epoch = source.epoch
        self._suppressed = False
        self._ticks = 0
        self._observed = (0, 0)
        self._playing = False
        self._unsaid = Loss()  # dropped, and not yet told by a control
        self.played_bytes = 0
        self.underruns = 0

    @property
    def epoch(self) -> int:
        """The playback epoch in use."""
        return self._epoch

    def next_frame(self) -> bytes:
        """What is played now, exactly 20 ms. Raises `Closed` when the session has ended and nothing is left."""
        self._ticks += 1
        self._follow_epoch()
        if self._suppressed:
            self._throw_away()
            return self._silence
        while len(self._store) < len(self._silence):
            arrived = self._source.read(self._read_bytes)
            if not arrived:
                break
            for piece in arrived:
                self._store += piece.data
        frame = bytes(self._store[: len(self._silence)])
        del self._store[: len(frame)]
        self.played_bytes += len(frame)
        if len(frame) < len(self._silence) and self._playing:
            self.underruns += 1  # an end of speech is one too: a ring does not know why it is empty
        self._playing = len(frame) == len(self._silence)
        return frame + self._silence[len(frame) :]

    def clear(self, epoch: int) -> Loss:
        """Adopt `epoch`, drop what is older; returns what was dropped in the ring and here."""
        self._unsaid += self._source.clear(epoch)
        self._follow_epoch()
        return self._say()

    def suppress(self, on: bool) -> Loss:
        """Throw output away while on; what waited before is not played afterwards.

        Returns everything dropped since the last control told of it.
        """
        self._drop()
        if self._suppressed and not on:
            self._throw_away()
        self._suppressed = on
        return self._say()

    def observations(self) -> list[dict[str, Any]]:
        """Payloads of `playback_observed` that are due now: at most one for each stage every 500 ms."""
        if self._ticks % OBSERVE_EVERY_TICKS:
            return []
        handed_off = self.played_bytes
        queued = handed_off + len(self._store) + self._source.status().queued_bytes
        found = []
        if handed_off != self._observed[0]:
            found.append(self._range(PlaybackStage.HANDED_OFF, PlaybackEvidence.HANDOFF, self._observed[0], handed_off))
        if queued != self._observed[1] and queued > handed_off:
            found.append(self._range(PlaybackStage.QUEUED, PlaybackEvidence.QUEUE, handed_off, queued))
        self._observed = (handed_off, queued)
        return found

    def cleared(self, loss: Loss) -> dict[str, Any]:
        """The payload of `playback_observed` for a clear that dropped something."""
        end = self.played_bytes + loss.bytes
        return self._range(PlaybackStage.CLEARED, PlaybackEvidence.QUEUE, self.played_bytes, end)

    def _range(self, stage: PlaybackStage, evidence: PlaybackEvidence, first: int, end: int) -> dict[str, Any]:
        size = self._format.sample_bytes * self._format.channels
        return {
            "stream": "output",
            "epoch": self._epoch,
            "first_sample": first // size,
            "last_sample": end // size - 1,
            "stage": str(stage),
            "evidence": str(evidence),
        }

    def _follow_epoch(self) -> None:
        if self._source.epoch != self._epoch:
            self._epoch = self._source.epoch
            self._drop()

    def _drop(self) -> None:
        size = len(self._store)
        self._store.clear()
        self._playing = False
        self._count(-(-size // len(self._silence)), size)

    def _throw_away(self) -> None:
        arrived = self._source.read(self._read_bytes)
        self._count(len(arrived), sum(len(piece.data) for piece in arrived))

    def _count(self, frames: int, size: int) -> None:
        self._unsaid += Loss(frames, size, self._format.duration_us(size))

    def _say(self) -> Loss:
        said, self._unsaid = self._unsaid, Loss()
        return said
