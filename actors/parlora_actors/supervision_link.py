"""The line between a supervisor and one child: hello, crash and exit upwards, stop downwards, and notes of both.

It is a pair of `SOCK_SEQPACKET` sockets, made before the fork and inherited, so it works before the child has an
address and until its last instruction: a report that was sent is in the supervisor's socket when the child is gone.
One packet is one message; a packet that does not fit is refused, never cut.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from parlora.errors import InvalidArgument
from parlora.wire import pack, unpack

MAX_PACKET_BYTES: Final = 64 * 1024
"""Largest message. A crash report has a few kilobytes; the kernel's default socket buffer holds three of these."""

MAX_DESCRIPTORS: Final = 16
"""Most descriptors that one message carries."""

_RIGHTS_BYTES: Final = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)

_MAX_BATCH: Final = 64
"""Most messages of one `receive`, so that one busy child cannot keep its supervisor from the others."""


class Life(StrEnum):
    """Messages of the supervision itself."""

    BORN = "born"
    """The process exists; for a supervisor that did not fork it itself."""
    HELLO = "hello"
    CRASH = "crash"
    EXIT = "exit"
    STOP = "stop"
    PING = "ping"
    PONG = "pong"
    """An answer to a ping, or a sign of life of a process that is busy."""
    NOTE = "note"
    """A message of the processes themselves; its kind is inside."""


_IDENTITY: Final = {"pid": int, "start_ticks": int}
_FIELDS: Final[dict[str, dict[str, Any]]] = {
    Life.BORN: _IDENTITY,
    Life.HELLO: _IDENTITY,
    Life.EXIT: {"reason": str, "details": dict},
    Life.STOP: {"deadline_us": int | None},
    Life.NOTE: {"kind": str, "body": dict},
}


@dataclass(frozen=True, slots=True)
class Packet:
    """One received message. `descriptors` are new numbers owned by the receiver."""

    life: str
    body: dict[str, Any]
    descriptors: tuple[int, ...] = ()


class SupervisionLink:
    """One end. Nothing here blocks."""

    def __init__(self, fd: int) -> None:
        """Take over the descriptor of a connected socket."""
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)
        self.is_open = True
        self.refused = 0
        """Messages that did not go out, because the other side is gone or reads too slowly."""
        self.has_more = False
        """Whether the last batch ended before the end of what had arrived."""
        self.malformed = 0
        """Packets that were not understood and dropped."""

    def fileno(self) -> int:
        """The descriptor to watch for reading; -1 once closed."""
        return self._socket.fileno()

    def send(self, life: str, body: dict[str, Any], descriptors: Sequence[int] = ()) -> bool:
        """Send one message, with copies of the given descriptors; returns whether it is on its way.

        Raises `InvalidArgument` for a body that is too large or that msgpack cannot carry.
        """
        packet = pack([life, body])
        if len(packet) > MAX_PACKET_BYTES:
            raise InvalidArgument(f"a message to or from a child must be at most {MAX_PACKET_BYTES} bytes")
        ancillary = []
        if descriptors:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors).tobytes())]
        try:
            self._socket.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)
        except OSError:  # full, or the other side is gone: its pidfd says so
            self.refused += 1
            return False
        return True

    def receive(self) -> list[Packet]:
        """The messages that have arrived, oldest first, at most a batch; clears `is_open` when no more can come."""
        packets: list[Packet] = []
        self.has_more = False
        for _ in range(_MAX_BATCH):
            try:
                data, ancillary, _, _ = self._socket.recvmsg(MAX_PACKET_BYTES, _RIGHTS_BYTES, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                return packets
            except OSError:
                self.is_open = False
                return packets
            descriptors = _descriptors_in(ancillary)
            if not data:
                self.is_open = False
                return packets
            packet = _parse(data, descriptors)
            if packet is None:
                self.malformed += 1
                _close_all(descriptors)
            else:
                packets.append(packet)
        self.has_more = True
        return packets

    def close(self) -> None:
        """Close this end."""
        self.is_open = False
        self._socket.close()


def link_pair() -> tuple[SupervisionLink, int]:
    """The supervisor's end, and the descriptor of the child's end to hand over at fork."""
    upper, lower = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return SupervisionLink(upper.detach()), lower.detach()


def _descriptors_in(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, ...]:
    numbers = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    return tuple(numbers)


def _parse(data: bytes, descriptors: tuple[int, ...]) -> Packet | None:
    try:
        message = unpack(data)
    except InvalidArgument:
        return None
    if not isinstance(message, list) or len(message) != 2:
        return None
    life, body = message
    if not isinstance(life, str) or not isinstance(body, dict) or not _has_its_fields(life, body):
        return None
    return Packet(life, body, descriptors)


def _has_its_fields(life: str, body: dict[str, Any]) -> bool:
    """Whether a message holds what its reader relies on: a child that runs adapter code may send anything."""
    return all(isinstance(body.get(name), kind) for name, kind in _FIELDS.get(life, {}).items())


def _close_all(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        os.close(fd)
