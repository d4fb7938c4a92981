"""One WebSocket on websocket-client's protocol code, with waits of our own.

The library's blocking calls have no bound on a whole message, no bound on its size, and let two threads into one TLS
object at once. Here the socket is non-blocking, one lock guards it, and every wait is a poll with a deadline.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import websocket

_READ_BYTES: Final = 65_536
_WANTS: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Stalled(Exception):
    """The peer took no bytes for too long."""


class TooLarge(Exception):
    """A message grew beyond the bound."""


class LiveSocket(websocket.WebSocket):
    """A WebSocket that one thread reads and one at a time writes, and that `wake` ends from anywhere.

    heard: called whenever something came. answer: given the frame that answers a ping.
    """

    def __init__(
        self, max_message_bytes: int, stall_us: int, heard: Callable[[], None], answer: Callable[[bytes], None]
    ) -> None:
        # messages are JSON, which is checked where it is parsed; the library's check is slow Python
        super().__init__(skip_utf8_validation=True, enable_multithread=True)
        self._max_message_bytes = max_message_bytes
        self._stall_us = stall_us
        self._heard = heard
        self._answer = answer
        self._io = threading.Lock()
        self._woken = False
        self._buffer = memoryview(b"")
        self._message_bytes = 0

    def open(self, url: str, headers: list[str], timeout_s: float, tls: ssl.SSLContext | None) -> None:
        """Connect, through a proxy if the environment names one; no redirect is followed, for the key would go along.

        Raises what the library raises.
        """
        if tls is not None:
            self.sock_opt.sslopt = {"context": tls}
        self.connect(  # type: ignore[no-untyped-call]
            url, header=headers, suppress_origin=True, timeout=timeout_s, redirect_limit=0
        )
        self._socket().settimeout(0)
        if self._woken:
            self.wake()

    def wake(self) -> None:
        """End the connection: whoever waits on it is woken. Safe from any thread, at any time."""
        self._woken = True
        sock = self.sock
        if sock is not None:
            with contextlib.suppress(OSError):  # not connected any more
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # the descriptor itself, below any TLS

    def message(self) -> tuple[int, bytes]:
        """The next message: its opcode and payload. A close frame is one too; pings are answered on the way."""
        self._message_bytes = 0
        opcode, data = self.recv_data()
        return opcode, bytes(data)

    def drop(self) -> None:
        """Give the descriptor back; only when no other thread uses the socket any more."""
        sock, self.sock = self.sock, None
        self.connected = False
        if sock is not None:
            sock.close()

    def offer(self, data: bytes) -> int:
        """Send as much as goes out at once; how many bytes that was. Never waits."""
        try:
            with self._io:
                return int(self._socket().send(data))
        except _WANTS:
            return 0

    def send_whole(self, data: bytes) -> None:
        """Send all of it; raises `Stalled` when the peer takes nothing for too long."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._send(rest) :]

    def pong(self, payload: str | bytes = "") -> None:
        """The library answers a ping from the reading thread: hand the answer to who writes, or it may fall between."""
        self._answer(framed(payload, websocket.ABNF.OPCODE_PONG))

    def send_close(self, status: int = 1000, reason: bytes | str = b"", timeout: float | None = None) -> None:
        """The library answers a close frame with its own; here whoever hears of the close decides."""

    # ---- what the library calls

    def _recv(self, bufsize: int) -> bytes:
        if not self._buffer:
            self._buffer = memoryview(self._fill())
            self._heard()
        data, self._buffer = bytes(self._buffer[:bufsize]), self._buffer[bufsize:]
        self._message_bytes += len(data)
        if self._message_bytes > self._max_message_bytes:
            raise TooLarge
        return data

    def _send(self, data: bytes | str | memoryview) -> int:
        raw = data.encode() if isinstance(data, str) else data
        deadline_us = _now_us() + self._stall_us
        while not self._woken:
            try:
                with self._io:
                    return int(self._socket().send(raw))
            except _WANTS as wants:
                event = select.POLLIN if isinstance(wants, ssl.SSLWantReadError) else select.POLLOUT
            if not self._poll(event, deadline_us):
                raise Stalled
        raise websocket.WebSocketConnectionClosedException("the connection was ended")

    def _fill(self) -> bytes:
        while not self._woken:
            try:
                with self._io:
                    data = self._socket().recv(_READ_BYTES)
            except _WANTS as wants:
                event = select.POLLOUT if isinstance(wants, ssl.SSLWantWriteError) else select.POLLIN
                self._poll(event, None)
                continue
            if data:
                return bytes(data)
            break
        raise websocket.WebSocketConnectionClosedException("the connection has ended")

    def _socket(self) -> socket.socket:
        if self.sock is None:
            raise websocket.WebSocketConnectionClosedException("the connection was ended")
        return self.sock

    def _poll(self, event: int, deadline_us: int | None) -> bool:
        poll: Any = select.poll()
        poll.register(self._socket(), event)
        # without a deadline the wait ends with the connection: its watchdog or its owner wakes it
        return bool(poll.poll(None if deadline_us is None else max(0, (deadline_us - _now_us()) / 1_000)))


def framed(payload: str | bytes, opcode: int) -> bytes:
    """A whole client frame, masked. The library's own masking costs several times as much, 50 times a second."""
    data = payload.encode() if isinstance(payload, str) else payload
    size = len(data)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 65_536:
        head = struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, size)
    mask = os.urandom(4)
    whole = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(data, "little") ^ int.from_bytes(whole, "little")
    return b"".join((head, mask, masked.to_bytes(size, "little")))


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
