"""Who speaks when: the scripted caller, on virtual time.

Every 20 ms the channel tells what it played (`played`) and takes what the caller says (`next_frame`). A clip is
released by what the assistant was heard to do, not by the clock, so that a slow machine's answer is not barged into.
Holds no clock, file or thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

FRAME_MS: Final = 20
UTTERANCE_GAP_MS: Final = 500  # silence that separates two utterances of the assistant: a comma's pause is shorter


@dataclass(frozen=True, slots=True)
class Release:
    """When a clip begins.

    after_utterances: how many utterances the assistant must have begun since the caller's last word.
    after_silence_ms: and then silence for so long; or
    while_speaking_ms: and then so long after the last of them began, while it goes on.
    """

    after_utterances: int
    after_silence_ms: int | None = None
    while_speaking_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Clip:
    """Something the caller says."""

    audio: bytes = field(repr=False)
    release: Release


@dataclass(frozen=True, slots=True)
class ClipStarted:
    """The clip with this index (from 0) begins with the frame just taken."""

    index: int


@dataclass(frozen=True, slots=True)
class ClipEnded:
    """Its last frame was taken."""

    index: int


@dataclass(frozen=True, slots=True)
class HungUp:
    """All is said and the condition for the end is met."""


@dataclass(frozen=True, slots=True)
class GaveUp:
    """What the clip (or, after the last, the hang-up) waits for has not come within `waited_ms`."""

    index: int
    waited_ms: int


Step = ClipStarted | ClipEnded | HungUp | GaveUp


class AssistantMeter:
    """What the assistant was heard to do: how long it has been silent, and how many utterances it has begun."""

    def __init__(self) -> None:
        self.silence_ms = 0
        self.utterance_ms = 0  # since the current utterance began; 0 between utterances
        self.begun = 0

    def played(self, loud: bool) -> None:
        """Add 20 ms of what was played."""
        if loud:
            if self.utterance_ms == 0:
                self.begun += 1
            self.silence_ms = 0
        else:
            self.silence_ms += FRAME_MS
        if self.silence_ms >= UTTERANCE_GAP_MS:
            self.utterance_ms = 0
        elif loud or self.utterance_ms:
            self.utterance_ms += FRAME_MS


class ScriptedCaller:
    """Says the clips one after another, and silence between them; then hangs up if `hang_up` says when.

    `silence` is one frame of silence and `is_loud` judges a frame. A wait longer than `patience_ms` ends in `GaveUp`.
    """

    def __init__(
        self,
        clips: Sequence[Clip],
        silence: bytes,
        is_loud: Callable[[bytes], bool],
        *,
        hang_up: Release | None,
        patience_ms: int,
    ) -> None:
        self._clips = list(clips)
        self._silence = silence
        self._is_loud = is_loud
        self._hang_up = hang_up
        self._patience_ms = patience_ms
        self._meter = AssistantMeter()
        self._index = 0
        self._frames: list[bytes] = []  # of the clip that plays, the next one last
        self._own_silence_ms = 0
        self._begun_before = 0  # utterances of the assistant that are no answer to the caller's last word
        self._waited_ms = 0
        self._over = False
        self._steps: list[Step] = []

    def played(self, loud: bool) -> None:
        """20 ms were played to the caller."""
        self._meter.played(loud)

    def next_frame(self) -> bytes:
        """The caller's next 20 ms; between clips the very `silence` that was given."""
        if not self._frames:
            self._own_silence_ms += FRAME_MS
            self._consider()
        if not self._frames:
            return self._silence
        frame = self._frames.pop()
        if self._is_loud(frame):
            self._begun_before = self._meter.begun
        if not self._frames:
            self._steps.append(ClipEnded(self._index))
            self._index += 1
            self._own_silence_ms = self._waited_ms = 0
        return frame

    def steps(self) -> list[Step]:
        """What happened since the last call."""
        steps, self._steps = self._steps, []
        return steps

    def _consider(self) -> None:
        """Begin the next clip or hang up, if it is time."""
        if self._over:
            return
        last = self._index == len(self._clips)
        release = self._hang_up if last else self._clips[self._index].release
        if release is None:
            self._over = True
        elif self._is_due(release):
            if last:
                self._over = True
                self._steps.append(HungUp())
            else:
                self._frames = _frames(self._clips[self._index].audio, self._silence)
                self._steps.append(ClipStarted(self._index))
        else:
            self._waited_ms += FRAME_MS
            if self._waited_ms >= self._patience_ms:
                self._over = True
                self._steps.append(GaveUp(self._index, self._waited_ms))

    def _is_due(self, release: Release) -> bool:
        if self._meter.begun - self._begun_before < release.after_utterances:
            return False
        if release.while_speaking_ms is not None:
            return self._meter.utterance_ms > release.while_speaking_ms
        silence_ms = min(self._meter.silence_ms, self._own_silence_ms)
        return release.after_silence_ms is not None and silence_ms >= release.after_silence_ms


def _frames(audio: bytes, silence: bytes) -> list[bytes]:
    """Frames of 20 ms, last first; the last one is filled up with silence."""
    size = len(silence)
    frames = [audio[start : start + size] for start in range(0, len(audio), size)]
    frames[-1] += silence[len(frames[-1]) :]
    return frames[::-1]
