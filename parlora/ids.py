"""Ids are opaque strings: made here, compared for equality, never parsed (acceptance CM-19)."""

from __future__ import annotations

import secrets
from typing import Final

from parlora.errors import InvalidArgument

MAX_ID_BYTES: Final = 128
"""Longest id accepted from a caller, in UTF-8 bytes: the same bound as the spec's opaque keys."""


def new_id() -> str:
    """A fresh id: 20 random bytes' worth of URL-safe text, unique without coordination."""
    return secrets.token_urlsafe(15)


def check_id(value: object, field: str) -> str:
    """Return `value` if it is a usable id, else raise `InvalidArgument` naming `field`."""
    if not isinstance(value, str) or not value:
        raise InvalidArgument(f"{field} must be a non-empty string", field=field)
    try:
        length = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"{field} must be text that UTF-8 can encode", field=field) from None
    if length > MAX_ID_BYTES:
        raise InvalidArgument(f"{field} must be at most {MAX_ID_BYTES} bytes of UTF-8", field=field)
    return value
