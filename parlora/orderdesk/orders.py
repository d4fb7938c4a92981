"""The fictional orders, and each thing known about them as the one sentence in which it is spoken.

Sentences read the number back digit by digit: recognition is never sure, and the caller hears what was understood. They
hold no colon or full stop before their end, so that a synthesizer says each in one breath.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

DIGITS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class Operation(StrEnum):
    """What can be asked about an order."""

    STATUS = "status"
    ITEMS = "items"
    DELIVERY = "delivery"


@dataclass(frozen=True, slots=True)
class Order:
    """One order of the demonstration's only customer. The texts follow the number in a sentence."""

    number: str
    status: str
    items: str
    delivery: str

    def sentence(self, operation: Operation) -> str:
        """The spoken answer."""
        number = spoken(self.number)
        if operation is Operation.STATUS:
            return f"Order {number} {self.status}."
        if operation is Operation.ITEMS:
            return f"Order {number} contains {self.items}."
        return f"For order {number}, {self.delivery}."


ORDERS: Final[Mapping[str, Order]] = MappingProxyType(
    {
        order.number: order
        for order in (
            Order(
                "123",
                "is on its way and arrives on Friday",
                "two lamps, one chair and three books",
                "leave the parcel behind the garden gate, then ring the bell twice and wait for somebody to open the"
                " window",
            ),
            Order(
                "124",
                "was cancelled on Monday",
                "four tables and a mirror",
                "carry the boxes up the stairs and put them down beside the kitchen door",
            ),
            Order(
                "825",
                "is being packed and leaves on Sunday",
                "six green bottles and a basket",
                "give the parcel to the man at the front desk and ask him for his name",
            ),
        )
    }
)


def spoken(number: str) -> str:
    """Digits as words: "123" becomes "one two three"."""
    return " ".join(DIGITS[int(digit)] for digit in number)


def not_found(number: str) -> str:
    """What is said about an order that does not exist."""
    return f"I can not find order {spoken(number)}."
