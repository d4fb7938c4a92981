"""The speaking half: text in, exactly as many samples out as are asked for, cut within 5 ms when interrupted.

Synthesis takes tens of milliseconds, so it is not done in here: `wanted()` names the next phrase to synthesize and
`supply()` brings it back. Until then `take` gives silence. The owner may do that inline or on another thread.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from parlora.providers.offline.happenings import AssistantSaid, AssistantStarted, AssistantStopped, Happening
from parlora.providers.offline.samples import WIRE_RATE_HZ, Samples, to_bytes
from parlora.providers.offline.synthesizer import Speech
from parlora.providers.offline.words import phrases

SAMPLES_PER_MS: Final = WIRE_RATE_HZ // 1000
FADE_SAMPLES: Final = 5 * SAMPLES_PER_MS  # a hard cut would click
PHRASES_AHEAD: Final = 2  # synthesized and not yet played; more would only be thrown away by an interruption


@dataclass(frozen=True, slots=True)
class Phrase:
    """One piece to synthesize; `number` tells equal texts apart."""

    text: str
    number: int


class _Playing:
    """A synthesized phrase and how much of it was handed out."""

    def __init__(self, phrase: Phrase, speech: Speech) -> None:
        self.phrase = phrase
        self.speech = speech
        self.played = 0
        self.start_ms = 0

    @property
    def left(self) -> int:
        return len(self.speech.audio) - self.played


class Speaker:
    """Counts time in samples handed out; holds no clock and no thread. One thread at a time."""

    def __init__(self) -> None:
        self._texts: deque[Phrase] = deque()
        self._asked: Phrase | None = None
        self._ready: deque[_Playing] = deque()
        self._fade: Samples = np.zeros(0, np.int16)
        self._number = 0
        self._samples = 0
        self._started = False
        self._happened: list[Happening] = []

    @property
    def now_ms(self) -> int:
        """Audio handed out so far."""
        return self._samples // SAMPLES_PER_MS

    @property
    def speaking(self) -> bool:
        """Whether anything is left to say."""
        return bool(self._texts or self._asked or self._ready)

    @property
    def audible(self) -> bool:
        """Whether the next `take` has sound to give: speech that is synthesized, or the fade of an interruption."""
        return bool(self._ready or len(self._fade))

    def say(self, text: str) -> None:
        """Speak `text` after everything said before. The caller of this bounds how much waits."""
        for piece in phrases(text):
            self._number += 1
            self._texts.append(Phrase(piece, self._number))

    def wanted(self) -> Phrase | None:
        """The phrase to synthesize next; the same phrase is named once. None while enough is ready."""
        if self._asked is not None or not self._texts or len(self._ready) >= PHRASES_AHEAD:
            return None
        self._asked = self._texts.popleft()
        return self._asked

    def supply(self, phrase: Phrase, speech: Speech) -> None:
        """The speech for a phrase that `wanted` named; dropped if it was interrupted meanwhile."""
        if phrase != self._asked:
            return
        self._asked = None
        self._ready.append(_Playing(phrase, speech))

    def take(self, count: int) -> bytes:
        """Exactly `count` samples of mono PCM16 at 24 kHz, silence where there is nothing to say."""
        out = np.zeros(count, np.int16)
        filled = min(count, len(self._fade))
        out[:filled], self._fade = self._fade[:filled], self._fade[filled:]
        while filled < count and self._ready:
            filled += self._play(self._ready[0], out[filled:], self._samples + filled)
        self._samples += count
        return to_bytes(out)

    def advance_to(self, position_ms: int) -> None:
        """Count silence up to `position_ms` as handed out, so that this clock follows the listener's between texts."""
        if not self.audible:
            self._samples = max(self._samples, position_ms * SAMPLES_PER_MS)

    def interrupt(self) -> str:
        """Drop everything not handed out yet and return its text; the phrase that is cut counts whole.

        The transcript keeps the words that had begun. Returns an empty text if nothing was being said.
        """
        if not self.speaking:
            return ""
        dropped = [playing.phrase for playing in self._ready]
        dropped += [self._asked] if self._asked else []
        dropped += self._texts
        self._texts.clear()
        self._asked = None
        if self._ready and self._ready[0].played:
            self._cut(self._ready[0])
        self._ready.clear()
        self._started = False
        self._happened.append(AssistantStopped(self.now_ms, interrupted=True))
        return " ".join(phrase.text for phrase in dropped)

    def poll(self) -> list[Happening]:
        """What happened since the last call."""
        happened, self._happened = self._happened, []
        return happened

    def _play(self, playing: _Playing, out: Samples, position: int) -> int:
        if not self._started:
            self._started = True
            self._happened.append(AssistantStarted(position // SAMPLES_PER_MS))
        if playing.played == 0:
            playing.start_ms = position // SAMPLES_PER_MS
        count = min(len(out), playing.left)
        out[:count] = playing.speech.audio[playing.played : playing.played + count]
        playing.played += count
        if playing.left == 0:
            self._ready.popleft()
            self._said(playing, playing.phrase.text, (position + count) // SAMPLES_PER_MS, cut=False)
        return count

    def _said(self, playing: _Playing, text: str, end_ms: int, *, cut: bool) -> None:
        self._happened.append(AssistantSaid(end_ms, playing.start_ms, end_ms, text, cut))
        if not cut and not self.speaking:
            self._started = False
            self._happened.append(AssistantStopped(end_ms, interrupted=False))

    def _cut(self, playing: _Playing) -> None:
        tail = playing.speech.audio[playing.played : playing.played + FADE_SAMPLES]
        self._fade = (tail * np.linspace(1.0, 0.0, len(tail))).astype(np.int16)
        self._said(playing, playing.speech.heard(playing.phrase.text, playing.played), self.now_ms, cut=True)
