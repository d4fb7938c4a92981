"""What a call is made of: where it stands, what it needs of its service, and its connections."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from parlora.audio.format import AudioFormat
from parlora.audio.port import AudioSink, AudioSource
from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import AdapterInit
from parlora.contract.provider import ProviderCapabilities
from parlora.errors import AdapterFailed, InvalidArgument, ParloraError, Timeout, Unsupported
from parlora.events import EventType
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.connection import Connection, End, EndReason, Timing


class Phase(StrEnum):
    """Where a call stands."""

    STARTING = "starting"
    RUNNING = "running"
    AWAITING_CLEAR = "awaiting_clear"  # an overload was told; the session is clearing its queues
    RECONNECTING = "reconnecting"
    CLOSING = "closing"
    ENDED = "ended"


RECOVERING: Final = (Phase.AWAITING_CLEAR, Phase.RECONNECTING)
"""While an output recovery, or a reconnection, is under way."""


SETTLED: Final = frozenset(
    {
        EventType.CONTEXT_ACKNOWLEDGED,
        EventType.CONTEXT_REJECTED,
        EventType.CONTROL_COMPLETED,
        EventType.CONTROL_FAILED,
    }
)
"""Events that are the last word on a command."""


class Service(Protocol):
    """What a call must know of its service; a `CloudProvider` is one."""

    capabilities: ProviderCapabilities
    recovers_output: bool
    timing: Timing
    resume_pause_ms: int | None

    def is_resumable(self, end: End) -> bool:
        """See `CloudProvider`."""

    def wire_formats(self, format: AudioFormat) -> tuple[AudioFormat, AudioFormat]:
        """See `CloudProvider`."""

    def next_codec(self, previous: CloudCodec, snapshot: ContextSnapshot | None) -> CloudCodec | None:
        """See `CloudProvider`."""


def check_init(service: Service, init: AdapterInit) -> tuple[AudioFormat, AudioSource, AudioSink]:
    """What a call cannot be without, of what an adapter was started with; raises what is wrong with it."""
    if init.audio_format is None or init.audio_in is None or init.audio_out is None:
        raise InvalidArgument("a provider needs a format and two audio ports", field="audio_format")
    if init.audio_format not in service.capabilities.audio_formats:
        raise Unsupported("this provider does not speak the session's format", details={"field": "audio_format"})
    return init.audio_format, init.audio_in, init.audio_out


@dataclass(slots=True)
class Link:
    """One connection, its codec, and why it was made: None for the first, else the recovery's token or a reason."""

    connection: Connection
    codec: CloudCodec
    token: str | None = None
    started: bool = False


def failure_of(end: End) -> ParloraError:
    """The end of a connection as the error it is for the session."""
    details = {"reason": str(end.reason), "code": end.code}
    if end.reason is EndReason.TIMEOUT:
        return Timeout(end.detail, details=details)
    return AdapterFailed(end.detail, details=details)
