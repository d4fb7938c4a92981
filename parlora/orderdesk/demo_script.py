"""The caller of the demonstration: what is said and when, and what must and must not be answered.

The caller asks how order 124 stands and corrects that to 123 while the lookup of 124 is still running. That lookup
cannot be stopped: its result arrives after the correction, and saying it then would be wrong. Later the caller cuts
a long answer short with a question about the items of "that order".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from parlora.orderdesk.evidence import Statement
from parlora.orderdesk.orders import Operation

LOOKUP_DELAYS_MS: Final = {"123": 500, "124": 6_000, "825": 500}
"""The lookup of 124 outlasts the correction, which takes about 4 s from the end of the first question."""

IGNORES_CANCEL: Final = ("124",)


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of the caller and when it is said, in the words of the WAV channel's clips.

    It waits until the assistant has begun `after_utterances` utterances since the caller's last word, and then for so
    much silence or, to interrupt, until the assistant has been speaking for so long.
    """

    text: str
    after_utterances: int = 1
    after_silence_ms: int = 800
    while_speaking_ms: int | None = None

    def clip(self, path: str) -> dict[str, Any]:
        """This line, spoken in the WAV file `path`, as one of the channel's `clips`."""
        if self.while_speaking_ms is not None:
            when = {"while_speaking_ms": self.while_speaking_ms}
        else:
            when = {"after_silence_ms": self.after_silence_ms}
        return {"path": path, "after_utterances": self.after_utterances, **when}


SCRIPT: Final[tuple[Line, ...]] = (
    Line("what is the status of order one two four", after_utterances=0),
    # Nothing has been answered by then: the pause after the caller's own words is enough.
    Line("actually check order one two three", after_utterances=0),
    Line("what are the delivery instructions for that order"),
    Line("what items are in that order", while_speaking_ms=2_000),
)


def clips(paths: Sequence[str]) -> list[dict[str, Any]]:
    """The option `clips` of the WAV channel, given a WAV file for each line of `SCRIPT`."""
    return [line.clip(path) for line, path in zip(SCRIPT, paths, strict=True)]


ANSWERS: Final = (("123", Operation.STATUS), ("123", Operation.ITEMS))
"""What the caller must have been told, in this order."""

SUPERSEDED: Final = "124"
"""The order that was taken back: nothing about it may be said."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the assistant's own speech proves. `stale`: statements about the order that was taken back, or untrue."""

    missing: tuple[tuple[str, str], ...]
    stale: tuple[Statement, ...]

    @property
    def ok(self) -> bool:
        """Whether everything asked for was said and nothing else about another order."""
        return not self.missing and not self.stale


def judge(said: Sequence[Statement]) -> Verdict:
    """Compare what was said, in the order of speech, with what the script asks for."""
    wanted = list(ANSWERS)
    for statement in said:
        if wanted and statement.true and (statement.number, statement.operation) == wanted[0]:
            wanted.pop(0)
    stale = tuple(each for each in said if not each.true or SUPERSEDED in (each.number, each.fact_of))
    return Verdict(tuple((number, str(operation)) for number, operation in wanted), stale)
