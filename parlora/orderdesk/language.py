"""From the caller's words to what they ask for. Pure, bounded, and sure of nothing that was not said."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from parlora.orderdesk.orders import DIGITS, Operation

MAX_WORDS: Final = 200
"""Words of one utterance that are looked at; nobody asks for an order in more."""

_DIGIT: Final = {**{word: str(value) for value, word in enumerate(DIGITS)}, "oh": "0"}
_OPERATIONS: Final = {
    "status": Operation.STATUS,
    "check": Operation.STATUS,
    "where": Operation.STATUS,
    "shipped": Operation.STATUS,
    "arrive": Operation.STATUS,
    "items": Operation.ITEMS,
    "contains": Operation.ITEMS,
    "delivery": Operation.DELIVERY,
    "instructions": Operation.DELIVERY,
}
_CORRECTIONS: Final = {"actually", "no", "meant", "mean", "instead"}
_ANOTHER: Final = {"another", "other", "different", "wrong"}
_BACKWARD: Final = re.compile(r"\b(that|this|the same|my) order\b")
_CONTENTS: Final = re.compile(r"\bwhat is in\b")


@dataclass(frozen=True, slots=True)
class Utterance:
    """One thing the caller said.

    order: its three digits, None if none or two different ones were said. refers_back: "that order". correction: it
    takes back what was asked before. another: it takes the order back without naming one.
    """

    order: str | None = None
    operation: Operation | None = None
    refers_back: bool = False
    correction: bool = False
    another: bool = False


def understand(text: str) -> Utterance:
    """What one utterance says."""
    said = re.findall(r"[a-z']+|\d", text.lower())[:MAX_WORDS]
    corrections = [place for place, word in enumerate(said) if word in _CORRECTIONS]
    # "order one two four, no, one two three": only what follows the last correction counts.
    order = _order(said[corrections[-1] :] if corrections else said) or _order(said)
    operations = [_OPERATIONS[word] for word in said if word in _OPERATIONS]
    joined = " ".join(said)
    if _CONTENTS.search(joined):
        operations.append(Operation.ITEMS)
    # "check the delivery instructions": the word that says more than "check" comes later.
    operation = operations[-1] if operations else None
    refers_back = order is None and bool(_BACKWARD.search(joined))
    vague = bool(corrections) and operation is None and not refers_back
    another = order is None and (vague or bool(_ANOTHER & set(said)))
    return Utterance(order, operation, refers_back, bool(corrections), another)


def _order(said: Iterable[str]) -> str | None:
    numbers: set[str] = set()
    run = ""
    for word in (*said, ""):
        digit = word if word.isdigit() else _DIGIT.get(word)
        if digit is not None:
            run += digit
            continue
        if run and len(run) % 3 == 0:
            numbers.update(run[start : start + 3] for start in range(0, len(run), 3))
        run = ""
    return numbers.pop() if len(numbers) == 1 else None


@dataclass(frozen=True, slots=True)
class Wish:
    """What several utterances ask for together, a later one filling or replacing what an earlier one said.

    number_missing: the caller took an order back and named no other; nothing that is known already stands in for it.
    """

    order: str | None = None
    operation: Operation | None = None
    refers_back: bool = False
    correction: bool = False
    number_missing: bool = False

    @property
    def empty(self) -> bool:
        """Whether nothing was asked: a greeting, a presence check, thanks."""
        return not (self.order or self.operation or self.refers_back or self.number_missing)

    def then(self, said: Utterance) -> Wish:
        """The wish after one more utterance."""
        missing = self.number_missing
        if said.order is not None:
            missing = False
        elif said.another:
            missing = True
        return Wish(
            order=said.order or (None if missing or said.refers_back else self.order),
            operation=said.operation or self.operation,
            refers_back=said.refers_back or (self.refers_back and said.order is None),
            correction=said.correction or self.correction,
            number_missing=missing,
        )


def wish(captions: Iterable[str]) -> Wish:
    """What the captions, oldest first, ask for."""
    result = Wish()
    for caption in captions:
        result = result.then(understand(caption))
    return result
