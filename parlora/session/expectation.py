"""What a progress deadline may be: one rule for who asks for one and for the session that arms it (spec 000 §15)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from parlora.errors import InvalidArgument

MOST_MS: Final = 300_000
UNTIL: Final = ("assistant_caption", "user_caption", "delegation", "conversation", "explicit")
ON_TIMEOUT: Final = ("notify", "close")
OUTCOMES: Final = ("completed", "cancelled")


def check_expectation(arguments: Mapping[str, Any]) -> tuple[int, str, str]:
    """`timeout_ms`, `until` and `on_timeout`, the latter two by default the first of what is allowed.

    Raises `InvalidArgument` naming the one that is wrong.
    """
    timeout_ms = arguments.get("timeout_ms")
    if type(timeout_ms) is not int or not 1 <= timeout_ms <= MOST_MS:
        raise InvalidArgument(f"timeout_ms must be an integer from 1 to {MOST_MS:,}", field="timeout_ms")
    until = _choice(arguments.get("until", UNTIL[0]), "until", UNTIL)
    return timeout_ms, until, _choice(arguments.get("on_timeout", ON_TIMEOUT[0]), "on_timeout", ON_TIMEOUT)


def check_outcome(value: object) -> str:
    """How a deadline was settled; raises `InvalidArgument`."""
    return _choice(value, "outcome", OUTCOMES)


def _choice(value: object, name: str, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in allowed:
        raise InvalidArgument(f"{name} must be one of {', '.join(allowed)}", field=name)
    return str(value)
