"""Everything the reducer can be told. Each input carries its time and a seed for fresh ids.

`fresh` is a string no other input of the session has; ids made while reducing it are derived from it by counting,
so the same inputs give the same effects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.audio.port import Loss
from parlora.context.decision import ContextDecision
from parlora.events import Event
from parlora.session.roles import Role

ErrorData = dict[str, Any]
"""A failure as plain data: `{code, message, details}`."""


@dataclass(frozen=True, slots=True)
class Forwarded:
    """Frames and bytes one pipeline has written on successfully; `last_at_us` is None before the first."""

    frames: int = 0
    bytes: int = 0
    last_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class AudioCounters:
    """Both directions, sampled concurrently from the rings and not as one transaction (spec 000 §15)."""

    input_forwarded: Forwarded = Forwarded()
    output_forwarded: Forwarded = Forwarded()


@dataclass(frozen=True, slots=True)
class Input:
    """The common part: local monotonic time of the observation, and the seed for fresh ids."""

    at_us: int
    fresh: str


@dataclass(frozen=True, slots=True)
class Begin(Input):
    """The first input: the session's processes exist and startup begins."""


@dataclass(frozen=True, slots=True)
class Called(Input):
    """A caller of the session API asks for something.

    caller: the connection; call_id: its correlation id. Operations, their arguments and the answer's value:

    subscribe `{subscription_id?}` -> `{"subscription_id"}`; unsubscribe `{subscription_id}`. snapshot `{}` -> a
    ContextSnapshot as plain data; status `{}` -> spec 000 §14. update_context `{context}` replaces the application
    context. append_context `{update: {kind, text, delegation_id?}, command_id?}` -> `{"command_id"}` once the
    provider's owner admitted it. control `{command: [name, value], command_id}` with ["clear_output", "next"],
    ["suppress_output", bool] or ["mute_input", bool]. cancel `{request_id, expected_task_revision, command_id}`. close
    `{policy?}`, by default finish. expect_progress `{id, timeout_ms, until?, on_timeout?}`; resolve_progress `{id,
    outcome}`. Where no value is named the answer is a bare ok: None.
    """

    caller: str
    call_id: str
    operation: str
    arguments: dict[str, Any]
    counters: AudioCounters = AudioCounters()


@dataclass(frozen=True, slots=True)
class CallerGone(Input):
    """A connection ended; its subscriptions and waits end with it."""

    caller: str


@dataclass(frozen=True, slots=True)
class AdapterEvent(Input):
    """An owner delivered an adapter's event. `event.source` is the role's own, set by the owner."""

    role: Role
    event: Event


@dataclass(frozen=True, slots=True)
class CommandReplied(Input):
    """An owner answered the admission of one command; `error` None is a bare ok.

    `error["details"]["execution"]` may say `never_submitted` (it was not invoked) or `unknown` (it did not return).
    """

    role: Role
    command_id: str
    error: ErrorData | None


@dataclass(frozen=True, slots=True)
class PipelineDrained(Input):
    """The input pipeline dropped what piled up before readiness and holds until told to forward."""

    loss: Loss


@dataclass(frozen=True, slots=True)
class PipelineReplied(Input):
    """A pipeline carried a control out: the epoch it now uses and what it dropped."""

    role: Role
    command_id: str
    epoch: int
    loss: Loss
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class PipelineLost(Input):
    """A pipeline discarded audio for another reason than a control."""

    role: Role
    stream: str
    cause: str
    loss: Loss


@dataclass(frozen=True, slots=True)
class PipelineStalled(Input):
    """Destination backpressure lasted beyond its deadline; the pipeline has stopped (spec 000 §9)."""

    role: Role
    epoch: int
    blocked_us: int


@dataclass(frozen=True, slots=True)
class PipelinePressed(Input):
    """A channel with a clock of its own takes nothing while generated audio piles up (spec 000 §13)."""

    role: Role
    epoch: int
    queued_bytes: int
    capacity_bytes: int
    pending_bytes: int
    threshold_bytes: int


@dataclass(frozen=True, slots=True)
class PolicyUp(Input):
    """A policy worker is there and has imported its policy."""


@dataclass(frozen=True, slots=True)
class PolicyReplied(Input):
    """A policy run ended: decisions, or an error."""

    run_id: str
    decisions: tuple[ContextDecision, ...]
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class ProcessDown(Input):
    """A process of the session died; `cause` is e.g. `exit 1`, `signal 9`, `unresponsive`, `crash`.

    `asked` is true for a policy worker whose replacement was asked for.
    """

    role: Role
    cause: str
    asked: bool = False
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class TimerFired(Input):
    """A timer came due. One that is not armed any more under this very id is ignored."""

    timer_id: str


@dataclass(frozen=True, slots=True)
class ChildrenGone(Input):
    """The supervisor proved that nothing of the session is alive but coordinator and supervisor.

    killed: processes that had to be killed. counters: the last sample of the rings. lost: what nobody will read.
    """

    killed: int
    counters: AudioCounters = AudioCounters()
    left: tuple[str, ...] = field(default=())
    lost: Loss = field(default_factory=Loss)
