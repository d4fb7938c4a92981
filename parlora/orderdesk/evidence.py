"""What the desk has said, read from recognized speech: which fact, about which order, and whether that is true."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from parlora.orderdesk.grammar import words
from parlora.orderdesk.orders import DIGITS, ORDERS, Operation, spoken


@dataclass(frozen=True, slots=True)
class Statement:
    """One whole fact as it was said: `number` is the order that was named, `fact_of` the one that it is true of."""

    number: str
    operation: Operation
    fact_of: str

    @property
    def true(self) -> bool:
        """Whether the fact belongs to the order that was named."""
        return self.number == self.fact_of


def statements(text: str) -> list[Statement]:
    """Every whole fact in `text`, in the order of speech; a sentence that was cut short states nothing."""
    heard = words(text)
    found = [
        (match.start(), Statement(_digits(match[1]), operation, owner))
        for pattern, operation, owner in _PATTERNS
        for match in pattern.finditer(heard)
    ]
    return [statement for _, statement in sorted(found, key=lambda each: each[0])]


def _digits(number: str) -> str:
    return "".join(str(DIGITS.index(word)) for word in number.split())


def _pattern(number: str, operation: Operation) -> re.Pattern[str]:
    before, _, after = words(ORDERS[number].sentence(operation)).partition(spoken(number))
    digit = f"(?:{'|'.join(DIGITS)})"
    return re.compile(rf"\b{before}({digit} {digit} {digit}){after}\b")


_PATTERNS: Final = tuple(
    (_pattern(number, operation), operation, number) for number in ORDERS for operation in Operation
)
