"""How words sound: the few lines of the bundled dictionary that a grammar needs, and an application's own.

A dictionary with only the grammar's words makes the decoder start in a third of the time and needs 16 MB less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from parlora.errors import InvalidArgument
from parlora.providers.offline.extras import pocketsphinx_model

_PHONES: Final = "AA AE AH AO AW AY B CH D DH EH ER EY F G HH IH IY JH K L M N NG OW OY P R S SH T TH UH UW V W Y Z ZH"
PHONES: Final = frozenset(_PHONES.split())

Pronunciations = Mapping[str, Sequence[str]]


def check_pronunciations(value: object, field: str = "pronounce") -> dict[str, tuple[str, ...]]:
    """The option `pronounce` as word -> pronunciations, each a string of ARPAbet phones such as "P AA R".

    A value may be one string or a list of strings. Raises `InvalidArgument` naming the word.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"{field} must map words to ARPAbet phones", field=field)
    checked: dict[str, tuple[str, ...]] = {}
    for word, given in value.items():
        name = f"{field}.{word}"
        several = (given,) if isinstance(given, str) else given
        if not isinstance(word, str) or not isinstance(several, list | tuple) or not several:
            raise InvalidArgument(f"{name} must be a string of phones or a list of them", field=name)
        for phones in several:
            unknown = set(phones.split()) - PHONES if isinstance(phones, str) else {"?"}
            if unknown or not phones.split():
                raise InvalidArgument(f"{name} must use the phones {_PHONES}", field=name)
        checked[word.lower()] = tuple(several)
    return checked


def dictionary(words: Iterable[str], own: Pronunciations | None = None, field: str = "grammar") -> str:
    """The dictionary text for `words`: the bundled pronunciations, then the application's own as further ones.

    Raises `InvalidArgument` naming every word that has none.
    """
    wanted = set(words)
    found: dict[str, list[str]] = {word: [] for word in wanted}
    with open(pocketsphinx_model("en-us/cmudict-en-us.dict"), encoding="utf-8") as lines:
        for line in lines:
            entry, _, phones = line.partition(" ")
            word = entry.partition("(")[0]
            if word in wanted:
                found[word].append(phones.strip())
    for word, more in (own or {}).items():
        if word in wanted:
            found[word].extend(more)
    silent = sorted(word for word, several in found.items() if not several)
    if silent:
        raise InvalidArgument(
            f"{field}: no pronunciation for {', '.join(map(repr, silent))}; give one with the option pronounce",
            field=field,
            details={"words": silent},
        )
    return "".join(_lines(word, several) for word, several in sorted(found.items()))


def _lines(word: str, several: Sequence[str]) -> str:
    names = [word, *(f"{word}({number})" for number in range(2, len(several) + 1))]
    return "".join(f"{name} {phones}\n" for name, phones in zip(names, several, strict=True))
