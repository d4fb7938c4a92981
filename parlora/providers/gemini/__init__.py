"""Gemini 3.8 Live over its bidirectional WebSocket: `parlora.providers.gemini:Gemini`.

The adapter is loaded when it is asked for, so that the codec stays usable without sockets and threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parlora.providers.gemini.adapter import Gemini as Gemini

__all__ = ["Gemini"]


def __getattr__(name: str) -> Any:
    if name == "Gemini":
        from parlora.providers.gemini.adapter import Gemini

        return Gemini
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
