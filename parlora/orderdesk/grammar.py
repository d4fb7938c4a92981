"""What the caller may say, and everything the desk may answer, as JSGF rules with the top rule `<user>`."""

from __future__ import annotations

import re
from typing import Final

from parlora.orderdesk.orders import DIGITS, ORDERS, Operation, spoken

_NUMBER_RULES: Final = f"""
<digit> = {" | ".join(DIGITS)};
<number> = <digit> <digit> <digit>;
"""

CALLER: Final = (
    _NUMBER_RULES
    + """
<order> = [the | my] order [number] <number>;
<which> = <order> | that order;
<status> = what is the status of <which> | check <order> | where is (<which> | my order) | what is the status;
<items> = what items are in <which> | what is in <which>;
<delivery> = what are the delivery instructions for <which>;
<correction> = (actually | no) (check <order> | <order> | <number>) | [no] i meant (<order> | <number> | another order);
<presence> = are you there | thank you;
<user> = [hello] (<status> | <items> | <delivery>) [please] | <correction> | <presence> | <number> | <order>;
"""
)
"""The caller: questions, corrections, bare numbers. Short words alone, which noise resembles, are no sentences."""

QUESTION: Final = "Which order is it? Please say its three digits."
"""Asked when no order could be understood."""

REPROMPT: Final = "Sorry, I did not understand that."
"""Said once after unknown speech."""


def desk() -> str:
    """The desk's own speech: every fact of every order with every number, whole or cut at any word.

    Numbers and facts are independent on purpose: speech recognized with this grammar is evidence of what was said, for
    it could have been anything else that the desk knows. Sentences may follow each other in one breath.
    """
    statements = [_cut_anywhere(_after_number(number, operation)) for number in ORDERS for operation in _ABOUT_ORDER]
    deliveries = [_cut_anywhere(_after_number(number, Operation.DELIVERY)) for number in ORDERS]
    others = [words(sentence) for text in (QUESTION, REPROMPT) for sentence in re.split(r"(?<=[.?])\s", text)]
    return (
        f"{_NUMBER_RULES}"
        f"<statement> = order <number> [{' | '.join(statements)}] | for order <number> [{' | '.join(deliveries)}]"
        f" | i can not find order <number>;\n"
        f"<sentence> = <statement> | {' | '.join(others)};\n"
        f"<user> = <sentence>+;\n"  # with one sentence only, a second one in the same breath would go unheard
    )


def words(text: str) -> str:
    """Lower-case words with single spaces, as a recognizer writes them."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


_ABOUT_ORDER: Final = (Operation.STATUS, Operation.ITEMS)


def _after_number(number: str, operation: Operation) -> str:
    """The words of a sentence behind its number: that is where the fact is."""
    _, _, fact = words(ORDERS[number].sentence(operation)).partition(spoken(number))
    return fact.strip()


def _cut_anywhere(sentence: str) -> str:
    """`a b c` as `a [b [c]]`: someone who is interrupted stops after any word."""
    head, _, rest = sentence.partition(" ")
    return f"{head} [{_cut_anywhere(rest)}]" if rest else head
