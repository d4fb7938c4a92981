"""Grok Voice 3.0 over its realtime WebSocket: `parlora.providers.grok:Grok`.

The adapter is loaded when it is asked for, so that the codec stays usable without sockets and threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parlora.providers.grok.adapter import Grok as Grok

__all__ = ["Grok"]


def __getattr__(name: str) -> Any:
    if name == "Grok":
        from parlora.providers.grok.adapter import Grok

        return Grok
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
