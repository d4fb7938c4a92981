"""Scripted detectors and synthesis, so that the halves of the voice can be driven on virtual time."""

import numpy as np

from parlora.providers.offline.grammar import Grammar
from parlora.providers.offline.recognizer import Recognition
from parlora.providers.offline.synthesizer import Speech, WordMark

MS = 24


class ScriptedActivity:
    """Answers from a string: x is speech, anything else is silence; silence after its end."""

    def __init__(self, script: str) -> None:
        self._script = iter(script)

    def __call__(self, frame: bytes) -> bool:
        assert len(frame) == 640
        return next(self._script, ".") == "x"


class ScriptedRecognizer:
    """Hears `text`; counts frames."""

    def __init__(self, text: str = "yes", whole: bool = True) -> None:
        self.grammar = Grammar.parse("<user> = yes;")
        self.text = text
        self.whole = whole
        self.fed = 0
        self.most_per_turn = 0

    def start(self) -> None:
        self.fed = 0

    def feed(self, audio: bytes) -> None:
        assert len(audio) == 640
        self.fed += 1

    def partial_is_whole(self) -> bool:
        return self.whole

    def stop(self) -> Recognition:
        return Recognition(self.text, -1.0)


def one_word_per_100_ms(text: str) -> Speech:
    """A constant tone with word marks."""
    words = text.split()
    ends = [len(" ".join(words[: count + 1])) for count in range(len(words))]
    marks = tuple(WordMark(100 * MS * index, end) for index, end in enumerate(ends))
    return Speech(np.full(100 * MS * len(words), 1_000, np.int16), marks)
