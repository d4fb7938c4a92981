"""Unix sockets that behave as Thespian's TCP transport expects."""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import Any, Final

_CREDENTIALS: Final = struct.Struct("3i")


def peer_user(connection: socket.socket) -> int:
    """The user id of the process that connected, as the kernel recorded it."""
    data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _pid, user, _group = _CREDENTIALS.unpack(data)
    return int(user)


class UnixSocket(socket.socket):
    """A Unix socket whose `connect` never fails by itself.

    Thespian parks the end of a message whose `connect` failed at once until something else happens, so its sender hears
    of the dead peer late or never. A failure in `send` is handled at once, so that is where this socket reports it.
    A full listen queue (EAGAIN, which TCP does not have) is tried again there, too.
    """

    _target: str | None = None
    _is_refused = False

    def connect(self, address: Any) -> None:
        """Connect, or remember what `send` has to report."""
        self._target = address
        self._try_connect(address)

    def send(self, data: Any, flags: int = 0) -> int:
        """Send, or raise what `connect` met."""
        if self._target is not None:
            self._try_connect(self._target)
        if self._is_refused:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        if self._target is not None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return super().send(data, flags)

    @property
    def is_refused(self) -> bool:
        """Whether nobody listens at the address given to `connect`."""
        return self._is_refused

    def setsockopt(self, level: int, *arguments: Any) -> None:
        """Set an option; TCP options, which a Unix socket does not have, are left out."""
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *arguments)

    def _try_connect(self, target: str) -> None:
        try:
            super().connect(target)
        except BlockingIOError:
            return
        except OSError:
            self._is_refused = True
        self._target = None
