"""Speech recognition: PocketSphinx over a grammar, with rejection of what is not in it.

A grammar decoder alone makes a command of nearly everything it hears (44 of 50 unknown sentences, most with an order
number). So a second decoder hears the same audio as a free loop of phones: it says how well *any* sounds would have
fitted. The worst word's distance to it, in nats per frame, is the margin; below a threshold the sentence is unknown.

PocketSphinx holds the GIL while it decodes: feed 20 ms at a time (at most 9 ms each), never a whole utterance where
other threads must keep time. One thread at a time may use a recognizer.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from parlora.errors import InvalidArgument
from parlora.providers.offline.extras import load_extra, pocketsphinx_model
from parlora.providers.offline.grammar import Grammar
from parlora.providers.offline.pronunciation import Pronunciations, dictionary
from parlora.providers.offline.samples import LISTEN_RATE_HZ

DEFAULT_REJECT_BELOW: Final = -4.5  # chosen on 50 unknown sentences: 5 of 100 others accepted, 1 of 256 good ones lost

# The cepstral means of ordinary clear speech. A decoder that starts without them mishears most first utterances
# (13 of 22 orders right instead of 22).
_WARM_MEANS: Final = "46.98,-6.27,-2.59,-0.60,-3.22,-4.19,-3.26,3.96,-1.10,-1.88,-1.55,-0.42,0.54"
_SCORE_SCALE: Final = 1024  # segment scores come scaled by 2**-10 while the best-path search is off
_VARIANT: Final = re.compile(r"\(\d+\)")


@dataclass(frozen=True, slots=True)
class Recognition:
    """What an utterance was taken for: `text` is empty for unknown speech; the nearer `margin` is to 0 the surer."""

    text: str
    margin: float


class GrammarRecognizer:
    """Hears utterances of one grammar: `start`, then `feed` in 20 ms pieces, then `stop`.

    `reject_below` is the margin under which speech is unknown; None turns rejection off and halves the work.
    It is a property of the channel: the default suits a clear one (headset, file), not a telephone line.
    """

    def __init__(
        self,
        grammar: Grammar,
        *,
        pronounce: Pronunciations | None = None,
        reject_below: float | None = DEFAULT_REJECT_BELOW,
    ) -> None:
        self.grammar = grammar
        self._reject_below = reject_below
        self._decoder = _decoder(dictionary(grammar.words, pronounce), bestpath=False)
        self._decoder.add_jsgf_string("user", grammar.to_jsgf())
        self._decoder.activate_search("user")
        self._decoders = [self._decoder]
        self._phones: Any = None
        if reject_below is not None:
            self._phones = _decoder(
                dictionary(["yes"]),  # a decoder needs some dictionary; the phone loop does not use it
                allphone=pocketsphinx_model("en-us/en-us-phone.lm.bin"),
                lw=2.0,
                beam=1e-20,
                pbeam=1e-20,
            )
            self._decoders.append(self._phones)
        for decoder in self._decoders:
            decoder.set_cmn(_WARM_MEANS)

    def start(self) -> None:
        """Begin an utterance."""
        for decoder in self._decoders:
            decoder.start_utt()

    def feed(self, audio: bytes) -> None:
        """Add mono PCM16 at 16 kHz."""
        for decoder in self._decoders:
            decoder.process_raw(audio, False, False)

    def partial_is_whole(self) -> bool:
        """Whether what was heard so far is a whole sentence of the grammar (more may still follow)."""
        return self.grammar.accepts(self._words())

    def stop(self) -> Recognition:
        """End the utterance."""
        for decoder in self._decoders:
            decoder.end_utt()
        words = self._words()
        if not self.grammar.accepts(words):  # a final hypothesis may still stop in the middle of a rule
            return Recognition("", -math.inf)
        margin = self._margin() if self._phones is not None else 0.0
        known = self._reject_below is None or margin >= self._reject_below
        return Recognition(" ".join(words) if known else "", margin)

    def _words(self) -> list[str]:
        hypothesis = self._decoder.hyp()
        return _VARIANT.sub("", hypothesis.hypstr).split() if hypothesis else []

    def _margin(self) -> float:
        free = [(s.start_frame, s.end_frame, _log(s.ascore)) for s in self._phones.seg()]
        worst = 0.0
        for word in self._decoder.seg():
            if word.word.startswith(("<", "(")):  # silence, and the grammar's empty transitions
                continue
            first, last = word.start_frame, word.end_frame
            loop = sum(score * _overlap(first, last, a, b) / (b - a + 1) for a, b, score in free)
            worst = min(worst, (_log(word.ascore) - loop) / (last - first + 1))
        return worst * _SCORE_SCALE


def check_reject_below(value: object, field: str = "reject_below") -> float | None:
    """The option as a number, or None for no rejection; raises `InvalidArgument`."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -100.0 <= value <= 0.0:
        raise InvalidArgument(f"{field} must be a number from -100 to 0, or None for no rejection", field=field)
    return float(value)


def _overlap(first: int, last: int, start: int, end: int) -> int:
    return max(0, min(last, end) - max(first, start) + 1)


def _log(probability: float) -> float:
    return math.log(max(probability, 1e-320))  # a long bad segment underflows to 0


def _decoder(words: str, **settings: Any) -> Any:
    sphinx = load_extra("pocketsphinx")
    with _as_file(words) as path:
        config = sphinx.Config(
            samprate=LISTEN_RATE_HZ,
            loglevel="FATAL",
            hmm=pocketsphinx_model("en-us/en-us"),
            dict=path,
            dither=True,  # digital silence has no logarithm
            **settings,
        )
        config["lm"] = None
        return sphinx.Decoder(config)


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A file name for `text` that leaves no file behind, however this process ends."""
    descriptor = os.memfd_create("parlora-dictionary", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
