"""Nothing is made of received bytes but the listed messages, and no frame is read beyond its bound."""

import os
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thespian.actors import ActorAddress, ActorExitRequest, ValidateSource
from thespian.system.messages.multiproc import EndpointConnected

from parlora_actors.transport.address import UnixAddress
from parlora_actors.transport.allow_list import MAX_MESSAGE_BYTES, BoundedReceiveBuffer, Codec

ME = ActorAddress(UnixAddress("/tmp/x/a1"))


@pytest.mark.parametrize("message", [b"payload", ActorExitRequest(), EndpointConnected(3)])
def test_messages_and_acknowledgments_survive(message: Any) -> None:
    sender, received = Codec.loads(Codec.dumps((ME, message)))
    assert sender == ME
    assert type(received) is type(message)
    assert Codec.loads(Codec.dumps("ACK")) == "ACK"


class Evil:
    def __reduce__(self) -> Any:
        return (os.mkdir, ("/tmp/parlora-test-evil",))


@pytest.mark.parametrize(
    "value",
    [
        Evil(),
        (ME, Evil()),
        (ME, {"a": Evil()}),
        (ME, ValidateSource("hash", b"data")),
        (ME, "text is no message"),
        (ME, None),
        (None, b"payload"),
        ("not an address", b"payload"),
        (ActorAddress("not a socket"), b"payload"),
        (ActorAddress(UnixAddress(3)), b"payload"),  # type: ignore[arg-type]
        (ME, b"payload", b"more"),
        [ME, b"payload"],
        b"payload",
        "OTHER",
        3,
    ],
)
def test_everything_else_is_refused_and_does_nothing(value: Any) -> None:
    with pytest.raises(pickle.UnpicklingError):
        Codec.loads(pickle.dumps(value))
    assert not os.path.exists("/tmp/parlora-test-evil")


@given(st.binary(max_size=200))
def test_any_bytes_raise_one_kind_of_error(data: bytes) -> None:
    with pytest.raises(pickle.UnpicklingError):
        Codec.loads(data)


def buffer() -> Any:
    return BoundedReceiveBuffer(lambda data: data)


@given(st.binary(max_size=300), st.lists(st.integers(1, 20), max_size=30))
def test_a_frame_in_any_pieces_is_one_message(body: bytes, cuts: list[int]) -> None:
    data = b"%d>" % len(body) + body
    received = buffer()
    while data:
        cut = cuts.pop() if cuts else len(data)
        received.addMore(data[:cut])
        data = data[cut:]
    assert received.isDone()
    assert received.completed() == (body, b"")


@pytest.mark.parametrize(
    "data", [b"-5>", b"%d>" % (MAX_MESSAGE_BYTES + 1), b"abc", b">", b" 3>abc", b"123456789", b"1_0>"]
)
def test_malformed_or_too_large_frames_are_refused_by_their_header(data: bytes) -> None:
    with pytest.raises(ValueError, match="frame"):
        buffer().addMore(data)


def test_a_header_in_pieces_is_bounded_too() -> None:
    received = buffer()
    for _ in range(8):
        received.addMore(b"1")
    with pytest.raises(ValueError, match="header"):
        received.addMore(b"1")
