"""The caller's side (spec 000 §4)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum

from parlora.audio.format import AudioFormat
from parlora.contract.adapter import Adapter
from parlora.errors import Unsupported


class OutputPacing(StrEnum):
    """Who keeps output at media rate: the session's pipeline, or the channel's own queue and clock."""

    PIPELINE = "pipeline"
    CHANNEL = "channel"


class ClearScope(StrEnum):
    """How far a clear reaches."""

    NONE = "none"
    PARLORA_BUFFERS = "parlora_buffers"
    REMOTE_BUFFER = "remote_buffer"


class PlaybackEvidence(StrEnum):
    """What a playback observation rests on; none is proof that a person heard it."""

    QUEUE = "queue"
    HANDOFF = "handoff"
    ESTIMATED_DEVICE_TIME = "estimated_device_time"
    DEVICE_REPORT = "device_report"


class PlaybackStage(StrEnum):
    """How far output has come."""

    QUEUED = "queued"
    HANDED_OFF = "handed_off"
    CLEARED = "cleared"
    ESTIMATED_PLAYBACK = "estimated_playback"
    DEVICE_REPORTED_PLAYBACK = "device_reported_playback"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ChannelCapabilities:
    """What a channel can do; sent in its `ready` event as `payload["capabilities"]`."""

    input_formats: tuple[AudioFormat, ...]
    output_formats: tuple[AudioFormat, ...]
    full_duplex: bool = True
    output_suppression: bool = False
    clear_scope: ClearScope = ClearScope.NONE
    playback_evidence: tuple[PlaybackEvidence, ...] = ()
    output_pacing: OutputPacing = OutputPacing.PIPELINE


@dataclass(frozen=True, slots=True)
class ClearOutput:
    """Adopt playback epoch `epoch` and drop everything older."""

    epoch: int


@dataclass(frozen=True, slots=True)
class SuppressOutput:
    """Throw output away while on; output starts afresh when off."""

    on: bool


ChannelCommand = ClearOutput | SuppressOutput


class Channel(Adapter):
    """Caller audio in both directions.

    In `start`, read output from `init.audio_in`, write captured audio to `init.audio_out` and emit `ready`
    with `{"capabilities": ChannelCapabilities, "audio_format": AudioFormat}`.

    Events: `ready`, `disconnected`, `failed`, `closed`; `control_completed` / `control_failed` with
    `{control, scope, epoch, error}`; `playback_observed` with `{stream, epoch, sequence or sample range, stage,
    evidence}`; `audio_discontinuity` with `{stream, cause, dropped_frames, dropped_bytes, dropped_duration_us}`.
    """

    @abstractmethod
    def control(self, command: ChannelCommand, command_id: str) -> Awaitable[None] | None:
        """Admit a control; its outcome follows as `control_completed` or `control_failed` with `command_id`.

        Raises `Unsupported` for a control the capabilities do not declare.
        """

    def release_output_recovery(self, epoch: int) -> None:
        """Optional: end a recovery hold of this epoch early (spec 000 §13). A mismatched epoch is ignored.

        A hint that may be repeated: it drops nothing and leaves the playback rate alone. Raises `Unsupported` in a
        channel that holds nothing back.
        """
        raise Unsupported("this channel has no recovery hold", details={"call": "release_output_recovery"})
