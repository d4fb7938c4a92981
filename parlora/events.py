"""What a session tells: one envelope for every observation (spec 000 §3, §14).

Consumers match `source` and `type` together, read the payload fields they need and
ignore what they do not know. An event id identifies an observation; it gives neither
exactly-once delivery nor an order between processes (acceptance CM-15).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Source(StrEnum):
    """Who observed it."""

    SESSION = "session"
    CHANNEL = "channel"
    PROVIDER = "provider"
    BACKEND = "backend"


class EventType(StrEnum):
    """The event types that Parlora itself knows; adapters may add `extension`."""

    # every source
    READY = "ready"
    FAILED = "failed"
    CLOSED = "closed"
    EXTENSION = "extension"
    # channel, provider and session
    CONTROL_COMPLETED = "control_completed"
    CONTROL_FAILED = "control_failed"
    AUDIO_DISCONTINUITY = "audio_discontinuity"
    # channel
    DISCONNECTED = "disconnected"
    PLAYBACK_OBSERVED = "playback_observed"
    PLAYBACK_STARVED = "playback_starved"
    DEVICE_UNDERRUN = "device_underrun"
    # provider
    TRANSCRIPT_DELTA = "transcript_delta"
    PROVIDER_SPEECH = "provider_speech"
    PROVIDER_ACTIVITY = "provider_activity"
    PROVIDER_CONNECTION = "provider_connection"
    DELEGATION_REQUESTED = "delegation_requested"
    DELEGATION_CANCELLED = "delegation_cancelled"
    CONTEXT_ACKNOWLEDGED = "context_acknowledged"
    CONTEXT_SUBMITTED = "context_submitted"
    CONTEXT_REJECTED = "context_rejected"
    OUTPUT_INTERRUPTED = "output_interrupted"
    OUTPUT_RECOVERY_REQUESTED = "output_recovery_requested"
    OUTPUT_RECOVERED = "output_recovered"
    USAGE_UPDATED = "usage_updated"
    USAGE_FINAL = "usage_final"
    # backend
    REQUEST_STARTED = "request_started"
    REQUEST_PROGRESS = "request_progress"
    REQUEST_CLARIFICATION = "request_clarification"
    REQUEST_COMPLETED = "request_completed"
    REQUEST_FAILED = "request_failed"
    REQUEST_CANCELLED = "request_cancelled"
    REQUEST_UNCERTAIN = "request_uncertain"
    UPDATE_APPLIED = "update_applied"
    UPDATE_REJECTED = "update_rejected"
    CANCELLATION_REQUESTED = "cancellation_requested"
    CANCELLATION_REJECTED = "cancellation_rejected"
    # session
    DELEGATION_PENDING = "delegation_pending"
    DELEGATION_ASSOCIATED = "delegation_associated"
    DELEGATION_REJECTED = "delegation_rejected"
    EVENT_REJECTED = "event_rejected"
    TASK_SUBMITTED = "task_submitted"
    TASK_SUPERSEDED = "task_superseded"
    RESULT_RECORDED = "result_recorded"
    RESULT_DELIVERY = "result_delivery"
    CONTEXT_WAIT_STARTED = "context_wait_started"
    CLARIFICATION_REQUESTED = "clarification_requested"
    UNCERTAINTY_DELIVERY = "uncertainty_delivery"
    JOB_DEADLINE = "job_deadline"
    UPDATE_UNCERTAIN = "update_uncertain"
    POLICY_FAILED = "policy_failed"
    POLICY_REJECTED = "policy_rejected"
    PROGRESS_CHANGED = "progress_changed"
    RECOVERY_PRESSURE = "recovery_pressure"


@dataclass(frozen=True, slots=True)
class Event:
    """One observation.

    `source` is a `Source`, `type` usually an `EventType`; both are strings on purpose, since the sets are
    open. `at_us` is local monotonic microseconds. An empty `command_id` or `request_id` says that no target was
    identified; it is never guessed. `payload` is plain data and holds no audio.
    """

    id: str
    source: str
    type: str
    session_id: str
    adapter_id: str | None
    generation: int
    command_id: str | None
    request_id: str | None
    at_us: int
    payload: dict[str, Any] = field(default_factory=dict)

    def is_a(self, source: str, type: str) -> bool:
        """Whether both source and type match."""
        return self.source == source and self.type == type
