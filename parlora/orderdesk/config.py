"""OrderDesk as the options of a session: everything but the channel, which is the caller's choice.

host.start_session(channel=("parlora.channels.wav:WavChannel", {...}), **session_options())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from parlora.orderdesk.grammar import CALLER, REPROMPT

PROVIDER: Final = "parlora.providers.offline:Offline"
BACKEND: Final = "parlora.backends.functions:Functions"
LOOKUP: Final = "parlora.orderdesk.backend:lookup"
POLICY: Final = "parlora.orderdesk.policy:OrderDeskPolicy"
APOLOGY: Final = "Sorry, I can not look that up now."
INSTRUCTIONS: Final = "You are the order desk. You answer with what the order system says and with nothing else."


def session_options(
    *,
    voice: str | None = None,
    greeting: str | None = None,
    delays_ms: Mapping[str, int] | None = None,
    ignores_cancel: Sequence[str] = (),
    wait_ms: int | None = None,
) -> dict[str, Any]:
    """Provider, backend, context_policy and instructions for `start_session`; None takes each component's default."""
    provider: dict[str, Any] = {"grammar": CALLER, "reprompt": REPROMPT}
    if voice is not None:
        provider["voice"] = voice
    if greeting is not None:
        provider["greeting"] = greeting
    lookup: dict[str, Any] = {"delays_ms": dict(delays_ms or {}), "ignores_cancel": list(ignores_cancel)}
    backend = {"handler": LOOKUP, "options": lookup, "failure_summary": APOLOGY}
    return {
        "provider": (PROVIDER, provider),
        "backend": (BACKEND, backend),
        "context_policy": (POLICY, {} if wait_ms is None else {"wait_ms": wait_ms}),
        "instructions": INSTRUCTIONS,
    }
