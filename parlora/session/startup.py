"""Startup: one budget for three adapters, the policy worker and the first drain of the capture (spec 000 §2, §5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.contract.backend import BackendCapabilities
from parlora.contract.channel import ChannelCapabilities
from parlora.contract.provider import ContextKind, ProviderCapabilities
from parlora.errors import AdapterFailed, ErrorCode, InvalidArgument, ParloraError, Unsupported
from parlora.events import Event, EventType
from parlora.session import policy_runs
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
    turn.lifecycle = replace(turn.lifecycle, phase_timer=timer_id)
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
    try:
        capabilities = _capabilities(role, event.payload.get("capabilities"))
        if role is not Role.BACKEND:
            _check_agreed(turn, role, event.payload.get("audio_format"))
        _check_capabilities(turn.spec.audio_format, capabilities)
    except ParloraError as error:
        turn.fail("startup_failed", error.to_data(), role=str(role))
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


def _check_capabilities(format: AudioFormat, capabilities: Capabilities) -> None:
    """What a session cannot do without (acceptance SL-29, filling A16); nothing else is required."""
    if isinstance(capabilities, ChannelCapabilities):
        _require(format in capabilities.input_formats, "channel.input_formats", "the session's format")
        _require(format in capabilities.output_formats, "channel.output_formats", "the session's format")
    if isinstance(capabilities, ProviderCapabilities):
        kinds = capabilities.context_update_kinds
        _require(capabilities.full_duplex, "provider.full_duplex", "true")
        _require(format in capabilities.audio_formats, "provider.audio_formats", "the session's format")
        _require("client" in capabilities.delegation_modes, "provider.delegation_modes", "client")
        _require(ContextKind.SPEAKABLE in kinds, "provider.context_update_kinds", "speakable")


def _require(met: bool, capability: str, needed: str) -> None:
    if not met:
        raise Unsupported(f"{capability} must have {needed}", details={"field": capability})


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
    turn.disarm(turn.lifecycle.phase_timer)
    longest_ms = turn.spec.limits.max_session_ms
    timer_id = None
    if longest_ms is not None:
        timer_id = turn.arm(TimerKind.MAX_SESSION, "session", turn.now_us + longest_ms * 1_000)
    turn.lifecycle = replace(turn.lifecycle, phase=Phase.READY, draining=False, phase_timer=timer_id)
    policy_runs.watch(turn)
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
