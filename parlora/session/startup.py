"""Startup: one budget for three adapters, the policy worker and the first drain of the capture (spec 000 §2, §5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.contract.backend import BackendCapabilities
from parlora.contract.channel import ChannelCapabilities
from parlora.contract.provider import ContextKind, ProviderCapabilities
from parlora.errors import AdapterFailed, ErrorCode, InvalidArgument, Unsupported
from parlora.events import Event, EventType
from parlora.session.effects import DrainCapture, OpenAudio, StartAdapter
from parlora.session.failures import failure
from parlora.session.inputs import PipelineDrained
from parlora.session.roles import OWNERS, Role
from parlora.session.state import AdapterState, Phase, TimerKind
from parlora.session.turn import Turn
from parlora.wire import from_data, to_data

Capabilities = ChannelCapabilities | ProviderCapabilities | BackendCapabilities

_CAPABILITIES: Final[dict[Role, type[Capabilities]]] = {
    Role.CHANNEL: ChannelCapabilities,
    Role.PROVIDER: ProviderCapabilities,
    Role.BACKEND: BackendCapabilities,
}


def begin(turn: Turn) -> None:
    """Start the three adapters beside each other, under the one absolute deadline."""
    timer_id = turn.arm(TimerKind.STARTUP, "startup", turn.spec.deadline_us)
    turn.lifecycle = replace(turn.lifecycle, startup_timer=timer_id)
    for role in OWNERS:
        adapter = AdapterState(turn.new_id())
        turn.adapters = turn.adapters.put(role, adapter)
        turn.act(StartAdapter(role, adapter.adapter_id, adapter.generation))


def adapter_ready(turn: Turn, role: Role, event: Event) -> None:
    """An adapter works: its capabilities and, for channel and provider, the agreed format are checked at once.

    A repeated ready, or one that comes after the abort, changes nothing.
    """
    adapter = turn.adapters[role]
    if adapter.ready or turn.phase is not Phase.STARTING:
        return
    capabilities = _capabilities(role, event.payload.get("capabilities"))
    if role is not Role.BACKEND:
        _check_agreed(turn, role, event.payload.get("audio_format"))
    problem = _problem(turn.spec.audio_format, capabilities)
    if problem is not None:
        missing, message = problem
        turn.fail("unsupported", failure(ErrorCode.UNSUPPORTED, message, role=str(role), missing=missing))
        return
    turn.adapters = turn.adapters.put(role, replace(adapter, ready=True, capabilities=capabilities))


def _capabilities(role: Role, data: Any) -> Capabilities:
    expected = _CAPABILITIES[role]
    if isinstance(data, expected):
        return data
    if not isinstance(data, dict):
        raise AdapterFailed(f"the ready event of the {role} has no capabilities", details={"role": str(role)})
    try:
        return from_data(data, expected)
    except InvalidArgument as error:
        raise AdapterFailed(f"the {role}'s capabilities: {error.message}", details={"role": str(role)}) from None


def _check_agreed(turn: Turn, role: Role, data: Any) -> None:
    agreed = AudioFormat.from_data(data, f"{role}.audio_format")
    if agreed != turn.spec.audio_format:
        raise Unsupported(
            f"the {role} agreed to another format than the session's",
            details={"field": f"{role}.audio_format", "audio_format": agreed.to_data()},
        )


def _problem(format: AudioFormat, capabilities: Capabilities) -> tuple[str, str] | None:
    """The first thing a session needs and the adapter lacks: the capability's name and what is wrong."""
    if isinstance(capabilities, ChannelCapabilities):
        if format not in capabilities.input_formats:
            return "input_formats", "the channel does not take the session's format"
        if format not in capabilities.output_formats:
            return "output_formats", "the channel does not play the session's format"
    if isinstance(capabilities, ProviderCapabilities):
        if not capabilities.full_duplex:
            return "full_duplex", "the provider is not full-duplex"
        if format not in capabilities.audio_formats:
            return "audio_formats", "the provider does not have the session's format"
        if "client" not in capabilities.delegation_modes:
            return "delegation_modes", "the provider has no client delegation"
        if ContextKind.SPEAKABLE not in capabilities.context_update_kinds:
            return "context_update_kinds", "the provider takes no speakable updates"
    return None


def advance(turn: Turn) -> None:
    """Once everything is there, drain what the caller said before anybody listened."""
    if turn.phase is not Phase.STARTING or turn.lifecycle.draining or turn.failure is not None:
        return
    if turn.policy.up and all(turn.adapters[role].ready for role in OWNERS):
        turn.lifecycle = replace(turn.lifecycle, draining=True)
        turn.act(DrainCapture())


def drained(turn: Turn, input: PipelineDrained) -> None:
    """The last step: the loss is told if there was one, audio flows, the session is ready."""
    if turn.phase is not Phase.STARTING or not turn.lifecycle.draining:
        return
    if input.loss:
        turn.emit(
            EventType.AUDIO_DISCONTINUITY,
            {
                "stream": "capture",
                "cause": "startup_buffer_discard",
                "dropped_frames": input.loss.frames,
                "dropped_bytes": input.loss.bytes,
                "dropped_duration_us": input.loss.duration_us,
            },
        )
    turn.disarm(turn.lifecycle.startup_timer)
    turn.lifecycle = replace(turn.lifecycle, phase=Phase.READY, draining=False, startup_timer=None)
    channel = turn.adapters[Role.CHANNEL].capabilities
    assert isinstance(channel, ChannelCapabilities)
    turn.act(OpenAudio(channel.output_pacing))
    capabilities = {str(role): to_data(turn.adapters[role].capabilities) for role in OWNERS}
    turn.emit(EventType.READY, {"capabilities": capabilities, "audio_format": turn.spec.audio_format.to_data()})


def timed_out(turn: Turn) -> None:
    """The budget is used up."""
    if turn.phase is Phase.STARTING:
        missing = [str(role) for role in OWNERS if not turn.adapters[role].ready]
        if not turn.policy.up:
            missing.append(str(Role.POLICY))
        if not missing:
            missing.append(str(Role.INPUT_PIPELINE))
        turn.fail("startup_timeout", failure(ErrorCode.TIMEOUT, "the session did not start in time", missing=missing))
