"""The grammar an application gives: JSGF rules, checked, and the question whether a sentence is whole.

    grammar = Grammar.parse("<digit> = one | two; <user> = check order <digit>+ [please];")
    grammar.accepts("check order two please".split())      # True

Only the rules are written, without the `#JSGF` header; `<user>` is the rule a caller's utterance must match.
Supported: sequences, `|`, `( )`, `[ ]`, `*`, `+`, weights such as `/0.5/`, references `<name>`, `//` and `/* */`
comments. Tags, imports and recursive rules are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from parlora.errors import InvalidArgument

TOP_RULE: Final = "user"
MAX_GRAMMAR_CHARACTERS: Final = 64 * 1024  # as much text as one context update may carry; larger ones decode too slowly
MAX_WORDS: Final = 2_000  # distinct words; PocketSphinx searches them all in every frame

_COMMENT: Final = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TOKEN: Final = re.compile(r"\s*(<[A-Za-z_][\w]*>|/\s*[0-9.eE+-]+\s*/|[A-Za-z][A-Za-z']*|[=;|()\[\]*+]|\S)")
_WORD: Final = re.compile(r"[a-z][a-z']*")


@dataclass(frozen=True, slots=True)
class Word:
    """One spoken word."""

    text: str


@dataclass(frozen=True, slots=True)
class Reference:
    """Another rule, by name."""

    name: str


@dataclass(frozen=True, slots=True)
class Series:
    """All items, one after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Exactly one of the items; weights are all 1 where none is written."""

    items: tuple[Node, ...]
    weights: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item, `least` times (0 or 1) up to once (`[x]`) or without end (`x*`, `x+`)."""

    item: Node
    least: int
    endless: bool


Node = Word | Reference | Series | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Grammar:
    """Checked rules with a top rule `<user>`."""

    rules: Mapping[str, Node]

    @classmethod
    def parse(cls, text: object, field: str = "grammar") -> Grammar:
        """Read JSGF rules. Raises `InvalidArgument` naming `field`, the place and what is allowed there."""
        if not isinstance(text, str) or not text.strip():
            raise InvalidArgument(f"{field} must be JSGF rules with a rule <{TOP_RULE}>", field=field)
        if len(text) > MAX_GRAMMAR_CHARACTERS:
            raise InvalidArgument(f"{field} must have at most {MAX_GRAMMAR_CHARACTERS} characters", field=field)
        grammar = cls(_Parser(_COMMENT.sub(" ", text), field).rules())
        grammar._check(field)
        return grammar

    @property
    def words(self) -> frozenset[str]:
        """Every word the rules mention."""
        return frozenset(node.text for rule in self.rules.values() for node in _walk(rule) if isinstance(node, Word))

    def accepts(self, words: Sequence[str]) -> bool:
        """Whether `words` are one whole sentence of `<user>`."""
        return len(words) in self._ends(self.rules[TOP_RULE], words, frozenset({0}))

    def to_jsgf(self) -> str:
        """A complete JSGF document for the decoder."""
        lines = ["#JSGF V1.0;", "grammar parlora;"]
        for name, rule in self.rules.items():
            public = "public " if name == TOP_RULE else ""
            lines.append(f"{public}<{name}> = {_write(rule)};")
        return "\n".join(lines) + "\n"

    def _check(self, field: str) -> None:
        if TOP_RULE not in self.rules:
            raise InvalidArgument(f"{field} has no rule <{TOP_RULE}>", field=field)
        for name, rule in self.rules.items():
            for node in _walk(rule):
                if isinstance(node, Reference) and node.name not in self.rules:
                    message = f"{field}: rule <{name}> uses <{node.name}>, which is not defined"
                    raise InvalidArgument(message, field=field)
        self._check_recursion(TOP_RULE, (), field)
        for name in self.rules:
            self._check_recursion(name, (), field)
        if len(self.words) > MAX_WORDS:
            raise InvalidArgument(f"{field} must have at most {MAX_WORDS} different words", field=field)

    def _check_recursion(self, name: str, above: tuple[str, ...], field: str) -> None:
        if name in above:
            raise InvalidArgument(f"{field}: rule <{name}> refers to itself; use * or + for repetition", field=field)
        references = {node.name for node in _walk(self.rules[name]) if isinstance(node, Reference)}
        for reference in references:
            self._check_recursion(reference, (*above, name), field)

    def _ends(self, node: Node, words: Sequence[str], starts: frozenset[int]) -> frozenset[int]:
        """Where a match of `node` may end, for matches that begin at any of `starts`."""
        if isinstance(node, Word):
            return frozenset(i + 1 for i in starts if i < len(words) and words[i] == node.text)
        if isinstance(node, Reference):
            return self._ends(self.rules[node.name], words, starts)
        if isinstance(node, Series):
            for item in node.items:
                starts = self._ends(item, words, starts)
            return starts
        if isinstance(node, Choice):
            return frozenset().union(*(self._ends(item, words, starts) for item in node.items))
        reached = starts if node.least == 0 else frozenset[int]()
        fresh = starts
        while fresh:
            fresh = self._ends(node.item, words, fresh) - reached
            reached |= fresh
            if not node.endless:
                break
        return reached


def _walk(node: Node) -> list[Node]:
    if isinstance(node, Series | Choice):
        return [node, *(inner for item in node.items for inner in _walk(item))]
    if isinstance(node, Repeat):
        return [node, *_walk(node.item)]
    return [node]


def _write(node: Node) -> str:
    if isinstance(node, Word):
        return node.text
    if isinstance(node, Reference):
        return f"<{node.name}>"
    if isinstance(node, Series):
        return " ".join(_write(item) for item in node.items)
    if isinstance(node, Choice):
        parts = (f"/{w}/ {_write(i)}" for w, i in zip(node.weights, node.items, strict=True))
        return f"( {' | '.join(parts)} )"
    if not node.endless:
        return f"[ {_write(node.item)} ]"
    return f"( {_write(node.item)} ){'*' if node.least == 0 else '+'}"


class _Parser:
    """Recursive descent over the tokens; every complaint names the rule and the token."""

    def __init__(self, text: str, field: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0
        self._field = field
        self._rule = ""

    def rules(self) -> dict[str, Node]:
        found: dict[str, Node] = {}
        while self._peek():
            if self._peek() == "public":
                self._take()
            token = self._take()
            if not token.startswith("<") or len(token) == 1:
                self._fail(token, "a rule such as <user> = ... ;")
            self._rule = token[1:-1]
            if self._rule in found:
                raise InvalidArgument(f"{self._field}: rule <{self._rule}> is defined twice", field=self._field)
            self._expect("=")
            found[self._rule] = self._choice()
            self._expect(";")
        return found

    def _choice(self) -> Node:
        items, weights = [], []
        while True:
            weight = "1"
            if self._peek().startswith("/") and len(self._peek()) > 1:
                weight = self._weight(self._take())
            weights.append(weight)
            items.append(self._series())
            if self._peek() != "|":
                break
            self._take()
        return items[0] if len(items) == 1 else Choice(tuple(items), tuple(weights))

    def _weight(self, token: str) -> str:
        text = token.strip("/ \t\n")
        try:
            good = float(text) > 0
        except ValueError:
            good = False
        if not good:
            self._fail(token, "a weight above 0 such as /0.5/")
        return text

    def _series(self) -> Node:
        items: list[Node] = []
        while (item := self._item()) is not None:
            while self._peek() in ("*", "+"):
                item = Repeat(item, 0 if self._take() == "*" else 1, endless=True)
            items.append(item)
        if not items:
            self._fail(self._peek(), "a word, <rule>, ( or [")
        return items[0] if len(items) == 1 else Series(tuple(items))

    def _item(self) -> Node | None:
        token = self._peek()
        if token in ("(", "["):
            self._take()
            inner = self._choice()
            self._expect(")" if token == "(" else "]")
            return inner if token == "(" else Repeat(inner, 0, endless=False)
        if token.startswith("<") and len(token) > 1:
            return Reference(self._take()[1:-1])
        if token[:1].isalpha():
            word = self._take().lower()
            if not _WORD.fullmatch(word):
                self._fail(word, "words of a to z and apostrophes")
            return Word(word)
        if token in ("", ";", "|", ")", "]"):
            return None
        return self._fail(token, "words of a to z and apostrophes (numbers spelled out), <rules>, ( ), [ ], |, * or +")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _expect(self, wanted: str) -> None:
        if self._peek() != wanted:
            self._fail(self._peek(), f"'{wanted}'")
        self._take()

    def _fail(self, token: str, allowed: str) -> NoReturn:
        where = f"in rule <{self._rule}>" if self._rule else "at the start"
        got = f"'{token}'" if token else "the end"
        raise InvalidArgument(f"{self._field}: {where}, found {got}, expected {allowed}", field=self._field)
