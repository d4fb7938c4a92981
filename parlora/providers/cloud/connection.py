"""One connection to a service: two threads that end with its socket, a bounded send queue, and a watchdog.

The reader connects, reads and reports the end; the writer sends, pings a silent peer and keeps the deadlines. Nothing
here knows what a message means.
"""

from __future__ import annotations

import contextlib
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import websocket

from parlora.audio.ring_types import now_us
from parlora.errors import Backpressure, Closed
from parlora.limits import (
    CLOUD_FINISH_MS,
    CLOUD_MESSAGE_BYTES,
    CLOUD_PING_MS,
    CLOUD_SEND_BYTES,
    CLOUD_SEND_MESSAGES,
    CLOUD_SILENT_MS,
    CLOUD_STALL_MS,
)
from parlora.providers.cloud.said import Message
from parlora.providers.cloud.socket import LiveSocket, Stalled, TooLarge, framed

_NORMAL: Final = 1000
_TEXT: Final = websocket.ABNF.OPCODE_TEXT
_BINARY: Final = websocket.ABNF.OPCODE_BINARY
_JOIN_S: Final = 1.0  # the writer is woken and never waits longer than a send may; past this it is left to its daemon


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to connect. `headers` hold the key, so they show in no repr; `ca_file` adds a certificate to trust."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca_file: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no word of the service's may bring back into an event or a log."""
        return tuple(value.rpartition(" ")[2] for value in self.headers.values())


class EndReason(StrEnum):
    """Why a connection is over."""

    UNREACHABLE = "unreachable"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    CLOSED_BY_SERVICE = "closed_by_service"
    LOST = "lost"
    SILENT = "silent"
    STALLED = "stalled"
    TOO_LARGE = "too_large"
    PROTOCOL = "protocol"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class End:
    """How a connection ended. `code`: an HTTP status for `refused`, a close code for `closed_by_service`, else None."""

    reason: EndReason
    detail: str
    code: int | None = None


_LOST: Final = End(EndReason.LOST, "the connection was lost")
_FINISHED: Final = End(EndReason.FINISHED, "the connection was ended here")


@dataclass(frozen=True, slots=True)
class Timing:
    """The connection's own waits in milliseconds; tests shorten them."""

    ping_ms: int = CLOUD_PING_MS
    silent_ms: int = CLOUD_SILENT_MS
    stall_ms: int = CLOUD_STALL_MS
    finish_ms: int = CLOUD_FINISH_MS


@dataclass(frozen=True, slots=True)
class _Queued:
    frame: bytes
    sent: Callable[[], None] | None = None


class Connection:
    """Connects once and ends once.

    on_open, on_message and on_end are called on the reader thread, in this order; on_end exactly once, last, with the
    socket closed. `deadline_us` bounds connecting; afterwards the watchdog does.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        deadline_us: int,
        *,
        on_open: Callable[[], None],
        on_message: Callable[[bytes], None],
        on_end: Callable[[End], None],
        timing: Timing | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._connect_by_us = deadline_us
        self._on_open, self._on_message, self._on_end = on_open, on_message, on_end
        self._timing = timing or Timing()
        self._changed = threading.Condition()
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._end: End | None = None
        self._finish_by_us: int | None = None
        self._end_by_us: int | None = None
        self._said_goodbye = False
        self._is_open = self._is_writing = False
        self._heard_us = self._pinged_us = now_us()
        self._socket = LiveSocket(CLOUD_MESSAGE_BYTES, self._timing.stall_ms * 1_000, self._hear, self._answer_ping)
        self._writer = threading.Thread(target=self._write, name="cloud-send", daemon=True)
        self._reader = threading.Thread(target=self._run, name="cloud-receive", daemon=True)

    def start(self) -> None:
        """Begin to connect; what becomes of it is told to on_open or on_end."""
        self._reader.start()

    def send(self, message: Message, sent: Callable[[], None] | None = None) -> None:
        """Send a message at once, or queue what the socket does not take; never waits.

        `sent` is called once the socket took all of it, here or on the writer thread.

        Raises `Backpressure` when too much waits already, `Closed` when the connection is ending.
        """
        frame = framed(message, _TEXT if isinstance(message, str) else _BINARY)
        with self._changed:
            if self._end is not None or self._finish_by_us is not None:
                raise Closed("the connection to the service is closed")
            if self._queued_bytes + len(frame) > CLOUD_SEND_BYTES or len(self._queue) >= CLOUD_SEND_MESSAGES:
                raise Backpressure(
                    "the service takes messages too slowly",
                    details={"queued_bytes": self._queued_bytes, "queued_messages": len(self._queue)},
                )
            rest = self._send_now(frame)
            if rest:
                self._put(_Queued(rest, sent))
        if not rest and sent is not None:
            sent()

    def _send_now(self, frame: bytes) -> bytes:
        """What of a frame does not go out at once: nothing most of the time, and then no other thread need wake."""
        if not self._is_open or self._is_writing or self._queue:
            return frame
        try:
            return frame[self._socket.offer(frame) :]
        except (websocket.WebSocketException, OSError):
            self._over(_LOST)
            raise Closed("the connection to the service is lost") from None

    def _put(self, item: _Queued) -> None:
        self._queue.append(item)
        self._queued_bytes += len(item.frame)
        self._changed.notify_all()

    def _answer_ping(self, frame: bytes) -> None:
        with self._changed:
            if self._end is None and len(self._queue) < CLOUD_SEND_MESSAGES:
                self._put(_Queued(frame))

    def end_by(self, deadline_us: int) -> None:
        """End the connection at this time at the latest."""
        with self._changed:
            self._end_by_us = deadline_us
            self._changed.notify_all()

    def finish(self) -> None:
        """Send what waits and a close frame, read on for the peer's answer, and end within half a second in any case.

        To end at once would reset the connection while something is unread, and the last messages might be lost by it.
        """
        with self._changed:
            if self._finish_by_us is None:
                self._finish_by_us = now_us() + self._timing.finish_ms * 1_000
            self._changed.notify_all()

    def abort(self) -> None:
        """End at once."""
        self._over(_FINISHED)

    def join(self, deadline_us: int) -> bool:
        """Wait for the end; True if both threads are gone."""
        if self._reader.ident is not None and self._reader is not threading.current_thread():
            self._reader.join(max(0, deadline_us - now_us()) / 1_000_000)
        return not self._reader.is_alive()

    # ---- the reader

    def _run(self) -> None:
        writing = False
        try:
            if self._open():
                self._writer.start()
                writing = True
                self._on_open()
                self._read()
        finally:
            self._over(_LOST)
            if writing:
                self._writer.join(_JOIN_S)
            self._socket.drop()
            end = self._end
            assert end is not None
            self._on_end(end)

    def _open(self) -> bool:
        timeout_s = (self._connect_by_us - now_us()) / 1_000_000
        if timeout_s <= 0:
            self._over(End(EndReason.TIMEOUT, "the deadline passed before the connection began"))
            return False
        try:
            headers = [f"{name}: {value}" for name, value in self._endpoint.headers.items()]
            self._socket.open(self._endpoint.url, headers, timeout_s, _tls(self._endpoint))
        except Exception as error:  # the library raises its own, the system's and TLS's
            self._over(_connecting(error))
            return False
        self._hear()
        with self._changed:
            self._is_open = True
            return self._end is None

    def _read(self) -> None:
        try:
            while self._end is None:
                opcode, data = self._socket.message()
                if opcode == websocket.ABNF.OPCODE_CLOSE:
                    self._answer_close(data)
                    self._over(_FINISHED if self._finish_by_us is not None else self._closed(data))
                else:
                    self._on_message(data)
        except TooLarge:
            self._over(End(EndReason.TOO_LARGE, f"the service sent a message over {CLOUD_MESSAGE_BYTES} bytes"))
        except Stalled:
            self._over(End(EndReason.STALLED, "the service takes no messages"))
        except (websocket.WebSocketProtocolException, websocket.WebSocketPayloadException):
            self._over(End(EndReason.PROTOCOL, "the service broke the WebSocket protocol"))
        except (websocket.WebSocketException, OSError):
            self._over(_LOST)

    def _answer_close(self, data: bytes) -> None:
        with self._changed, contextlib.suppress(websocket.WebSocketException, OSError):
            if not self._is_writing and not self._queue and not self._said_goodbye:
                self._socket.offer(framed(data[:2], websocket.ABNF.OPCODE_CLOSE))

    def _closed(self, data: bytes) -> End:
        code = struct.unpack("!H", data[:2])[0] if len(data) >= 2 else 1005
        reason = "".join(c if c.isprintable() else " " for c in data[2:].decode("utf-8", "replace")).strip()
        for secret in self._endpoint.secrets:
            reason = reason.replace(secret, "[hidden]")
        detail = f"the service closed the connection with code {code}{': ' if reason else ''}{reason}"
        return End(EndReason.CLOSED_BY_SERVICE, detail, code)

    def _hear(self) -> None:
        self._heard_us = now_us()

    def _over(self, end: End) -> None:
        """The first reason counts."""
        with self._changed:
            if self._end is None:
                self._end = end
            self._queue.clear()
            self._queued_bytes = 0
            self._changed.notify_all()
        self._socket.wake()

    # ---- the writer

    def _write(self) -> None:
        try:
            while (item := self._next()) is not None:
                self._socket.send_whole(item.frame)
                if item.sent is not None:
                    item.sent()
        except Stalled:
            self._over(End(EndReason.STALLED, f"the service took no messages for {self._timing.stall_ms} ms"))
        except (websocket.WebSocketException, OSError):
            self._over(_LOST)

    def _next(self) -> _Queued | None:
        """What to send next, a ping or the close frame among it; None when the connection is over."""
        with self._changed:
            self._is_writing = False
            while self._end is None:
                now = now_us()
                if self._is_due(now):
                    return None
                if self._queue:
                    item = self._queue.popleft()
                    self._queued_bytes -= len(item.frame)
                    return self._writes(item)
                if self._finish_by_us is None:
                    if now - max(self._heard_us, self._pinged_us) >= self._timing.ping_ms * 1_000:
                        self._pinged_us = now
                        return self._writes(_Queued(framed(b"", websocket.ABNF.OPCODE_PING)))
                elif not self._said_goodbye:
                    self._said_goodbye = True
                    goodbye = struct.pack("!H", _NORMAL)
                    return self._writes(_Queued(framed(goodbye, websocket.ABNF.OPCODE_CLOSE)))
                self._changed.wait(self._sleep_s(now))
            return None

    def _writes(self, item: _Queued) -> _Queued:
        self._is_writing = True
        return item

    def _is_due(self, now: int) -> bool:
        """Whether a deadline has passed, which ends the connection."""
        end = None
        if now - self._heard_us >= self._timing.silent_ms * 1_000:
            end = End(EndReason.SILENT, f"nothing was heard from the service for {self._timing.silent_ms} ms")
        elif self._end_by_us is not None and now >= self._end_by_us:
            end = End(EndReason.TIMEOUT, "the deadline passed")
        elif self._finish_by_us is not None and now >= self._finish_by_us:
            end = _FINISHED
        if end is None:
            return False
        self._end = end
        self._queue.clear()
        self._queued_bytes = 0
        self._socket.wake()
        return True

    def _sleep_s(self, now: int) -> float:
        due = [self._heard_us + self._timing.silent_ms * 1_000]
        if self._finish_by_us is None:
            due.append(max(self._heard_us, self._pinged_us) + self._timing.ping_ms * 1_000)
        due += [at for at in (self._end_by_us, self._finish_by_us) if at is not None]
        return max(0.0, (min(due) - now) / 1_000_000)


def _tls(endpoint: Endpoint) -> ssl.SSLContext | None:
    """The system's certificates, and the endpoint's own beside them; verification is always on."""
    if not endpoint.url.startswith("wss:"):
        return None
    context = ssl.create_default_context()
    if endpoint.ca_file is not None:
        context.load_verify_locations(endpoint.ca_file)
    return context


def _connecting(error: Exception) -> End:
    """Why connecting failed, in words that hold neither headers nor bodies."""
    if isinstance(error, websocket.WebSocketBadStatusException):
        return End(
            EndReason.REFUSED, f"the service refused the connection: HTTP {error.status_code}", error.status_code
        )
    if isinstance(error, websocket.WebSocketTimeoutException | TimeoutError):
        return End(EndReason.TIMEOUT, "the service did not answer in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return End(EndReason.UNREACHABLE, f"the service's certificate is not trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError):
        return End(EndReason.UNREACHABLE, "no secure connection to the service could be made")
    if isinstance(error, websocket.WebSocketProxyException):
        return End(EndReason.UNREACHABLE, "the proxy did not connect to the service")
    if isinstance(error, OSError) and error.strerror:
        return End(EndReason.UNREACHABLE, f"the service cannot be reached: {error.strerror}")
    return End(EndReason.UNREACHABLE, f"the service cannot be reached: {type(error).__name__}")
