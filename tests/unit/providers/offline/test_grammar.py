"""Grammars: what is accepted, and one clear error for what is not."""

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.errors import InvalidArgument
from parlora.providers.offline.grammar import Grammar

RULES = """
<digit> = zero | one | two;            // three would do
<number> = <digit> <digit>+;
<user> = [uh | well] ( /0.8/ check [the] order <number> | /0.2/ what's in that order | yes ) [please];
"""


@pytest.mark.parametrize(
    "sentence",
    [
        "yes",
        "uh yes please",
        "check order one two",
        "well check the order one two zero two please",
        "what's in that order",
    ],
)
def test_a_whole_sentence_is_accepted(sentence: str) -> None:
    assert Grammar.parse(RULES).accepts(sentence.split())


@pytest.mark.parametrize(
    "sentence", ["", "check", "check order", "check order one", "yes yes", "please", "uh well yes"]
)
def test_a_part_or_a_surplus_is_not_a_sentence(sentence: str) -> None:
    assert not Grammar.parse(RULES).accepts(sentence.split())


def test_words_are_those_of_every_rule() -> None:
    words = ["zero", "one", "two", "uh", "well", "check", "the", "order", "what's", "in", "that", "yes", "please"]

    assert set(words) == Grammar.parse(RULES).words


def test_written_rules_read_back_to_the_same_grammar() -> None:
    grammar = Grammar.parse(RULES)
    body = grammar.to_jsgf().split("\n", 2)[2]

    assert grammar.words == Grammar.parse(body).words
    assert Grammar.parse(body).accepts(["check", "the", "order", "one", "two"])


@pytest.mark.parametrize(
    ("rules", "complaint"),
    [
        ("", "must be JSGF rules"),
        (None, "must be JSGF rules"),
        ("<top> = yes;", "has no rule <user>"),
        ("<user> = <missing>;", "uses <missing>, which is not defined"),
        ("<user> = yes <user>;", "refers to itself"),
        ("<user> = yes;\n<user> = no;", "defined twice"),
        ("<user> = ( yes | no;", "expected ')'"),
        ("<user> = yes", "found the end, expected ';'"),
        ("<user> = ;", "expected a word"),
        ("<user> = order 12;", "numbers spelled out"),
        ("<user> = /-1/ yes;", "weight above 0"),
        ("<user> = yes {tag};", "found '{'"),
        ("#JSGF V1.0; grammar x;", "found '#'"),
        ("<user> = " + "yes " * 20_000 + ";", "at most 65536 characters"),
    ],
)
def test_a_bad_grammar_is_one_error_with_field_and_place(rules: object, complaint: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(complaint)) as caught:
        Grammar.parse(rules, "provider.grammar")

    assert caught.value.details["field"] == "provider.grammar"


@given(
    st.recursive(st.sampled_from(["yes", "no", "well"]), lambda inner: st.builds("( {} | {} )+".format, inner, inner))
)
def test_nested_repetition_is_decided_quickly(body: str) -> None:
    grammar = Grammar.parse(f"<user> = {body};")

    assert not grammar.accepts(["yes"] * 40 + ["stranger"])


@given(st.text())
def test_any_text_is_a_grammar_or_an_invalid_argument(text: str) -> None:
    with contextlib.suppress(InvalidArgument):
        Grammar.parse(text)
