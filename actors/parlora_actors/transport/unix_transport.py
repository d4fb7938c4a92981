"""Thespian's TCP transport, moved to Unix sockets, with the first steps of every process of ours.

The constructor is the first code of ours that runs in a forked process, before Thespian's own and before any actor's.
So here a process ties its life to its parent's and closes what is not its own.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path
from typing import Any, Final

from thespian.actors import ActorAddress
from thespian.system.transport import ExternalInterfaceTransportInit, ReceiveEnvelope, TCPTransport
from thespian.system.transport.asyncTransportBase import asyncTransportBase

from parlora._process import close_descriptors_except, set_parent_death_signal
from parlora_actors import birth
from parlora_actors.timing import ADMIN_ADOPTION_US, ADOPTION_POLL_US, now_us
from parlora_actors.transport.address import ADMIN_SOCKET, UnixAddress, check_directory, socket_path
from parlora_actors.transport.sockets import UnixSocket, peer_user

DIRECTORY_CAPABILITY: Final = "Parlora Socket Directory"
EXIT_ORPHANED: Final = 72
"""Exit code of a process whose parent died before it could tie its life to it."""

_LISTEN_QUEUE: Final = 4_096
_LOGGER_INSTANCE: Final = -1


class UnixTransport(TCPTransport.TCPTransport):  # type: ignore[misc]
    """One process's mailbox.

    Thespian makes one in the starting process, in its admin, in its logger and in every actor.
    """

    def __init__(self, kind: Any, *arguments: Any) -> None:
        mine: ActorAddress | None = None
        instance: int | None = None
        self._parentAddr = None
        if isinstance(kind, ExternalInterfaceTransportInit):
            self._adminAddr = self.getAdminAddr(arguments[0])
        elif isinstance(kind, TCPTransport.TCPEndpoint):
            instance, mine, self._parentAddr, self._adminAddr, _routing, _tx_only = kind.args
            _settle(kind.parent_pid, instance)
        else:
            self._adminAddr = arguments[0]
        asyncTransportBase.__init__(self)  # runs wakeupTransportBase's as well
        self.txOnly = False
        self._owner = os.getpid()
        directory = os.path.dirname(self._adminAddr.addressDetails.path)
        self.myAddress = mine or ActorAddress(UnixAddress(_free_path(directory)))
        self.socket = _listen(self.myAddress.addressDetails.path)
        self._transmitIntents: dict[int, Any] = {}
        self._waitingTransmits: list[Any] = []
        self._incomingSockets: dict[int, Any] = {}
        self._incomingEnvelopes: list[Any] = []
        self._finished_intents: list[Any] = []
        self._watches: list[int] = []
        self._openSockets: dict[Any, Any] = {}
        self._checkChildren = False
        self._shutdownSignalled = False
        given = birth.current()
        if given is not None and instance is not None and instance >= 0:
            self._incomingEnvelopes.append(ReceiveEnvelope(self._parentAddr, given.first_message))

    def prepEndpoint(self, assignedLocalAddr: ActorAddress, capabilities: dict[str, Any]) -> Any:
        """In the parent, before a fork: what the child's transport is made of."""
        endpoint = super().prepEndpoint(assignedLocalAddr, capabilities)
        endpoint.parent_pid = os.getpid()
        return endpoint

    def close(self) -> None:
        """Stop listening and remove the socket file; a forked copy of this object does nothing."""
        if getattr(self, "_owner", None) == os.getpid() and hasattr(self, "socket"):
            Path(self.myAddress.addressDetails.path).unlink(missing_ok=True)
            super().close()

    @staticmethod
    def getAdminAddr(capabilities: dict[str, Any]) -> ActorAddress:
        """The admin's address in the node's directory, which must be private."""
        directory = capabilities[DIRECTORY_CAPABILITY]
        check_directory(directory)
        return ActorAddress(UnixAddress(os.path.join(directory, ADMIN_SOCKET)))

    @staticmethod
    def getAddressFromString(addrspec: str, adminRouting: bool = False) -> ActorAddress:
        """The address of a socket file."""
        return ActorAddress(UnixAddress(addrspec))

    @staticmethod
    def getConventionAddress(capabilities: dict[str, Any]) -> None:
        """A node has no conventions with others."""

    @staticmethod
    def probeAdmin(addr: ActorAddress) -> bool:
        """Whether an admin listens there."""
        with UnixSocket(*addr.addressDetails.socketArgs) as probe:
            probe.connect(addr.addressDetails.path)
            return not probe.is_refused

    def external_transport_clone(self) -> UnixTransport:
        """A second mailbox of the starting process."""
        return UnixTransport(TCPTransport.ExternalTransportCopy(), self._adminAddr)

    def new_socket(self, op: Any, *args: Any, **kwargs: Any) -> Any:
        """Every socket that Thespian asks for."""
        return super().new_socket(UnixSocket, *args, **kwargs)

    def _acceptNewIncoming(self) -> None:
        """Accept one connection, from our own user only.

        Thespian's version lets a failed `accept` end the process.
        """
        try:
            accepted, _ = super().new_socket(self.socket.accept)
        except OSError:
            accepted = None
        self._check_indicators()
        if accepted is None:
            return
        if peer_user(accepted) != os.geteuid():
            accepted.close()
            return
        connection = UnixSocket(fileno=accepted.detach())
        connection.setblocking(False)
        self._incomingSockets[connection.fileno()] = TCPTransport.TCPIncomingPersistent(ActorAddress(None), connection)


def _settle(parent_pid: int, instance: int | None) -> None:
    """The first steps of a forked process."""
    is_admin = instance is None
    deadline_us = now_us() + ADMIN_ADOPTION_US if is_admin else 0
    while os.getppid() != parent_pid:  # the admin forks twice, and falls to the launcher when its own parent is gone
        if now_us() >= deadline_us:
            os._exit(EXIT_ORPHANED)
        time.sleep(ADOPTION_POLL_US / 1_000_000)
    set_parent_death_signal(signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(EXIT_ORPHANED)
    # Sockets of the parent that wait in a reference cycle would be closed by our collector, by numbers that are ours
    # by then. Frozen objects are never collected; it also keeps the inherited memory shared.
    gc.freeze()
    given = birth.current()
    if given is None or instance == _LOGGER_INSTANCE:
        close_descriptors_except(birth.STANDARD_DESCRIPTORS)
    else:
        close_descriptors_except(given.descriptors)


def _free_path(directory: str) -> str:
    path = socket_path(directory, os.getpid())
    extra = 0
    # A process that starts a system has several mailboxes. In a forked one only a dead process of the same pid can have
    # left this file, and its supervisor removes it; a number too many does no harm.
    while os.path.lexists(path):
        extra += 1
        path = f"{socket_path(directory, os.getpid())}-{extra}"
    return path


def _listen(path: str) -> UnixSocket:
    if os.path.basename(path) == ADMIN_SOCKET:
        Path(path).unlink(missing_ok=True)
    listener = UnixSocket(*UnixAddress(path).socketArgs)
    previous = os.umask(0o177)
    try:
        listener.bind(path)
    finally:
        os.umask(previous)
    listener.listen(_LISTEN_QUEUE)
    return listener
