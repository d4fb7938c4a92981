"""Words to meaning: digits, operations, corrections, and nothing that was not said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.orderdesk.language import Utterance, Wish, understand, wish
from parlora.orderdesk.orders import Operation, spoken

STATUS, ITEMS, DELIVERY = Operation.STATUS, Operation.ITEMS, Operation.DELIVERY


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("what is the status of order one two four", Utterance("124", STATUS)),
        ("hello check my order number eight two five please", Utterance("825", STATUS)),
        ("Check order 124.", Utterance("124", STATUS)),
        ("what items are in that order", Utterance(None, ITEMS, refers_back=True)),
        ("what is in order one oh two", Utterance("102", ITEMS)),
        ("what are the delivery instructions for that order", Utterance(None, DELIVERY, refers_back=True)),
        ("actually check order one two three", Utterance("123", STATUS, correction=True)),
        ("order one two four no one two three", Utterance("123", None, correction=True)),
        ("no i meant another order", Utterance(None, None, correction=True, another=True)),
        ("one two four one two four", Utterance("124")),
        ("one two", Utterance()),
        ("one two three four", Utterance()),
        ("one two four or one two three", Utterance()),
        ("are you there", Utterance()),
        ("", Utterance()),
    ],
)
def test_an_utterance_means_what_it_says(text: str, meaning: Utterance) -> None:
    assert understand(text) == meaning


@given(st.text(max_size=300))
def test_no_text_breaks_it_and_an_order_is_always_three_digits(text: str) -> None:
    order = understand(text).order

    assert order is None or (len(order) == 3 and order.isdecimal())


@given(st.integers(0, 999).map("{:03d}".format), st.sampled_from(["check order {}", "{}", "actually order {} please"]))
def test_every_number_is_read_back_as_it_was_spoken(number: str, sentence: str) -> None:
    assert understand(sentence.format(spoken(number))).order == number


@pytest.mark.parametrize(
    ("captions", "meaning"),
    [
        (["what is the status", "one two four"], Wish("124", STATUS)),
        (["check order one two four", "what items are in that order"], Wish(None, ITEMS, refers_back=True)),
        (["check order one two four", "actually check order one two three"], Wish("123", STATUS, correction=True)),
        (["no i meant another order"], Wish(correction=True, number_missing=True)),
        (["no i meant another order", "what is the status"], Wish(None, STATUS, correction=True, number_missing=True)),
        (["no i meant another order", "one two three"], Wish("123", None, correction=True)),
        (["thank you", "are you there"], Wish()),
    ],
)
def test_what_is_said_later_fills_in_or_replaces(captions: list[str], meaning: Wish) -> None:
    assert wish(captions) == meaning


@given(st.lists(st.sampled_from(["are you there", "thank you"])))
def test_small_talk_asks_for_nothing(captions: list[str]) -> None:
    assert wish(captions).empty
