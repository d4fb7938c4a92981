"""mu-law against the reference: every code and every sample."""

from __future__ import annotations

import hashlib
import importlib.util
import warnings
from types import ModuleType

import pytest

from parlora.audio import mulaw
from parlora.errors import InvalidArgument

EVERY_SAMPLE = b"".join(value.to_bytes(2, "little", signed=True) for value in range(-32_768, 32_768))
EVERY_CODE = bytes(range(256))


def audioop() -> ModuleType:
    if importlib.util.find_spec("audioop") is None:
        pytest.skip("this Python has no audioop; the pinned tables are compared instead")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import audioop
    return audioop


def test_every_sample_and_code_is_bit_equal_to_audioop() -> None:
    reference = audioop()
    assert mulaw.encode(EVERY_SAMPLE) == reference.lin2ulaw(EVERY_SAMPLE, 2)
    assert mulaw.decode(EVERY_CODE) == reference.ulaw2lin(EVERY_CODE, 2)


def test_the_tables_are_the_pinned_ones() -> None:
    """Digests of audioop's output, for Pythons without it."""
    assert hashlib.sha256(mulaw.encode(EVERY_SAMPLE)).hexdigest() == ENCODED
    assert hashlib.sha256(mulaw.decode(EVERY_CODE)).hexdigest() == DECODED


@pytest.mark.row("AU-03")
def test_silence_is_0xff_and_any_byte_count_decodes() -> None:
    assert mulaw.encode(bytes(6)) == b"\xff\xff\xff"
    assert mulaw.decode(b"\xff" * 3) == bytes(6)
    assert mulaw.decode(b"") == b""


def test_a_decoded_code_encodes_to_itself() -> None:
    again = mulaw.encode(mulaw.decode(EVERY_CODE))
    assert [code for code in range(256) if again[code] != code] == [0x7F], "minus zero becomes zero"


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="whole"):
        mulaw.encode(b"\0\0\0")


ENCODED = "81d633c9e6972a18c74a58720b96cb8ca0bdd096d4060b646dd708c3b846019a"
DECODED = "3dab54339e520bb2c924826e3b72a917a2b612e9fd12fc867500f1d983a75827"
