"""Watch a node from another process: it sees, and can do nothing else.

Connecting starts nothing: where no node runs there is an error. The node never waits for a watcher; one that does not
read is shown out after eight views.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from parlora.errors import Closed, InvalidArgument, NotFound, Timeout, Unsupported
from parlora_actors.host_timing import CONNECT_TIMEOUT_MS, VIEW_TIMEOUT_MS, now_us, until_s
from parlora_actors.link import Link
from parlora_actors.messages.host import PROTOCOL_MAJOR, PROTOCOL_MINOR, Hello
from parlora_actors.messages.monitor import FROM_MONITOR, TO_MONITOR, NodeView, Watch
from parlora_actors.run_directory import MONITOR_SOCKET_NAME, NODE_SOCKET_NAME, standing_directory
from parlora_actors.transport.address import check_directory
from parlora_actors.version import package_version


class NodeWatch:
    """One view of a node a second, as an iterator; made by `AttachedHost.monitor`, or by itself. For one thread.

    >>> with NodeWatch("/run/user/1000/parlora/node") as watch:                         # doctest: +SKIP
    ...     for view in watch:
    ...         print(len(view.sessions), "sessions,", len(view.processes), "processes")
    """

    def __init__(self, run_dir: str | os.PathLike[str] | None = None) -> None:
        """Connect, by default to this user's standing node.

        Raises `NotFound` if no node runs there, `Unsupported` if it speaks another protocol, `Timeout`.
        """
        self.run_dir = find_node(run_dir)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            sock.connect(os.path.join(self.run_dir, MONITOR_SOCKET_NAME))
        except OSError:  # none is there, or it is just being replaced
            sock.close()
            raise NotFound(f"no monitor answers in {self.run_dir}", details={"path": self.run_dir}) from None
        self._link = Link(sock, FROM_MONITOR, TO_MONITOR)
        self._views: list[NodeView] = []
        try:
            self._greet()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[NodeView]:
        """Every view until the monitor, or its node, ends."""
        while True:
            try:
                yield self.view()
            except Closed:
                return

    def view(self, timeout: float = VIEW_TIMEOUT_MS / 1_000) -> NodeView:
        """The next view. Raises `Closed` when the monitor has ended, `Timeout` after `timeout` seconds."""
        deadline_us = now_us() + int(timeout * 1_000_000)
        while not self._views:
            self._receive(deadline_us)
        return self._views.pop(0)

    def close(self) -> None:
        """Stop watching."""
        self._link.close()

    def _greet(self) -> None:
        self._link.send(Hello(PROTOCOL_MAJOR, PROTOCOL_MINOR, package_version()))
        self._link.send(Watch())
        self._receive(now_us() + CONNECT_TIMEOUT_MS * 1_000)

    def _receive(self, deadline_us: int) -> None:
        if self._link.closed:
            raise Closed("the monitor has ended, or has shown out this watcher")
        if not self._link.wait_readable(until_s(deadline_us)):
            raise Timeout("the monitor sent nothing in time")
        for message in self._link.receive():
            if isinstance(message, NodeView):
                self._views.append(message)
            elif isinstance(message, Hello) and message.major != PROTOCOL_MAJOR:
                raise Unsupported(
                    f"the node speaks protocol {message.major}.{message.minor} (parlora {message.package}),"
                    f" this library speaks {PROTOCOL_MAJOR}.{PROTOCOL_MINOR} (parlora {package_version()})"
                )


def find_node(run_dir: str | os.PathLike[str] | None) -> str:
    """The directory of a node that seems to run. Raises `NotFound` or `Unsupported`."""
    if run_dir is not None and not isinstance(run_dir, str | os.PathLike):
        raise InvalidArgument("run_dir must be a path or None", field="run_dir")
    path = standing_directory() if run_dir is None else os.path.abspath(os.fspath(run_dir))
    missing = NotFound(f"no node runs in {path}", details={"path": path})
    try:
        check_directory(path)
    except FileNotFoundError:
        raise missing from None
    if not os.path.exists(os.path.join(path, NODE_SOCKET_NAME)):
        raise missing
    return path
