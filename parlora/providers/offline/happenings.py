"""What the voice engine reports. All times are milliseconds of audio, counted in samples, never read from a clock.

`at_ms` is when the engine knew; `start_ms` and `end_ms` are when it was.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallerStarted:
    """The caller began to speak; known about 50 ms later."""

    at_ms: int
    start_ms: int


@dataclass(frozen=True, slots=True)
class CallerStopped:
    """The caller has been silent for the end-of-speech time."""

    at_ms: int
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True)
class CallerSaid:
    """One utterance of the caller: words of the grammar, or `text` empty for unknown speech."""

    at_ms: int
    start_ms: int
    end_ms: int
    text: str
    margin: float


@dataclass(frozen=True, slots=True)
class AssistantStarted:
    """The first sample of an utterance was handed out."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class AssistantSaid:
    """One phrase was handed out whole or, with `cut`, up to the word that had begun when it was interrupted."""

    at_ms: int
    start_ms: int
    end_ms: int
    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class AssistantStopped:
    """Nothing is left to say; `interrupted` if something was dropped."""

    at_ms: int
    interrupted: bool


Happening = CallerStarted | CallerStopped | CallerSaid | AssistantStarted | AssistantSaid | AssistantStopped
