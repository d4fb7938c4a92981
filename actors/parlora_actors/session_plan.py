"""A session as data: its processes as child specs, its four rings, and what each process is given (design §3, §6).

The restart rules of a session stand here and nowhere else. The policy worker is replaced when it dies. An owner or a
pipeline never is, for no job and no audio is replayed: the coordinator ends the session in order. The coordinator's own
end ends everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from parlora.audio.port import Loss
from parlora.audio.ring import Descriptors, Ring, RingSpec
from parlora.component import Component
from parlora.session.roles import OWNERS, Role
from parlora.session.spec import SessionSpec
from parlora.wire import to_data
from parlora_actors.child_spec import (
    BRUTAL_KILL,
    AutoShutdown,
    ChildSpec,
    Restart,
    StartWait,
    StopOrder,
    SupervisorSpec,
)
from parlora_actors.coordinator import CoordinatorInit
from parlora_actors.owner import OwnerInit
from parlora_actors.pipeline import PipelineInit
from parlora_actors.policy_worker import PolicyInit

GENERATED_US: Final = 21_000_000
"""Depth of the ring for generated audio where no option says: what the largest built-in provider profile needs. The
provider's owner tightens it before the first frame; only memory that was written costs anything."""

STOP_MS: Final = 500
"""How long an owner or pipeline that has nothing left to do may take to exit before it is killed."""

POLICY_RESTARTS: Final = 8
POLICY_PERIOD_MS: Final = 10_000
"""A policy worker that dies by itself more often than this ends the session."""

COORDINATOR: Final = str(Role.COORDINATOR)
POLICY: Final = str(Role.POLICY)

_MODULE: Final = "parlora_actors.session_processes"

SUPERVISION: Final = SupervisorSpec(
    children=(),
    intensity=POLICY_RESTARTS,
    period_ms=POLICY_PERIOD_MS,
    auto_shutdown=AutoShutdown.ANY_SIGNIFICANT,
    start_wait=StartWait.FORK,
    stop_order=StopOrder.TOGETHER,
    stop_ms=STOP_MS,
)

CHILDREN: Final = (
    ChildSpec(
        COORDINATOR, f"{_MODULE}.CoordinatorProcess", restart=Restart.TEMPORARY, shutdown=STOP_MS, significant=True
    ),
    *(ChildSpec(str(role), f"{_MODULE}.OwnerProcess", restart=Restart.TEMPORARY, shutdown=STOP_MS) for role in OWNERS),
    ChildSpec(POLICY, f"{_MODULE}.PolicyProcess", shutdown=BRUTAL_KILL),
    ChildSpec(str(Role.INPUT_PIPELINE), f"{_MODULE}.InputPipelineProcess", restart=Restart.TEMPORARY, shutdown=STOP_MS),
    ChildSpec(
        str(Role.OUTPUT_PIPELINE), f"{_MODULE}.OutputPipelineProcess", restart=Restart.TEMPORARY, shutdown=STOP_MS
    ),
)
"""In the order of their starts: all are forked at once, and none waits for another."""


@dataclass(frozen=True, slots=True)
class Rings:
    """The four rings of a session, made before anything is forked."""

    capture: Ring
    uplink: Ring
    generated: Ring
    playback: Ring

    @classmethod
    def create(cls, spec: SessionSpec) -> Rings:
        """Empty rings with the session's bounds."""
        limits, format = spec.limits.resolve(spec.audio_format), spec.audio_format
        queue, frame = limits.audio_queue_bytes, limits.max_frame_bytes
        assert queue is not None
        assert frame is not None
        shallow = RingSpec(queue, 0, frame)
        stored = spec.limits.provider_audio_queue_bytes or format.bytes_for_us(GENERATED_US)
        deep = RingSpec(stored, spec.limits.provider_audio_max_age_ms or 0, min(frame, stored))
        return cls(Ring.create(shallow), Ring.create(shallow), Ring.create(deep), Ring.create(shallow))

    def left(self) -> Loss:
        """What is in all of them and was never read."""
        rings = (self.capture, self.uplink, self.generated, self.playback)
        return sum((ring.stats().queued for ring in rings), Loss())


@dataclass(frozen=True, slots=True)
class Given:
    """What one incarnation of a child is started with: its init, and the descriptors that it keeps."""

    init: dict[str, Any]
    keep: tuple[int, ...]


def given(role: Role, spec: SessionSpec, rings: Rings, link: int, listener: int, hold_for_sink: bool) -> Given:
    """The init of a process; `link` is its end of its link, `listener` the session's socket."""
    init: CoordinatorInit | OwnerInit | PipelineInit | PolicyInit
    if role is Role.COORDINATOR:
        uplink, playback = _numbers(rings.uplink), _numbers(rings.playback)
        init = CoordinatorInit(spec, link, listener, uplink, playback, hold_for_sink)
    elif role is Role.POLICY:
        init = PolicyInit(spec.session_id, spec.context_policy, link)
    elif role is Role.INPUT_PIPELINE:
        init = _pipeline(role, spec, link, rings.capture, rings.uplink)
    elif role is Role.OUTPUT_PIPELINE:
        init = _pipeline(role, spec, link, rings.generated, rings.playback)
    else:
        init = _owner(role, spec, link, rings)
    return Given({"session_id": spec.session_id, **to_data(init)}, init.descriptors)


def _pipeline(role: Role, spec: SessionSpec, link: int, source: Ring, sink: Ring) -> PipelineInit:
    timeout_ms = spec.limits.backpressure_timeout_ms
    return PipelineInit(
        role, spec.session_id, spec.audio_format, timeout_ms, link, _numbers(source), _numbers(sink), spec.telemetry
    )


def _owner(role: Role, spec: SessionSpec, link: int, rings: Rings) -> OwnerInit:
    components: Mapping[Role, Component] = {
        Role.CHANNEL: spec.channel,
        Role.PROVIDER: spec.provider,
        Role.BACKEND: spec.backend,
    }
    ports: Mapping[Role, tuple[tuple[int, ...], tuple[int, ...]]] = {
        Role.CHANNEL: (_numbers(rings.playback), _numbers(rings.capture)),
        Role.PROVIDER: (_numbers(rings.uplink), _numbers(rings.generated)),
    }
    audio_in, audio_out = ports.get(role, ((), ()))
    is_provider = role is Role.PROVIDER
    return OwnerInit(
        role=role,
        session_id=spec.session_id,
        component=components[role],
        audio_format=spec.audio_format,
        limits=spec.limits,
        deadline_us=spec.deadline_us,
        link=link,
        audio_in=audio_in,
        audio_out=audio_out,
        instructions=spec.instructions if is_provider else None,
        history=spec.history if is_provider else (),
        telemetry=spec.telemetry,
    )


def _numbers(ring: Ring) -> tuple[int, ...]:
    numbers: Descriptors = ring.descriptors()
    return tuple(numbers)
