"""What a session is asked to be (spec 000 §9): checked once at the host, then handed down unchanged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.audio.format import AudioFormat
from parlora.component import Component
from parlora.limits import Limits


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """One session.

    instructions, history: kept for the provider. history entries are `{"speaker": "user"|"assistant", "text": str}`,
    oldest first. context: the first snapshot's application_context. limits: byte bounds already resolved for the
    format, but for the provider's generated-audio bounds, which its owner completes from its profile.
    telemetry: a module-level function that gets the measurements made in the session's processes.
    deadline_us: when startup must be over, absolute and local monotonic; stamped once by the host.
    """

    session_id: str
    channel: Component
    provider: Component
    backend: Component
    context_policy: Component
    audio_format: AudioFormat
    limits: Limits
    deadline_us: int
    instructions: str | None = None
    history: tuple[dict[str, Any], ...] = ()
    context: dict[str, Any] = field(default_factory=dict)
    telemetry: Component | None = None
