"""The small dictionary: a word without a pronunciation is named."""

import pytest

from parlora.errors import InvalidArgument
from parlora.providers.offline.pronunciation import check_pronunciations, dictionary

pytest.importorskip("pocketsphinx", reason="needs the extra offline")


def test_a_word_without_pronunciation_is_named() -> None:
    with pytest.raises(InvalidArgument, match="no pronunciation for 'flurbo', 'zzyx'") as caught:
        dictionary(["yes", "zzyx", "flurbo"], field="provider.grammar")

    assert caught.value.details == {"field": "provider.grammar", "words": ["flurbo", "zzyx"]}


def test_an_own_pronunciation_adds_a_word_or_a_variant() -> None:
    own = check_pronunciations({"parlora": "P AA R L AO R AH", "yes": ["Y AE S"]})

    assert dictionary(["yes", "parlora"], own) == "parlora P AA R L AO R AH\nyes Y EH S\nyes(2) Y AE S\n"


@pytest.mark.parametrize("own", [{"x": "Q"}, {"x": ""}, {"x": 3}, {"x": []}, {"x": [3]}, ["x"]])
def test_a_bad_pronunciation_names_the_word_and_the_phones(own: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_pronunciations(own)

    assert caught.value.details["field"] in ("pronounce", "pronounce.x")
