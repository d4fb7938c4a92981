"""What may arrive at an actor's socket: a bounded frame, holding one message of a kind that is listed here.

Thespian's own messages are objects, so they travel pickled; the unpickler makes nothing but the listed classes, none of
which does anything when it is made. Applications' messages are `bytes` holding msgpack, and nothing else.
"""

from __future__ import annotations

import io
import logging
import pickle
from typing import Any, Final

from thespian import actors as thespian_actors
from thespian.actors import ActorAddress
from thespian.system import logdirector
from thespian.system.messages import admin, multiproc, status
from thespian.system.transport import TCPTransport, streamBuffer

from parlora_actors.transport.address import UnixAddress

MAX_MESSAGE_BYTES: Final = 1024 * 1024
"""Largest Thespian message. Lifecycle messages have a few hundred bytes; bulk data has its own ways."""

_MAX_HEADER_BYTES: Final = 8

_MESSAGES: Final[tuple[type, ...]] = (
    bytes,
    thespian_actors.ActorExitRequest,
    thespian_actors.ChildActorExited,
    thespian_actors.DeadEnvelope,
    thespian_actors.PoisonMessage,
    admin.NewCapabilities,
    admin.PendingActor,
    admin.PendingActorResponse,
    admin.QueryAck,
    admin.QueryExists,
    admin.SystemShutdown,
    admin.SystemShutdownCompleted,
    multiproc.EndpointConnected,
    multiproc.LoggerConnected,
    logdirector.LoggerExitRequest,
    logging.LogRecord,
    status.Thespian_StatusReq,
)
_ALLOWED: Final = {(cls.__module__, cls.__qualname__): cls for cls in (*_MESSAGES[1:], ActorAddress, UnixAddress)}
_ACKNOWLEDGMENTS: Final = (streamBuffer.ackPacket, streamBuffer.ackDataErrPacket)


class _AllowListUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"{module}.{name} may not arrive in a message") from None


class Codec:
    """Takes the place of the `pickle` module in Thespian's transport."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        """A message and its sender, or an acknowledgment, as bytes."""
        return pickle.dumps(value, protocol=4)

    @staticmethod
    def loads(data: bytes) -> Any:
        """The message; raises `pickle.UnpicklingError` for anything that is not exactly one, whatever it is."""
        try:
            value = _AllowListUnpickler(io.BytesIO(data)).load()
        except pickle.UnpicklingError:
            raise
        except Exception as error:  # malformed pickles raise almost anything
            raise pickle.UnpicklingError(f"malformed message: {type(error).__name__}") from None
        if isinstance(value, str) and value in _ACKNOWLEDGMENTS:
            return value
        if type(value) is tuple and len(value) == 2 and _is_sender(value[0]) and isinstance(value[1], _MESSAGES):
            return value
        raise pickle.UnpicklingError("not a message with its sender")


def _is_sender(value: object) -> bool:
    details = getattr(value, "_aaddr", None)
    return isinstance(value, ActorAddress) and isinstance(details, UnixAddress) and isinstance(details.path, str)


class BoundedReceiveBuffer(streamBuffer.ReceiveBuffer):  # type: ignore[misc]
    """Collects one frame; raises `ValueError` for one that is malformed or too large, before its content is read."""

    def addMore(self, data: bytes) -> None:
        """Add received bytes."""
        if self._size is None:
            self._check_header(self._buf + data)
        super().addMore(data)

    @staticmethod
    def _check_header(start: bytes) -> None:
        digits, mark, _ = start.partition(b">")
        if len(digits) > _MAX_HEADER_BYTES or (digits and not digits.isdigit()) or (mark and not digits):
            raise ValueError("malformed frame header")
        if mark and int(digits) > MAX_MESSAGE_BYTES:
            raise ValueError(f"a frame of {int(digits)} bytes, at most {MAX_MESSAGE_BYTES} are allowed")


def install() -> None:
    """Make Thespian's transport use this codec and buffer, in this process and all that it forks."""
    TCPTransport.serializer = Codec
    TCPTransport.ReceiveBuffer = BoundedReceiveBuffer
    TCPTransport.ackMsg = streamBuffer.toSendBuffer(streamBuffer.ackPacket, Codec.dumps)
    TCPTransport.ackDataErrMsg = streamBuffer.toSendBuffer(streamBuffer.ackDataErrPacket, Codec.dumps)
