"""The link between supervisor and child: whole messages, never blocking, with descriptors, to the last word."""

import os
import socket
from collections.abc import Iterator

import pytest

from parlora.errors import InvalidArgument
from parlora_actors.supervision_link import MAX_PACKET_BYTES, Packet, SupervisionLink, link_pair

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
        assert lower.send("note", {"number": number})
    assert upper.receive() == [Packet("note", {"number": number}) for number in range(3)]
    assert upper.receive() == []


def test_the_last_words_of_a_dead_process_can_be_read(ends: Ends) -> None:
    upper, lower = ends
    lower.send("crash", {"type": "ValueError"})
    lower.close()
    assert upper.receive() == [Packet("crash", {"type": "ValueError"})]
    assert not upper.is_open


def test_a_reader_that_does_not_read_costs_messages_not_time(ends: Ends) -> None:
    upper, lower = ends
    body = {"text": "x" * 10_000}
    sent = sum(lower.send("note", body) for _ in range(100))
    assert 0 < sent < 100
    assert lower.refused == 100 - sent
    received = []
    while batch := upper.receive():
        received += batch
    assert len(received) == sent


def test_a_gone_reader_is_no_error(ends: Ends) -> None:
    upper, lower = ends
    upper.close()
    assert not lower.send("note", {})
    assert lower.receive() == []
    assert not lower.is_open


def test_descriptors_travel_as_copies(ends: Ends) -> None:
    upper, lower = ends
    reader, writer = os.pipe()
    upper.send("note", {}, [writer])
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
        lower.send("note", {"text": "x" * MAX_PACKET_BYTES})
    assert lower.send("note", {})
    assert upper.receive() == [Packet("note", {})]


@pytest.mark.parametrize("data", [b"\xc1", b"\x01", b"\x92\x01\x80", b"\x92\xa1a\x01", b"\x93\xa1a\x80\x80"])
def test_malformed_packets_are_counted_and_dropped(data: bytes) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link = SupervisionLink(ours.detach())
    theirs.send(data)
    assert link.receive() == []
    assert link.malformed == 1
    assert link.is_open
    theirs.close()
    link.close()
