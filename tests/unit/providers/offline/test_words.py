"""Digits as words, and text cut into phrases."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.providers.offline.words import MAX_PHRASE_CHARACTERS, phrases, read_digits, spell_digits


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Order 124 has shipped.", "Order one two four has shipped."),
        ("It has 2 lamps and 12 chairs.", "It has 2 lamps and 12 chairs."),
        ("A120B", "A one two zero B"),
    ],
)
def test_order_numbers_are_read_digit_by_digit(text: str, spoken: str) -> None:
    assert spoken == spell_digits(text)


@given(st.integers(100, 99_999_999))
def test_spelled_digits_read_back(number: int) -> None:
    assert str(number) == read_digits(f"check order {spell_digits(str(number))} please")


def test_oh_is_a_zero() -> None:
    assert read_digits("order eight oh five") == "805"


def test_phrases_end_where_a_speaker_pauses() -> None:
    assert phrases("Order one has shipped. It arrives  on Friday! Fine?") == [
        "Order one has shipped.",
        "It arrives on Friday!",
        "Fine?",
    ]


@given(st.text(st.sampled_from("ab ,.!\n"), max_size=1_000))
def test_phrases_keep_every_word_and_the_bound(text: str) -> None:
    found = phrases(text)

    assert all(0 < len(phrase) <= MAX_PHRASE_CHARACTERS for phrase in found)
    assert "".join(text.split()) == "".join("".join(found).split())
