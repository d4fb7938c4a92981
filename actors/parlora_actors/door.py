"""A listening socket and who came in: uid check, handshake, bounds (design §4, §8).

The gateway and every session have one. Nobody is waited for: a guest that does not greet in time, does not speak the
protocol or does not read what is sent is shown out.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from parlora.wire import MessageSet
from parlora_actors.loop import Loop
from parlora_actors.messages.host import PROTOCOL_MAJOR, PROTOCOL_MINOR, Hello
from parlora_actors.version import package_version
from parlora_actors.watched_link import LinkFull, WatchedLink

MAX_AWAITING: Final = 16
"""Connections that have not said hello: more are hung up on at once."""

HELLO_TIMEOUT_US: Final = 1_000_000
"""A connection that has not said hello by then is hung up on."""

MAX_GUESTS: Final = 256
"""Connections at once; an application has one per handle of a session, and one to the node."""

MAX_QUEUED: Final = 1_280
MAX_QUEUED_BYTES: Final = 16 * 1024 * 1024
"""What may wait for one guest; beyond it the guest is shown out. An answer may have 8 MiB by itself."""

BACKLOG: Final = 64
"""Connections that the kernel holds for us while we are busy."""

_ACCEPT_PAUSE_US: Final = 100_000
"""Pause after a failed accept: it fails for want of descriptors, and trying at once would spin."""

_UCRED: Final = struct.Struct("3i")


class Guest:
    """One connection."""

    def __init__(self, name: str, link: WatchedLink) -> None:
        self.name = name
        self.link = link
        self.greeted = False


class Door:
    """Lets guests in and carries messages both ways.

    on_greeted, on_gone: a guest that speaks the protocol came, or went. on_message: it said something.
    """

    def __init__(
        self,
        loop: Loop,
        listener: socket.socket,
        incoming: MessageSet,
        outgoing: MessageSet,
        on_greeted: Callable[[str], None],
        on_message: Callable[[str, Any], None],
        on_gone: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._listener = listener
        self._messages = (incoming, outgoing)
        self._on_greeted = on_greeted
        self._on_message = on_message
        self._on_gone = on_gone
        self._guests: dict[str, Guest] = {}
        self._count = 0
        listener.setblocking(False)
        loop.watch(listener.fileno(), self._accept)

    def names(self) -> tuple[str, ...]:
        """Everybody who has greeted."""
        return tuple(guest.name for guest in self._guests.values() if guest.greeted)

    def waiting(self, name: str) -> tuple[int, int]:
        """How many messages and bytes wait for a guest; nothing does for one that is gone."""
        guest = self._guests.get(name)
        return (guest.link.queued, guest.link.queued_bytes) if guest is not None else (0, 0)

    def send(self, name: str, message: Any) -> None:
        """Send to a guest, if it is still there; one for whom too much waits is shown out."""
        guest = self._guests.get(name)
        if guest is None:
            return
        try:
            guest.link.send(message)
        except LinkFull:
            self._loop.soon(lambda: self.drop(name))  # not now: whoever sends is in the middle of something

    def drop(self, name: str) -> None:
        """Hang up on a guest."""
        guest = self._guests.pop(name, None)
        if guest is not None:
            guest.link.close()
            if guest.greeted:
                self._on_gone(name)

    def flush(self) -> bool:
        """Send what the sockets take; True if nothing is left for anybody."""
        left = [guest for guest in self._guests.values() if not guest.link.flush()]
        return not left

    def shut(self) -> None:
        """Let nobody in any more; who is in stays."""
        if self._listener.fileno() >= 0:
            self._loop.unwatch(self._listener.fileno())
            self._listener.close()

    def close(self) -> None:
        """Let nobody in and hang up on everybody, without `on_gone`."""
        self.shut()
        while self._guests:
            self._guests.popitem()[1].link.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            self._loop.unwatch(self._listener.fileno())
            self._loop.after(_ACCEPT_PAUSE_US, self._accept_again)
            return
        awaiting = sum(not guest.greeted for guest in self._guests.values())
        if not is_ours(connection) or awaiting >= MAX_AWAITING or len(self._guests) >= MAX_GUESTS:
            connection.close()
            return
        self._count += 1
        name = f"caller-{self._count}"
        link = WatchedLink(
            self._loop,
            connection.detach(),
            *self._messages,
            lambda message: self._read(name, message),
            lambda: self.drop(name),
            max_queued=MAX_QUEUED,
            max_queued_bytes=MAX_QUEUED_BYTES,
        )
        self._guests[name] = Guest(name, link)
        self._loop.after(HELLO_TIMEOUT_US, lambda: self._check_greeted(name))

    def _accept_again(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.watch(self._listener.fileno(), self._accept)

    def _read(self, name: str, message: Any) -> None:
        guest = self._guests.get(name)
        if guest is None:
            return
        if not isinstance(message, Hello):
            if guest.greeted:
                self._on_message(name, message)
            else:
                self.drop(name)
        elif guest.greeted:
            self.drop(name)
        else:
            self.send(name, Hello(PROTOCOL_MAJOR, PROTOCOL_MINOR, package_version()))
            if message.major != PROTOCOL_MAJOR:  # our hello names our number; the guest knows its own
                self.drop(name)
            else:
                guest.greeted = True
                self._on_greeted(name)

    def _check_greeted(self, name: str) -> None:
        guest = self._guests.get(name)
        if guest is not None and not guest.greeted:
            self.drop(name)


def is_ours(connection: socket.socket) -> bool:
    """Whether the process at the other end runs under our uid."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    uid: int = _UCRED.unpack(raw)[1]
    return uid == os.getuid()


def listen(path: str) -> socket.socket:
    """A listening socket at `path`, for our uid only; one that a dead predecessor left there is replaced."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(BACKLOG)
    return listener
