"""Trivial sessions for tests on a real node."""

from __future__ import annotations

from typing import Any

from parlora import ActorHost, Session

TRIVIAL: dict[str, Any] = {
    "channel": "parlora.channels.trivial:TrivialChannel",
    "provider": "parlora.providers.trivial:TrivialProvider",
    "backend": "parlora.backends.trivial:TrivialBackend",
    "context_policy": "parlora.policies.trivial:no_decisions",
}


def start(host: ActorHost, **options: Any) -> Session:
    """A session of trivial parts, but for what `options` say."""
    return host.start_session(**{**TRIVIAL, **options})
