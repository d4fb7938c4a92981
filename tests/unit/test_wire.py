import contextlib
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.errors import InvalidArgument
from parlora.wire import FrameDecoder, FrameTooLarge, MessageSet, encode_frame, pack, packed_size, unpack

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@dataclass(frozen=True, slots=True)
class SomethingHappened:
    name: str
    count: int
    maybe: str | None = None


SET = MessageSet(1, SomethingHappened)


@given(PLAIN)
def test_plain_data_survives(value: object) -> None:
    assert unpack(pack(value)) == value


@given(st.lists(PLAIN, max_size=5), st.data())
def test_a_stream_cut_anywhere_gives_the_same_messages(values: list[object], data: st.DataObject) -> None:
    stream = b"".join(encode_frame(value) for value in values)
    decoder, got, at = FrameDecoder(), [], 0
    while at < len(stream):
        step = data.draw(st.integers(1, len(stream) - at))
        got += decoder.feed(stream[at : at + step])
        at += step
    assert got == values


@given(st.binary(max_size=200))
def test_a_strangers_bytes_end_in_one_kind_of_error_or_in_waiting(noise: bytes) -> None:
    decoder = FrameDecoder(max_frame_bytes=1_000)
    with contextlib.suppress(InvalidArgument, FrameTooLarge):
        for message in decoder.feed(noise):
            SET.decode(message)


def test_a_length_prefix_beyond_the_cap_is_refused_before_anything_is_stored() -> None:
    with pytest.raises(FrameTooLarge):
        list(FrameDecoder().feed(b"\x7f\xff\xff\xff"))


@given(st.text(), st.integers(-(2**31), 2**31), st.none() | st.text())
def test_a_message_survives_the_wire(name: str, count: int, maybe: str | None) -> None:
    message = SomethingHappened(name, count, maybe)
    assert SET.decode(unpack(pack(SET.encode(message)))) == message


def test_an_unknown_kind_is_counted_and_an_extra_field_ignored() -> None:
    messages = MessageSet(1, SomethingHappened)
    assert messages.decode({"k": "from_the_future", "v": 9, "b": {}}) is None
    assert messages.unknown == 1
    data = {"k": "something_happened", "v": 2, "b": {"name": "a", "count": 1, "later": 3}}
    assert messages.decode(data) == SomethingHappened("a", 1)


@pytest.mark.parametrize("data", [None, 3, [], {}, {"k": "something_happened", "v": 1, "b": {"name": "a"}}])
def test_a_missing_field_is_an_error(data: object) -> None:
    with pytest.raises(InvalidArgument):
        SET.decode(data)


@pytest.mark.parametrize("value", [object(), {1, 2}, 2**70])
def test_what_msgpack_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgument):
        pack(value)


def test_the_size_of_a_value_is_the_length_of_its_encoding() -> None:
    assert packed_size({}) == 1
