"""A session link on a loop: messages in as calls, messages out without waiting."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from parlora.errors import ParloraError
from parlora.wire import MessageSet
from parlora_actors.link import Link, LinkFull
from parlora_actors.loop import Loop

__all__ = ["LinkFull", "WatchedLink"]


class WatchedLink:
    """Takes over a connected socket. `on_end` is called once: at the peer's end, or at bytes that are no messages."""

    def __init__(
        self,
        loop: Loop,
        descriptor: int,
        incoming: MessageSet,
        outgoing: MessageSet,
        on_message: Callable[[Any], None],
        on_end: Callable[[], None],
        **bounds: int,
    ) -> None:
        self._loop = loop
        self.link = Link(socket.socket(fileno=descriptor), incoming, outgoing, **bounds)
        self._on_message = on_message
        self._on_end = on_end
        self._waiting_to_write = False
        self.on_drained: Callable[[], None] | None = None
        """Called when everything that had to wait for the peer has gone out."""
        loop.watch(self.link.fileno(), self._read)

    @property
    def is_open(self) -> bool:
        """Whether messages still go anywhere."""
        return not self.link.closed

    @property
    def queued(self) -> int:
        """Messages that wait for the peer."""
        return self.link.queued

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait for the peer."""
        return self.link.queued_bytes

    def send(self, message: Any, descriptor: int = -1) -> None:
        """Send, or queue what the socket does not take; raises `LinkFull` at the bound of the link.

        A passed descriptor must stay open until `queued` is 0.
        """
        self.link.send(message, descriptor)
        self._watch_writing()

    def flush(self) -> bool:
        """Send what the socket takes now; True if nothing is left."""
        done = self.link.flush()
        self._watch_writing()
        return done

    def drain(self) -> None:
        """Take every message that has arrived by now."""
        while self.link.fileno() >= 0 and self.link.wait_readable(0):
            self._read()

    def close(self) -> None:
        """Close without calling `on_end`."""
        fd = self.link.fileno()
        if fd >= 0:
            self._loop.unwatch(fd)
            self.link.close()

    def _read(self) -> None:
        try:
            messages = self.link.receive()
        except ParloraError:
            self._end()
            return
        for message in messages:
            if self.link.fileno() < 0:  # a handler closed it
                return
            self._on_message(message)
        if self.link.closed:
            self._end()

    def _write(self) -> None:
        if self.flush() and self.on_drained is not None:
            self.on_drained()

    def _watch_writing(self) -> None:
        wanted = self.link.queued > 0 and not self.link.closed
        fd = self.link.fileno()
        if wanted != self._waiting_to_write and fd >= 0:
            self._waiting_to_write = wanted
            if wanted:
                self._loop.watch(fd, self._write, writable=True)
            else:
                self._loop.unwatch(fd, writable=True)

    def _end(self) -> None:
        if self.link.fileno() >= 0:
            self.close()
            self._on_end()
