"""A small WebSocket server of our own: a fake must be able to send what no library would.

One thread accepts, one serves each peer. Every wait is bounded, and `stop` leaves neither thread nor descriptor.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

TEXT: Final = 1
BINARY: Final = 2
CLOSE: Final = 8
PING: Final = 9
PONG: Final = 10

_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MAX_HEAD_BYTES: Final = 65_536
_MAX_MESSAGE_BYTES: Final = 64 * 1024 * 1024
_HANDSHAKE_S: Final = 10.0
_SEND_S: Final = 10.0
_STOP_S: Final = 5.0


class PeerGone(Exception):
    """The peer has closed or lost its connection; `code` is its close code, None without a close frame."""

    def __init__(self, code: int | None = None) -> None:
        super().__init__("the peer is gone")
        self.code = code


@dataclass(frozen=True, slots=True)
class Request:
    """The upgrade request; header names are lower case. Headers may hold a key, so they show in no repr."""

    path: str
    query: str
    headers: Mapping[str, str] = field(repr=False)


class Peer:
    """One client. For one thread."""

    def __init__(self, connection: socket.socket, request: Request, rest: bytes) -> None:
        self.request = request
        self.answers_pings = True
        self._socket = connection
        self._buffer = bytearray(rest)
        self._partial = bytearray()
        self._partial_opcode = 0

    def receive(self, timeout_s: float) -> tuple[int, bytes] | None:
        """The next message as opcode and payload, None after `timeout_s`; pings are answered on the way.

        Raises `PeerGone` at the end of the connection.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            frame = self._take_frame()
            if frame is None:
                rest = deadline - time.monotonic()
                if rest <= 0 or not self._fill(rest):
                    return None
                continue
            final, opcode, data = frame
            if opcode == PING:
                if self.answers_pings:
                    self.send(data, PONG)
            elif opcode == CLOSE:
                code = struct.unpack("!H", data[:2])[0] if len(data) >= 2 else 1005
                with contextlib.suppress(PeerGone):
                    self.send(data[:2], CLOSE)
                raise PeerGone(code)
            elif opcode != PONG:
                self._partial_opcode = opcode or self._partial_opcode
                self._partial += data
                if len(self._partial) > _MAX_MESSAGE_BYTES:
                    raise PeerGone
                if final:
                    whole, self._partial = bytes(self._partial), bytearray()
                    return self._partial_opcode, whole

    def send(self, data: bytes | str, opcode: int = TEXT) -> None:
        """One message in one frame; raises `PeerGone`."""
        self.send_raw(frame(data.encode() if isinstance(data, str) else data, opcode))

    def send_raw(self, data: bytes) -> None:
        """Bytes as they are, which may be half a frame; raises `PeerGone`."""
        try:
            self._socket.settimeout(_SEND_S)
            self._socket.sendall(data)
        except OSError:
            raise PeerGone from None

    def close(self, code: int, reason: str = "") -> None:
        """A close frame; the connection itself stays until `drop`."""
        self.send(struct.pack("!H", code) + reason.encode(), CLOSE)

    def drop(self) -> None:
        """End the connection without a close frame."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        with contextlib.suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._socket.close()

    def _fill(self, timeout_s: float) -> bool:
        try:
            self._socket.settimeout(max(0.001, timeout_s))
            data = self._socket.recv(65_536)
        except TimeoutError:
            return False
        except OSError:
            raise PeerGone from None
        if not data:
            raise PeerGone
        self._buffer += data
        return True

    def _take_frame(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 0x7F, 2
        if size == 126:
            size, start = int.from_bytes(buffer[2:4], "big"), 4
        elif size == 127:
            size, start = int.from_bytes(buffer[2:10], "big"), 10
        if not buffer[1] & 0x80 or size > _MAX_MESSAGE_BYTES:
            raise PeerGone  # a client must mask
        end = start + 4 + size
        if len(buffer) < end:
            return None
        mask, data = bytes(buffer[start : start + 4]), bytes(buffer[start + 4 : end])
        final, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        del buffer[:end]
        return final, opcode, _unmask(data, mask)


class WebSocketServer:
    """Serves on 127.0.0.1 until `stop`.

    serve: called with each peer on a thread of its own; the connection ends when it returns. admit: judges the upgrade
    request: None to accept it, else an HTTP status. port: 0 takes a free one. tls: a server-side context.
    """

    def __init__(
        self,
        serve: Callable[[Peer], None],
        admit: Callable[[Request], int | None] = lambda request: None,
        *,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._serve, self._admit, self._tls = serve, admit, tls
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._connections: dict[threading.Thread, socket.socket] = {}
        self._stopping = False
        self._acceptor = threading.Thread(target=self._accept, name="fake-accept", daemon=True)

    def __enter__(self) -> WebSocketServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called: a serving thread should return."""
        return self._stopping

    def start(self) -> None:
        """Begin to accept."""
        self._acceptor.start()

    def stop(self) -> None:
        """End every connection and wait for the threads."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._acceptor.ident is not None:
            self._acceptor.join(_STOP_S)
        self._listener.close()
        with self._lock:
            connections = dict(self._connections)
        for thread, connection in connections.items():
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            thread.join(_STOP_S)

    def _accept(self) -> None:
        while not self._stopping:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._handle, args=(connection,), name="fake-peer", daemon=True)
            with self._lock:
                self._connections[thread] = connection
            thread.start()

    def _handle(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_HANDSHAKE_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
                with self._lock:
                    self._connections[threading.current_thread()] = connection
            peer = self._upgrade(connection)
            if peer is not None:
                self._serve(peer)
        except (OSError, PeerGone, ValueError):
            pass  # a client that broke off: its own business
        finally:
            connection.close()
            with self._lock:
                self._connections.pop(threading.current_thread(), None)

    def _upgrade(self, connection: socket.socket) -> Peer | None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(4_096)
            if not more or len(data) > _MAX_HEAD_BYTES:
                return None
            data += more
        head, rest = data.split(b"\r\n\r\n", 1)
        request = _parse(head.decode("latin-1"))
        status = self._admit(request)
        key = request.headers.get("sec-websocket-key")
        if status is None and key is None:
            status = 400
        if status is not None or key is None:
            connection.sendall(f"HTTP/1.1 {status} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            return None
        accept = base64.b64encode(hashlib.sha1(key.encode() + _GUID).digest()).decode()
        connection.sendall(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )
        return Peer(connection, request, rest)


def frame(data: bytes, opcode: int) -> bytes:
    """One whole, unmasked frame, as a server sends it."""
    head = bytes([0x80 | opcode])
    if len(data) < 126:
        return head + bytes([len(data)]) + data
    if len(data) < 65_536:
        return head + b"\x7e" + struct.pack("!H", len(data)) + data
    return head + b"\x7f" + struct.pack("!Q", len(data)) + data


def _parse(head: str) -> Request:
    first, *lines = head.split("\r\n")
    target = first.split(" ")[1]
    path, _, query = target.partition("?")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Request(path, query, headers)


def _unmask(data: bytes, mask: bytes) -> bytes:
    if not data:
        return data
    whole = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(len(data), "big")
