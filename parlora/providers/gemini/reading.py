"""What is in a server message of Gemini Live: checked values or nothing, whatever it holds."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, Final

from parlora.errors import ParloraError
from parlora.ids import MAX_ID_BYTES
from parlora.providers.gemini.commands import OUTPUT_HZ
from parlora.wire import pack

MAX_ARGUMENT_BYTES: Final = 16_384
"""Arguments of a function call beyond this do not go into an event; the call does."""

_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_RATE: Final = re.compile(r"rate=(\d{1,6})(?:;|$)")


def message_of(data: str | bytes) -> dict[str, Any] | None:
    """The object in a text or binary message, or None."""
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def mapping(message: dict[str, Any], name: str) -> dict[str, Any]:
    """A field that is an object; empty if it is not there."""
    value = message.get(name)
    return value if isinstance(value, dict) else {}


def items(message: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """The objects of a field that is a list."""
    value = message.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any, most: int | None = None) -> str | None:
    """A text that can be written as UTF-8, or None. `most`: characters it is cut to."""
    if not isinstance(value, str):
        return None
    return value[:most].encode("utf-8", "replace").decode()


def identifier(value: Any) -> str | None:
    """An id as the contract takes it, or None."""
    if not isinstance(value, str) or not value or text(value) != value or len(value.encode()) > MAX_ID_BYTES:
        return None
    return value


def count(value: Any) -> int | None:
    """A number of tokens, or None."""
    return value if type(value) is int and 0 <= value < 2**53 else None


def milliseconds(value: Any) -> int | None:
    """A protobuf duration such as `9.5s`, or None."""
    found = _SECONDS.fullmatch(value) if isinstance(value, str) else None
    return round(float(found[1]) * 1_000) if found else None


def sound(part: dict[str, Any]) -> bytes | None:
    """The PCM16 at 24 kHz in a part; None if it holds no audio or one in another format."""
    inline = mapping(part, "inlineData")
    mime, data = inline.get("mimeType"), inline.get("data")
    if not isinstance(mime, str) or not isinstance(data, str) or not mime.startswith("audio/pcm"):
        return None
    rate = _RATE.search(mime.replace(" ", ""))
    if rate is not None and int(rate[1]) != OUTPUT_HZ:
        return None
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None


def arguments(value: Any) -> dict[str, Any]:
    """The arguments of a function call as plain data; none if they are no such, or too many for an event."""
    if not isinstance(value, dict):
        return {}
    try:
        return value if len(pack(value)) <= MAX_ARGUMENT_BYTES else {}
    except (ParloraError, ValueError, OverflowError, RecursionError):
        return {}
