"""Numbers as people say them: order 124 is spoken, and heard, as one two four."""

from __future__ import annotations

import re
from typing import Final

DIGITS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_VALUES: Final = {**{word: str(value) for value, word in enumerate(DIGITS)}, "oh": "0"}
_NUMBER: Final = re.compile(r"\d{3,}")
_LETTER_DIGIT_EDGE: Final = re.compile(r"(?<=[A-Za-z])(?=\d{3})|(?<=\d{3})(?=[A-Za-z])")
_PHRASE_END: Final = re.compile(r"(?<=[.!?;:])\s+")
MAX_PHRASE_CHARACTERS: Final = 160  # about 9 s of speech: 60 ms of synthesis before its first sample


def spell_digits(text: str) -> str:
    """`text` with numbers of three digits or more read digit by digit: "order 124" becomes "order one two four".

    Shorter ones stay: the synthesizer reads "2 lamps" and "12 chairs" well.
    """
    apart = _LETTER_DIGIT_EDGE.sub(" ", text)
    return _NUMBER.sub(lambda match: " ".join(DIGITS[int(digit)] for digit in match[0]), apart)


def read_digits(text: str) -> str:
    """The digits spoken in `text`, in order: "check order one two oh please" gives "120"."""
    return "".join(_VALUES[word] for word in text.lower().split() if word in _VALUES)


def phrases(text: str) -> list[str]:
    """`text` cut where a speaker would pause, none longer than 160 characters, so that speech starts soon."""
    found = []
    for sentence in _PHRASE_END.split(" ".join(text.split())):
        rest = sentence
        while len(rest) > MAX_PHRASE_CHARACTERS:
            end = _last_break(rest)
            found.append(rest[:end].rstrip())
            rest = rest[end:].lstrip()
        if rest:
            found.append(rest)
    return found


def _last_break(text: str) -> int:
    """Where to cut a long sentence: after the last comma within the limit, else at the last space, else hard."""
    window = text[:MAX_PHRASE_CHARACTERS]
    for mark in (", ", " "):
        end = window.rfind(mark)
        if end > 0:
            return end + 1
    return MAX_PHRASE_CHARACTERS
