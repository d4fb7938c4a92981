"""One end of a session link: a non-blocking stream socket that carries messages (design §4).

A link never blocks and never grows without bound: what the peer does not take waits in user space up to a limit, and
beyond it `LinkFull` is raised, which the owner of the link treats as the peer's failure.
"""

from __future__ import annotations

import array
import os
import select
import socket
from collections import deque
from typing import Any, Final

from parlora.errors import ParloraError
from parlora.wire import FrameDecoder, MessageSet, encode_frame

READ_BYTES: Final = 256 * 1024
"""Read at most this much per call, so that one busy peer cannot keep a process from its others."""

MAX_PASSED_DESCRIPTORS: Final = 4


class LinkFull(ParloraError):
    """The peer reads too slowly: more waits for it than the link may hold."""

    default_code = "backpressure"


class Link:
    """Messages over one connected `SOCK_STREAM` Unix socket. Owned by one thread."""

    def __init__(
        self,
        sock: socket.socket,
        incoming: MessageSet,
        outgoing: MessageSet,
        *,
        max_queued: int = 4_096,
        max_queued_bytes: int = 16 * 1024 * 1024,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._incoming = incoming
        self._outgoing = outgoing
        self._decoder = FrameDecoder()
        self._queue: deque[tuple[memoryview, int]] = deque()
        self._queued_bytes = 0
        self._max_queued = max_queued
        self._max_queued_bytes = max_queued_bytes
        self.descriptors: deque[int] = deque()
        """Descriptors received and not yet taken, oldest first."""
        self.closed = False

    def fileno(self) -> int:
        """The socket's descriptor, for watching."""
        return self._sock.fileno()

    @property
    def queued(self) -> int:
        """Messages that wait for the peer."""
        return len(self._queue)

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for the peer."""
        return self._queued_bytes

    def send(self, message: Any, descriptor: int = -1) -> None:
        """Queue a message and send what the socket takes; `descriptor` is passed along by SCM_RIGHTS.

        A descriptor must stay open until it has been sent: it is when `queued` is 0. Raises `LinkFull`. A dead peer is
        not an error here: `receive` tells.
        """
        if self.closed:
            return
        data = encode_frame(self._outgoing.encode(message))
        if len(self._queue) >= self._max_queued or self._queued_bytes + len(data) > self._max_queued_bytes:
            raise LinkFull("the peer does not read its messages", details={"queued": len(self._queue)})
        self._queue.append((memoryview(data), descriptor))
        self._queued_bytes += len(data)
        self.flush()

    def flush(self) -> bool:
        """Send what the socket takes; True if nothing is left waiting."""
        while self._queue and not self.closed:
            data, descriptor = self._queue[0]
            try:
                if descriptor >= 0:
                    rights = array.array("i", [descriptor])
                    sent = self._sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
                else:
                    sent = self._sock.send(data)
            except BlockingIOError:
                return False
            except OSError:
                self.closed = True
                break
            self._queued_bytes -= sent
            if sent < len(data):
                self._queue[0] = (data[sent:], -1)
            else:
                self._queue.popleft()
        return True

    def receive(self) -> list[Any]:
        """Every complete message that is there; sets `closed` at the peer's end. Raises on malformed bytes."""
        try:
            data, ancillary, _, _ = self._sock.recvmsg(
                READ_BYTES, socket.CMSG_SPACE(4 * MAX_PASSED_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return []
        except OSError:
            self.closed = True
            return []
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                passed = array.array("i")
                passed.frombytes(payload[: len(payload) - len(payload) % passed.itemsize])
                self.descriptors.extend(passed)
        if not data:
            self.closed = True
            return []
        decoded = (self._incoming.decode(plain) for plain in self._decoder.feed(data))
        return [message for message in decoded if message is not None]

    def wait_readable(self, timeout_s: float) -> bool:
        """Block until there is something to receive; False after `timeout_s`."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(max(0, int(timeout_s * 1_000))))

    def close(self) -> None:
        """Close the socket and every descriptor nobody took."""
        self.closed = True
        self._sock.close()
        while self.descriptors:
            os.close(self.descriptors.popleft())
