"""One connection of the host library: hello, calls with answers, and messages that come by themselves."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from parlora.errors import Closed, ParloraError, Timeout, Unsupported, error_from_data
from parlora.wire import MessageSet
from parlora_actors.host_reactor import Reactor
from parlora_actors.host_timing import CONNECT_TIMEOUT_MS, now_us, until_s
from parlora_actors.link import Link
from parlora_actors.messages.host import PROTOCOL_MAJOR, PROTOCOL_MINOR, Answer, Hello
from parlora_actors.version import package_version

_RETRY_S = 0.005


class _PendingAnswer:
    """The answer to one call, once it is there."""

    def __init__(self, on_value: Callable[[Any], None] | None) -> None:
        self.done = threading.Event()
        self.value: Any = None
        self.error: ParloraError | None = None
        self._on_value = on_value

    def settle(self, value: Any = None, error: ParloraError | None = None) -> None:
        """Give the outcome, on the library's thread; `on_value` runs before any later message is looked at."""
        if error is None and self._on_value is not None:
            self._on_value(value)
        self.value, self.error = value, error
        self.done.set()


class Connection:
    """A socket of the node's, served by the reactor. `send` and `call` may be used from any thread."""

    def __init__(
        self,
        path: str,
        incoming: MessageSet,
        outgoing: MessageSet,
        reactor: Reactor,
        on_message: Callable[[Any], None],
        on_end: Callable[[], None],
        deadline_us: int | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Connect and shake hands; raises `Timeout`, `Closed` or `Unsupported` (another protocol).

        While nobody listens it tries again, until the deadline or until `is_wanted` says no.
        """
        deadline_us = deadline_us or now_us() + CONNECT_TIMEOUT_MS * 1_000
        self._lock = threading.Lock()
        self._pending: dict[str, _PendingAnswer] = {}
        self._reactor = reactor
        self._on_message = on_message
        self._on_end = on_end
        self._ended = False
        self._write_watched = False
        self._link = Link(_connect(path, deadline_us, is_wanted), incoming, outgoing)
        try:
            early = self._greet(deadline_us)
        except BaseException:
            self._link.close()
            raise
        self._fd = self._link.fileno()
        self._early = early
        reactor.add(self._fd, self._ready)
        reactor.call_at(0, self._deliver_early)

    @property
    def is_open(self) -> bool:
        """Whether the other side was still there at the last look."""
        return not self._ended

    def call(self, message: Any, what: str, deadline_us: int, on_value: Callable[[Any], None] | None = None) -> Any:
        """Send a request (a message with an `id`) and wait for the answer's value.

        `on_value` is called with it on the library's thread, before any later message is looked at. Raises the
        answer's error, `Closed` if the connection ends first or `Timeout`; their `details["execution"]` says whether
        the request was `never_submitted` or what became of it is `unknown`.
        """
        if self._reactor.is_current_thread():
            raise RuntimeError(f"{what} must not be called on the library's own thread: it would wait for itself")
        pending = _PendingAnswer(on_value)
        with self._lock:
            if self._ended:
                raise Closed(f"{what}: the connection has ended", details={"execution": "never_submitted"})
            self._pending[message.id] = pending
        try:
            self.send(message)
            if not pending.done.wait(until_s(deadline_us)):
                raise Timeout(f"{what}: no answer in time", details={"operation": what, "execution": "unknown"})
        finally:
            with self._lock:
                self._pending.pop(message.id, None)
        if pending.error is not None:
            raise pending.error
        return pending.value

    def send(self, message: Any) -> None:
        """Send without waiting for an answer; raises `link.LinkFull` if the other side does not read."""
        with self._lock:
            if self._ended:
                return
            self._link.send(message)
            self._watch_writing()

    def close(self) -> None:
        """Hang up; pending calls fail with `Closed`."""
        self._end(tell=False)

    def abandon(self) -> None:
        """In a forked child: close the inherited copy of the socket and touch nothing else."""
        self._ended = True
        self._link.close()

    def _greet(self, deadline_us: int) -> list[Any]:
        self._link.send(Hello(PROTOCOL_MAJOR, PROTOCOL_MINOR, package_version()))
        messages: list[Any] = []
        while not messages:
            if not self._link.wait_readable(until_s(deadline_us)):
                raise Timeout("the node did not answer the hello in time")
            messages = self._link.receive()
            if self._link.closed and not messages:
                raise Closed("the node hung up during the hello")
        hello, *early = messages
        if not isinstance(hello, Hello):
            raise Unsupported("the node does not speak this protocol: its first message was no hello")
        if hello.major != PROTOCOL_MAJOR:
            raise Unsupported(
                f"the node speaks protocol {hello.major}.{hello.minor} (parlora {hello.package}),"
                f" this library speaks {PROTOCOL_MAJOR}.{PROTOCOL_MINOR} (parlora {package_version()})",
                details={"node": [hello.major, hello.minor], "library": [PROTOCOL_MAJOR, PROTOCOL_MINOR]},
            )
        return early

    def _deliver_early(self) -> None:
        early, self._early = self._early, []
        for message in early:
            self._dispatch(message)

    def _ready(self, flags: int) -> None:
        self._deliver_early()
        messages: list[Any] = []
        with self._lock:
            if self._ended:
                return
            try:
                if flags & ~select.EPOLLOUT:
                    messages = self._link.receive()
                if flags & select.EPOLLOUT:
                    self._link.flush()
            except ParloraError:  # malformed bytes: the stream cannot be trusted any more
                self._link.closed = True
            self._watch_writing()
            ended = self._link.closed
        for message in messages:
            self._dispatch(message)
        if ended:
            self._end(tell=True)

    def _dispatch(self, message: Any) -> None:
        if not isinstance(message, Answer):
            self._on_message(message)
            return
        with self._lock:
            pending = self._pending.pop(message.id, None)
        if pending is not None:
            pending.settle(message.value, error_from_data(message.error) if message.error is not None else None)

    def _watch_writing(self) -> None:
        wanted = bool(self._link.queued) and not self._link.closed
        if wanted != self._write_watched:
            self._write_watched = wanted
            self._reactor.want_write(self._fd, wanted)

    def _end(self, tell: bool) -> None:
        with self._lock:
            if self._ended:
                return
            self._ended = True
            self._reactor.remove(self._fd)
            self._link.close()
            pending, self._pending = self._pending, {}
        for answer in pending.values():
            answer.settle(error=Closed("the connection ended before the answer", details={"execution": "unknown"}))
        if tell:
            self._on_end()


def _connect(path: str, deadline_us: int, is_wanted: Callable[[], bool]) -> socket.socket:
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.settimeout(max(0.001, until_s(deadline_us)))
            sock.connect(path)
            return sock
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError) as error:
            # The process behind it may still be on its way to `listen`.
            sock.close()
            if now_us() >= deadline_us or not is_wanted():
                raise Closed(f"nobody listens at the node's socket: {type(error).__name__}") from error
            time.sleep(_RETRY_S)
        except OSError as error:
            sock.close()
            raise Closed(f"cannot connect to the node: {error}") from error
