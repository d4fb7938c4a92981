"""OpenAI GPT-Live over its Live WebSocket: `parlora.providers.openai:OpenAI`.

The adapter is loaded when it is asked for, so that the codec stays usable without sockets and threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parlora.providers.openai.adapter import OpenAI as OpenAI

__all__ = ["OpenAI"]


def __getattr__(name: str) -> Any:
    if name == "OpenAI":
        from parlora.providers.openai.adapter import OpenAI

        return OpenAI
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
