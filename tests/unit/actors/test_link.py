import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from parlora.errors import ParloraError
from parlora.wire import MessageSet
from parlora_actors.link import Link, LinkFull


@dataclass(frozen=True, slots=True)
class Note:
    text: str


SET = MessageSet(1, Note)


@pytest.fixture
def pair() -> Iterator[tuple[Link, Link]]:
    a, b = socket.socketpair()
    left = Link(a, SET, SET, max_queued=8, max_queued_bytes=4 * 1024 * 1024)
    right = Link(b, SET, SET)
    yield left, right
    left.close()
    right.close()


def test_messages_arrive_in_order(pair: tuple[Link, Link]) -> None:
    left, right = pair
    sent = [Note(str(n)) for n in range(50)]
    for note in sent:
        left.send(note)
    assert right.receive() == sent


def test_a_message_larger_than_the_sockets_buffer_arrives_whole(pair: tuple[Link, Link]) -> None:
    left, right = pair
    left.send(Note("x" * 2_000_000))
    got: list[Note] = []
    while not got:
        got = right.receive()
        left.flush()
    assert got == [Note("x" * 2_000_000)]
    assert (left.queued, left.queued_bytes) == (0, 0)


def test_a_peer_that_does_not_read_is_an_error_at_the_bound_and_not_a_growing_queue(pair: tuple[Link, Link]) -> None:
    left, _ = pair
    while left.queued < 8:
        left.send(Note("x" * 200_000))
    with pytest.raises(LinkFull) as full:
        left.send(Note("x"))
    assert full.value.code == "backpressure"
    assert left.queued <= 8


def test_the_peers_end_is_told_once_everything_was_read(pair: tuple[Link, Link]) -> None:
    left, right = pair
    left.send(Note("last"))
    left.close()
    assert right.receive() == [Note("last")]
    assert not right.closed
    assert right.receive() == []
    assert right.closed


def test_sending_to_a_dead_peer_raises_nothing(pair: tuple[Link, Link]) -> None:
    left, right = pair
    right.close()
    left.send(Note("a"))
    left.send(Note("b"))
    assert left.closed


def test_a_descriptor_goes_along_and_an_untaken_one_is_closed(pair: tuple[Link, Link]) -> None:
    left, right = pair
    read_end, write_end = os.pipe()
    left.send(Note("here"), descriptor=write_end)
    assert right.receive() == [Note("here")]
    passed = right.descriptors[0]
    os.write(passed, b"!")
    assert os.read(read_end, 1) == b"!"
    right.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(passed)
    os.close(read_end)
    os.close(write_end)


def test_malformed_bytes_raise_one_kind_of_error() -> None:
    a, b = socket.socketpair()
    link = Link(b, SET, SET)
    a.sendall(b"\xff\xff\xff\xff garbage")
    with pytest.raises(ParloraError):
        link.receive()
    a.close()
    link.close()
