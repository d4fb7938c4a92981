"""The voice model's side (spec 000 §5)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable
from dataclasses import dataclass
from enum import StrEnum

from parlora.audio.format import AudioFormat
from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import Adapter
from parlora.limits import AudioLimits


class Speaker(StrEnum):
    """Who said a transcript entry."""

    USER = "user"
    ASSISTANT = "assistant"


class ContextKind(StrEnum):
    """What an appended context update is for."""

    QUIET = "quiet"
    SPEAKABLE = "speakable"
    INSTRUCTION = "instruction"


class DelegationOutcome(StrEnum):
    """How a delegation ended, told by `resolve_delegation` (filling A17)."""

    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"
    NO_CONTENT = "no_content"
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class ProviderCapabilities:
    """What a provider can do; sent in its `ready` event as `payload["capabilities"]`.

    A session starts only with `full_duplex`, its format in `audio_formats`, `client` in `delegation_modes` and
    `speakable` in `context_update_kinds` (filling A16).
    """

    audio_formats: tuple[AudioFormat, ...]
    same_format_both_directions: bool = True
    full_duplex: bool = True
    transcripts: tuple[Speaker, ...] = ()
    delegation_modes: tuple[str, ...] = ("client",)
    context_update_kinds: tuple[ContextKind, ...] = (ContextKind.SPEAKABLE,)
    input_mute: bool = False
    usage: bool = False
    context_acknowledgment: bool = False


@dataclass(frozen=True, slots=True)
class ContextUpdate:
    """Text for the model. `delegation_id` is the call it answers, or None: never an invented one."""

    kind: ContextKind
    text: str
    delegation_id: str | None = None


@dataclass(frozen=True, slots=True)
class MuteInput:
    """Stop passing the caller's audio on while on; the connection stays."""

    on: bool


ProviderCommand = MuteInput


class Provider(Adapter):
    """A full-duplex speech-to-speech model.

    In `start`, read caller audio from `init.audio_in`, write generated audio to `init.audio_out`, and emit `ready`
    with `{"capabilities": ProviderCapabilities, "audio_format": AudioFormat}` once the service confirmed startup.

    Events: `ready`, `failed`, `closed` with `{finalization_observed}`; `transcript_delta` with `{speaker, delta,
    start_ms, end_ms}`; `provider_speech` with `{status: speaking|idle}`; `delegation_requested` with
    `{delegation_id, target, offset_ms}`; `context_acknowledged` / `context_submitted` / `context_rejected` with
    `command_id` = the update's id (and `{error}`); `control_completed` / `control_failed`; `output_interrupted` with
    `{token}`; `usage_updated` / `usage_final` with cumulative values and units, e.g. `{seconds, final}`;
    `audio_discontinuity`.
    """

    @abstractmethod
    def append_context(self, update: ContextUpdate, command_id: str) -> Awaitable[None] | None:
        """Admit one update; acknowledgment or rejection follows as an event with this `command_id`.

        Raises `Unsupported` for a kind the capabilities do not declare, `InvalidArgument` for a malformed update.
        """

    @abstractmethod
    def control(self, command: ProviderCommand, command_id: str) -> Awaitable[None] | None:
        """Admit a control; raises `Unsupported` if the capabilities do not declare it."""

    @classmethod
    def audio_limits(cls, format: AudioFormat) -> AudioLimits | None:
        """Optional: this provider's storage profile for generated audio; None takes the fallback."""
        return None

    def clear_output(self, epoch: int) -> None:
        """Optional: drop generated audio this adapter still stores itself; later writes carry the new epoch."""

    def resume_output(self, token: str) -> None:
        """Optional: the clear barrier for `output_interrupted` with this token has completed."""

    def recover_output(self, token: str, snapshot: ContextSnapshot) -> None:
        """Optional: replace the transport after an overload; report `output_recovered`."""

    def resolve_delegation(self, delegation_id: str, outcome: DelegationOutcome) -> None:
        """Optional: a delegation ended without speakable content for it."""
