"""The link between supervisor and child: whole messages, never blocking, with descriptors, to the last word."""

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.errors import InvalidArgument
from parlora.wire import pack
from parlora_actors.supervision_link import MAX_PACKET_BYTES, Packet, SupervisionLink, link_pair


def note(value: object) -> dict[str, Any]:
    return {"kind": "test", "body": {"value": value}}


Ends = tuple[SupervisionLink, SupervisionLink]


@pytest.fixture
def ends() -> Iterator[Ends]:
    upper, lower = link_pair()
    pair = (upper, SupervisionLink(lower))
    yield pair
    for end in pair:
        end.close()


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    upper, lower = ends
    for number in range(3):
        assert lower.send("note", note(number))
    assert upper.receive() == [Packet("note", note(number)) for number in range(3)]
    assert upper.receive() == []


def test_the_last_words_of_a_dead_process_can_be_read(ends: Ends) -> None:
    upper, lower = ends
    lower.send("crash", {"type": "ValueError"})
    lower.close()
    assert upper.receive() == [Packet("crash", {"type": "ValueError"})]
    assert not upper.is_open


def test_a_reader_that_does_not_read_costs_messages_not_time(ends: Ends) -> None:
    upper, lower = ends
    body = note("x" * 10_000)
    sent = sum(lower.send("note", body) for _ in range(100))
    assert 0 < sent < 100
    assert lower.refused == 100 - sent
    received = []
    while batch := upper.receive():
        received += batch
    assert len(received) == sent


def test_a_batch_is_bounded_and_says_whether_more_has_arrived(ends: Ends) -> None:
    upper, lower = ends
    for number in range(100):
        assert lower.send("note", note(number))
    first = upper.receive()
    assert (len(first), upper.has_more) == (64, True)
    assert (len(upper.receive()), upper.has_more) == (36, False)


def test_a_gone_reader_is_no_error(ends: Ends) -> None:
    upper, lower = ends
    upper.close()
    assert not lower.send("note", note(0))
    assert lower.receive() == []
    assert not lower.is_open


def test_descriptors_travel_as_copies(ends: Ends) -> None:
    upper, lower = ends
    reader, writer = os.pipe()
    upper.send("note", note(0), [writer])
    os.close(writer)
    (packet,) = lower.receive()
    (copy,) = packet.descriptors
    assert not os.get_inheritable(copy)
    os.write(copy, b"through")
    os.close(copy)
    assert os.read(reader, 10) == b"through"
    os.close(reader)


def test_too_large_a_message_is_refused_and_harms_nothing(ends: Ends) -> None:
    upper, lower = ends
    with pytest.raises(InvalidArgument):
        lower.send("note", note("x" * MAX_PACKET_BYTES))
    assert lower.send("note", note(0))
    assert upper.receive() == [Packet("note", note(0))]


def received(data: bytes) -> tuple[list[Packet], SupervisionLink]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = SupervisionLink(ours.detach())
    theirs.send(data)
    packets = link.receive()
    assert link.is_open
    theirs.close()
    link.close()
    return packets, link


MALFORMED = [
    b"\xc1",
    pack(1),
    pack([1, {}]),
    pack(["a", 1]),
    pack(["a", {}, {}]),
    pack(["note", {}]),
    pack(["note", {"kind": "test", "body": 1}]),
    pack(["hello", {"pid": "1"}]),
    pack(["exit", {"reason": None, "details": {}}]),
    pack(["stop", {"deadline_us": "soon"}]),
]


@pytest.mark.parametrize("data", MALFORMED)
def test_malformed_packets_are_counted_and_dropped(data: bytes) -> None:
    packets, link = received(data)
    assert packets == []
    assert link.malformed == 1


@given(st.binary(min_size=1, max_size=100))
def test_no_bytes_of_a_child_raise_in_its_supervisor(data: bytes) -> None:
    packets, link = received(data)
    assert len(packets) + link.malformed == 1


def test_a_kind_of_a_newer_peer_arrives_to_be_ignored() -> None:
    packets, _ = received(pack(["pong", {"anything": 1}]))
    assert packets == [Packet("pong", {"anything": 1})]
