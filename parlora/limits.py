"""Every bound and deadline of a session, in one place (spec 000 §8; defaults: filling 4.2).

Byte bounds left at `None` are derived from the session's audio format by `resolve`; bounds
that are given win. Every effective value is finite: an unlimited one is refused (acceptance LM-01).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.errors import InvalidArgument

CALL_TIMEOUT_MS: Final = 1_000
"""How long one adapter callback may take inside its owner; no option changes it (acceptance CM-13)."""

ADMISSION_DEADLINE_MS: Final = 1_100
"""How long the coordinator waits for an owner's reply: the owner's own limit comes first."""

RECOVERY_RECONNECT_TIMEOUT_MS: Final = 5_000
"""How long an output recovery may take to bring a fresh transport up (spec 000 §5)."""

CLEAR_TIMEOUT_MS: Final = 200
"""How long a clear waits for every role to adopt the epoch before it fails (filling A20)."""

CHANNEL_TURN_FRAMES: Final = 20
"""Most frames that one turn of a channel-paced output pipeline hands over (spec 000 §4)."""

PUMP_POLL_MS: Final = 20
"""Longest sleep of a pump: wake-ups come by hint, this bounds the harm should one be lost (spec 000 §4)."""

PACING_SLACK_MS: Final = 100
"""How far behind its schedule a paced pump may fall and still catch up: longer than a scheduling stall, shorter than
the queues (200 ms). A longer pause is a pause of speech and starts a new schedule."""

RECOVERY_PRESSURE_MS: Final = 40
"""How long a channel with a clock of its own may take nothing from a full queue before it is asked to end a recovery
hold: one that plays takes a frame of 20 ms twice meanwhile, so that only a hold is told, once (spec 000 §13)."""

CATCH_UP_MS: Final = 40
"""How long captured audio may wait for its turn before it goes faster than media rate: the frame under way and one more
of 20 ms for the jitter of its source. What waits longer is a backlog, and every later word would wait as long."""

AUDIO_QUEUE_MS: Final = 200
"""Default depth of the capture, playback and uplink queues (acceptance LM-04)."""

PROVIDER_QUEUE_MS: Final = 700
"""Fallback depth of the generated-audio queue (acceptance LM-05)."""

PROVIDER_AGE_MS: Final = 750
"""Fallback residence of generated audio (acceptance LM-05)."""

MAX_FRAME_MS: Final = 100
"""Default bound of one frame (filling 4.2)."""

RESULT_BYTES: Final = 65_536
"""Largest mapped backend result, as msgpack (acceptance LM-19)."""

BACKEND_CLOSE_RESERVE_MS: Final = 500
"""How long before the shutdown deadline a backend stops waiting for its jobs, so that its `closed` still gets out; at
most a quarter of a short shutdown timeout."""

CLOUD_PING_MS: Final = 5_000
"""How long a cloud connection may be silent before it is pinged: a live call is never silent for that long."""

CLOUD_SILENT_MS: Final = 15_000
"""How long a cloud connection may be silent altogether, pings unanswered, before it counts as dead."""

CLOUD_STALL_MS: Final = 5_000
"""How long one message may take to leave: a peer that takes nothing for so long is lost to a conversation."""

CLOUD_FINISH_MS: Final = 500
"""How long a connection that is no longer needed may take to send its last messages and a close frame."""

CLOUD_RESUME_MS: Final = 4_000
"""How long a lost connection may take to be resumed: one refused in this time was seen to be refused for minutes."""

CLOUD_SEND_BYTES: Final = 1024 * 1024
"""What may wait to be sent: about 15 s of PCM at 24 kHz as base64, three times what a stall may last."""

CLOUD_SEND_MESSAGES: Final = 1_024
"""How many messages may wait to be sent: 20 s of 20 ms chunks."""

CLOUD_MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""Largest message taken from a service: four minutes of PCM at 24 kHz as base64; more is no message of a call."""

CLOUD_REPORT_MS: Final = 100
"""How long before a deadline a cloud provider gives up by itself, so that what it tells still arrives in time."""

_MS_AUDIO_QUEUE_MAX: Final = 10_000
_MS_PROVIDER_QUEUE_MAX: Final = 60_000

# name: (least, most) of the plain integers; the byte bounds depend on the format and are checked by `resolve`
_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "max_subscribers": (1, 1_024),
    "subscriber_mailbox_threshold": (16, 65_536),
    "backpressure_timeout_ms": (50, 10_000),
    "max_jobs": (1, 64),
    "max_pending_jobs": (0, 256),
    "max_pending_delegations": (1, 256),
    "max_records": (2, 65_536),
    "max_transcripts": (16, 8_192),
    "startup_timeout_ms": (100, 120_000),
    "shutdown_timeout_ms": (50, 60_000),
    "job_timeout_ms": (100, 3_600_000),
    "policy_timeout_ms": (10, 60_000),
    "cancellation_timeout_ms": (10, 60_000),
    "ack_timeout_ms": (100, 120_000),
    "unresponsive_timeout_ms": (1_000, 60_000),
    "max_session_ms": (1_000, 86_400_000),
    "provider_audio_max_age_ms": (100, 120_000),
}
_OPTIONAL: Final = ("provider_audio_max_age_ms", "max_session_ms")
_BYTE_FIELDS: Final = ("audio_queue_bytes", "provider_audio_queue_bytes", "max_frame_bytes")


@dataclass(frozen=True, slots=True)
class AudioLimits:
    """A provider's own storage profile: what `Provider.audio_limits(format)` returns."""

    queue_bytes: int
    max_age_ms: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one session. Durations are milliseconds, sizes bytes, the rest counts.

    audio_queue_bytes: capture, playback and uplink queue each; default 200 ms of the format; one frame to 10 s.
    provider_audio_queue_bytes: generated audio; default the provider's profile, else 700 ms; one frame to 60 s.
    provider_audio_max_age_ms: residence of generated audio; default the profile, else 750; 100 to 120,000.
    max_frame_bytes: one frame; default 100 ms of the format; one sample to audio_queue_bytes.
    max_subscribers: live subscriptions; 1 to 1,024.
    subscriber_mailbox_threshold: messages that may wait for one subscriber; 16 to 65,536.
    backpressure_timeout_ms: sustained destination backpressure that ends the session; 50 to 10,000.
    max_jobs: requests submitted at once; 1 to 64.
    max_pending_jobs: requests that wait for a free slot; 0 to 256.
    max_pending_delegations: delegations not yet claimed; 1 to 256.
    max_records: command, request and key records kept; at least max_jobs + max_pending_jobs, at most 65,536.
    max_transcripts: transcript entries kept; 16 to 8,192.
    startup_timeout_ms: the one budget of startup; 100 to 120,000.
    shutdown_timeout_ms: from close to nothing left; 50 to 60,000.
    job_timeout_ms: a request's deadline, from its admission; 100 to 3,600,000.
    policy_timeout_ms: each interpretation attempt; 10 to 60,000.
    cancellation_timeout_ms: a cancel mapping of a backend; 10 to 60,000.
    ack_timeout_ms: a provider's acknowledgment of an append; 100 to 120,000.
    unresponsive_timeout_ms: silence of a process of the session that counts as its death; 1,000 to 60,000.
    max_session_ms: from ready to an orderly close with reason `expired`; default none; 1,000 to 86,400,000.
    """

    audio_queue_bytes: int | None = None
    provider_audio_queue_bytes: int | None = None
    provider_audio_max_age_ms: int | None = None
    max_frame_bytes: int | None = None
    max_subscribers: int = 32
    subscriber_mailbox_threshold: int = 2_048
    backpressure_timeout_ms: int = 500
    max_jobs: int = 4
    max_pending_jobs: int = 16
    max_pending_delegations: int = 16
    max_records: int = 256
    max_transcripts: int = 512
    startup_timeout_ms: int = 15_000
    shutdown_timeout_ms: int = 5_000
    job_timeout_ms: int = 60_000
    policy_timeout_ms: int = 5_000
    cancellation_timeout_ms: int = 1_000
    ack_timeout_ms: int = 10_000
    unresponsive_timeout_ms: int = 2_000
    max_session_ms: int | None = None

    @classmethod
    def from_data(cls, data: object, field: str = "limits") -> Limits:
        """Limits from a mapping of option names; raises `InvalidArgument` naming the unknown or misfit option."""
        if data is None:
            return cls()
        if isinstance(data, Limits):
            return data.check(field)
        if not isinstance(data, Mapping):
            raise InvalidArgument(f"{field} must be Limits or a mapping of its options", field=field)
        known = {f.name for f in fields(cls)}
        for name in data:
            if name not in known:
                raise InvalidArgument(
                    f"{field}.{name} is no limit; allowed are {', '.join(sorted(known))}", field=f"{field}.{name}"
                )
        return cls(**data).check(field)

    def check(self, field: str = "limits") -> Limits:
        """Return self if every option is in bounds, else raise `InvalidArgument` naming it."""
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if type(value) is not int or not least <= value <= most:
                raise InvalidArgument(
                    f"{field}.{name} must be an integer from {least:,} to {most:,}", field=f"{field}.{name}"
                )
        for name in _BYTE_FIELDS:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidArgument(f"{field}.{name} must be a positive integer", field=f"{field}.{name}")
        if self.max_records < self.max_jobs + self.max_pending_jobs:
            raise InvalidArgument(
                f"{field}.max_records must be at least max_jobs + max_pending_jobs"
                f" ({self.max_jobs + self.max_pending_jobs})",
                field=f"{field}.max_records",
            )
        return self

    def resolve(self, format: AudioFormat, profile: AudioLimits | None = None, field: str = "limits") -> Limits:
        """Limits with every byte bound set for `format`; `profile` gives the provider's defaults.

        Raises `InvalidArgument` if a given byte bound is out of range for the format.
        """
        queue = self._bytes("audio_queue_bytes", AUDIO_QUEUE_MS, _MS_AUDIO_QUEUE_MAX, format, field)
        frame = self.max_frame_bytes
        if frame is None:
            frame = min(queue, format.bytes_for_us(MAX_FRAME_MS * 1_000))
        if not format.sample_bytes <= frame <= queue or frame % format.sample_bytes:
            raise InvalidArgument(
                f"{field}.max_frame_bytes must be whole samples, at least {format.sample_bytes} and at most"
                f" audio_queue_bytes ({queue})",
                field=f"{field}.max_frame_bytes",
            )
        provider, age = self.provider_audio_queue_bytes, self.provider_audio_max_age_ms
        if provider is None and profile is not None:
            provider = profile.queue_bytes
        if age is None:
            age = profile.max_age_ms if profile is not None else PROVIDER_AGE_MS
        checked = replace(self, provider_audio_queue_bytes=provider)
        store = checked._bytes("provider_audio_queue_bytes", PROVIDER_QUEUE_MS, _MS_PROVIDER_QUEUE_MAX, format, field)
        return replace(
            self,
            audio_queue_bytes=queue,
            max_frame_bytes=frame,
            provider_audio_queue_bytes=store,
            provider_audio_max_age_ms=age,
        ).check(field)

    def _bytes(self, name: str, default_ms: int, most_ms: int, format: AudioFormat, field: str) -> int:
        value: int | None = getattr(self, name)
        if value is None:
            return format.bytes_for_us(default_ms * 1_000)
        most = format.bytes_for_us(most_ms * 1_000)
        if not format.sample_bytes <= value <= most:
            raise InvalidArgument(
                f"{field}.{name} must be from {format.sample_bytes} to {most:,} bytes for this format",
                field=f"{field}.{name}",
            )
        return value

    def to_data(self) -> dict[str, Any]:
        """The options as plain data."""
        return asdict(self)
