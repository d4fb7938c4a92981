"""From dataclasses to msgpack and back, and the framing of a byte stream (design §4).

A frame is a 4-byte big-endian length and that many bytes of msgpack. Nothing here
does I/O: `FrameDecoder` is fed bytes and yields messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, TypeVar

import msgpack
from cattrs.preconf.msgpack import make_converter

from parlora.errors import InvalidArgument, ParloraError

MAX_FRAME_BYTES: Final = 8 * 1024 * 1024
"""Largest frame on any link; a longer length prefix ends the connection (design §4)."""

_HEADER: Final = struct.Struct(">I")
T = TypeVar("T")

converter = make_converter(omit_if_default=False, forbid_extra_keys=False)
"""The one converter: a missing field is an error, an extra one from a newer peer is ignored."""


class FrameTooLarge(ParloraError):
    """A peer announced, or we tried to send, a frame beyond `MAX_FRAME_BYTES`."""

    default_code = "invalid_argument"


def pack(value: Any) -> bytes:
    """Plain data as msgpack; raises `InvalidArgument` for a value that msgpack cannot carry."""
    try:
        packed: bytes = msgpack.packb(value, use_bin_type=True)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidArgument(f"value cannot be serialized: {error}") from None
    return packed


def unpack(data: bytes | memoryview) -> Any:
    """The plain data in `data`; raises `InvalidArgument` for malformed bytes."""
    try:
        return msgpack.unpackb(data, raw=False, strict_map_key=False)
    except Exception as error:  # msgpack raises half a dozen unrelated types
        raise InvalidArgument(f"malformed message: {type(error).__name__}") from None


def packed_size(value: Any) -> int:
    """Length of the value's msgpack encoding in bytes (filling A12: the measure of every 'serialized size')."""
    return len(pack(value))


def to_data(value: Any) -> Any:
    """A dataclass (or anything built of them) as plain data for `pack`."""
    return converter.unstructure(value)


def from_data(data: Any, cls: type[T]) -> T:
    """An instance of `cls` from plain data; raises `InvalidArgument` for a missing or misfit field."""
    try:
        return converter.structure(data, cls)
    except Exception as error:  # cattrs raises an exception group per nesting level
        raise InvalidArgument(f"malformed {cls.__name__}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup) and error.exceptions:
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def encode_frame(value: Any) -> bytes:
    """One frame holding plain data."""
    body = pack(value)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLarge(f"message of {len(body)} bytes exceeds {MAX_FRAME_BYTES}")
    return _HEADER.pack(len(body)) + body


class FrameDecoder:
    """Cuts a byte stream into messages.

    >>> decoder = FrameDecoder()
    >>> list(decoder.feed(encode_frame({"kind": "hello"})))
    [{'kind': 'hello'}]
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._buffer = bytearray()
        self._max = max_frame_bytes

    def feed(self, data: bytes) -> Iterator[Any]:
        """Yield each complete message; raises `FrameTooLarge` or `InvalidArgument`, after which the stream is dead."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            (length,) = _HEADER.unpack_from(self._buffer)
            if length > self._max:
                raise FrameTooLarge(f"peer announced a frame of {length} bytes, at most {self._max} are allowed")
            end = _HEADER.size + length
            if len(self._buffer) < end:
                return
            with memoryview(self._buffer) as view:
                body = bytes(view[_HEADER.size : end])
            del self._buffer[:end]
            yield unpack(body)


class MessageSet:
    """The messages of one boundary: dataclasses, each with a `kind`, encoded with the boundary's version.

    A message travels as `{"k": kind, "v": version, "b": fields}`. Unknown kinds are counted in `unknown` and skipped,
    since a newer peer may send them; a missing field is an error (design §4).
    """

    def __init__(self, version: int, *classes: type) -> None:
        self._version = version
        self._by_kind: dict[str, type] = {_kind_of(cls): cls for cls in classes}
        self._kinds: dict[type, str] = {cls: kind for kind, cls in self._by_kind.items()}
        self.unknown = 0

    def encode(self, message: Any) -> dict[str, Any]:
        """A message as plain data."""
        return {"k": self._kinds[type(message)], "v": self._version, "b": to_data(message)}

    def decode(self, data: Any) -> Any | None:
        """The message in plain data, or None for an unknown kind; raises `InvalidArgument` if it is malformed."""
        if not isinstance(data, dict) or not isinstance(data.get("k"), str) or not isinstance(data.get("b"), dict):
            raise InvalidArgument("malformed message: it must hold k, v and b")
        cls = self._by_kind.get(data["k"])
        if cls is None:
            self.unknown += 1
            return None
        return from_data(data["b"], cls)

    @property
    def classes(self) -> tuple[type, ...]:
        """The dataclasses of this boundary."""
        return tuple(self._kinds)


def _kind_of(cls: type) -> str:
    name = cls.__name__
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))
