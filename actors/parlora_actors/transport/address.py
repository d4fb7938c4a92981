"""Where an actor listens: a socket file in the node's own directory."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any, Final

from parlora.errors import InvalidArgument, Unsupported

MAX_SOCKET_PATH_BYTES: Final = 99
"""The kernel takes 107; the rest is a margin for people who look at a node through a longer path."""

ADMIN_SOCKET: Final = "admin"


class UnixAddress:
    """The address details of Thespian's `ActorAddress`, as the transport expects them."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def socketArgs(self) -> tuple[Any, ...]:
        """The arguments that make a socket for this address."""
        return (socket.AF_UNIX, socket.SOCK_STREAM, 0)

    @property
    def bindArgs(self) -> tuple[str]:
        """The arguments of `bind`."""
        return (self.path,)

    @property
    def connectArgs(self) -> tuple[str]:
        """The arguments of `connect`."""
        return (self.path,)

    def isLocalAddr(self) -> bool:
        """Every address is on this machine."""
        return True

    def isSameSystem(self, other: object) -> bool:
        """Every address is on this machine."""
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnixAddress) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __repr__(self) -> str:
        return f"UnixAddress({os.path.basename(self.path)})"


def socket_path(directory: str, pid: int) -> str:
    """The socket of the actor that runs as `pid`."""
    return os.path.join(directory, f"a{pid}")


def remove_socket(directory: str, pid: int) -> None:
    """Remove the socket of a dead process. Call it before its pid is released, or a successor's socket may be hit."""
    Path(socket_path(directory, pid)).unlink(missing_ok=True)


def check_directory(directory: str) -> None:
    """Raise unless the directory is real, ours and closed to everybody else.

    Raises `Unsupported` naming what is wrong, `InvalidArgument` for a path that is too long for sockets.
    """
    if len(os.fsencode(socket_path(directory, 4_194_304))) > MAX_SOCKET_PATH_BYTES:
        raise InvalidArgument(f"the path {directory} is too long for sockets", field="directory")
    found = os.lstat(directory)
    if not stat.S_ISDIR(found.st_mode):
        raise Unsupported(f"{directory} is not a directory")
    if found.st_uid != os.geteuid():
        raise Unsupported(f"{directory} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & 0o077:
        raise Unsupported(f"{directory} is open to others (mode {stat.S_IMODE(found.st_mode):o}, must be 700)")
