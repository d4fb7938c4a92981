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
    """One sentence of the caller.

    It is spoken `after_silence_ms` of silence from both sides or, where `interrupts_after_ms` is given, so long after
    the assistant began to speak: an interruption. `answered`: the assistant must have said something since the last
    line.
    """

    text: str
    after_silence_ms: int = 800
    interrupts_after_ms: int | None = None
    answered: bool = True

    def clip(self, path: str) -> dict[str, Any]:
        """This line, spoken in the WAV file `path`, as one of the WAV channel's `clips`."""
        clip: dict[str, Any] = {"path": path, "after_utterances": 1 if self.answered else 0}
        if self.interrupts_after_ms is not None:
            clip["while_speaking_ms"] = self.interrupts_after_ms
        else:
            clip["after_silence_ms"] = self.after_silence_ms
        return clip


SCRIPT: Final[tuple[Line, ...]] = (
    Line("what is the status of order one two four", answered=False),
    # Nothing has been answered by then: the pause after the caller's own words is enough.
    Line("actually check order one two three", answered=False),
    Line("what are the delivery instructions for that order"),
    Line("what items are in that order", interrupts_after_ms=2_000),
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
