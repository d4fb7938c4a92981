"""What the provider needs of a speech synthesizer, so that another can take eSpeak's place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from parlora.providers.offline.samples import Samples


@dataclass(frozen=True, slots=True)
class WordMark:
    """A word of the text: it begins at `sample` and the text up to its end has `characters` characters."""

    sample: int
    characters: int


@dataclass(frozen=True, slots=True)
class Speech:
    """A spoken text: mono samples at 24 kHz, and where its words begin (empty if the synthesizer does not know)."""

    audio: Samples = field(repr=False)
    marks: tuple[WordMark, ...] = ()

    def heard(self, text: str, samples: int) -> str:
        """The beginning of `text` whose words had begun after `samples`; by proportion where there are no marks."""
        if samples >= len(self.audio):
            return text
        if self.marks:
            begun = [mark.characters for mark in self.marks if mark.sample < samples]
            return text[: begun[-1]].rstrip() if begun else ""
        words = text.split()
        return " ".join(words[: len(words) * samples // max(1, len(self.audio))])


class Synthesizer(Protocol):
    """Turns text into speech. May take tens of milliseconds, so it runs beside the media thread."""

    def speak(self, text: str) -> Speech:
        """The speech for one phrase; one thread at a time."""


SILENT = Speech(np.zeros(0, np.int16))
