"""Checks of options that the cloud providers share."""

from __future__ import annotations

import ipaddress
import ssl
from typing import Any
from urllib.parse import urlsplit

from parlora.errors import InvalidArgument

_MAX_TEXT: int = 512


def check_url(value: object, field: str = "url") -> str:
    """A `wss:` URL, or a `ws:` URL to this machine: a key is never sent in the clear to another one."""
    if not isinstance(value, str):
        raise InvalidArgument(f"{field} must be a wss:// URL", field=field)
    try:
        parts = urlsplit(value)
        host = parts.hostname
        _ = parts.port
    except ValueError:
        raise InvalidArgument(f"{field} is no URL", field=field) from None
    if not host or parts.username is not None or parts.fragment or not value.isprintable() or " " in value:
        raise InvalidArgument(f"{field} must be a wss:// URL without user, password and fragment", field=field)
    if parts.scheme == "wss" or (parts.scheme == "ws" and _is_this_machine(host)):
        return value
    raise InvalidArgument(f"{field} must be a wss:// URL; ws:// is for this machine only", field=field)


def check_text(value: Any, field: str, *, optional: bool = True) -> Any:
    """A short printable text, or None where that is allowed."""
    if value is None and optional:
        return None
    if not isinstance(value, str) or not value or len(value) > _MAX_TEXT or not value.isprintable():
        raise InvalidArgument(f"{field} must be a printable text of 1 to {_MAX_TEXT} characters", field=field)
    return value


def check_ca_file(value: Any, field: str = "ca_file") -> str | None:
    """The path of a PEM file of certificates that can be read, or None."""
    path: str | None = check_text(value, field)
    if path is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except OSError as error:  # an SSLError is one
            raise InvalidArgument(f"{field}: {path} holds no certificates: {error.strerror}", field=field) from None
    return path


def check_integer(value: Any, field: str, least: int, most: int) -> int | None:
    """An integer in bounds, or None."""
    if value is None:
        return None
    if type(value) is not int or not least <= value <= most:
        raise InvalidArgument(f"{field} must be an integer from {least} to {most}", field=field)
    return value


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
