"""What the reducer wants done: data, carried out by the coordinator process in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger
from parlora.contract.channel import OutputPacing
from parlora.events import Event
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role


@dataclass(frozen=True, slots=True)
class Effect:
    """The common base."""


@dataclass(frozen=True, slots=True)
class StartAdapter(Effect):
    """Tell an owner to build and start its adapter."""

    role: Role
    adapter_id: str
    generation: int


class Call(StrEnum):
    """The adapter callbacks that can be invoked.

    `Invoke.arguments` are the callback's own parameters by name, `command_id` left out:

    control: `{command}`, for a channel `{"epoch": n}` (ClearOutput) or `{"on": bool}` (SuppressOutput), for a provider
    `{"on": bool}` (MuteInput). append_context: `{update}` with kind, text, delegation_id. submit: `{request}`, a
    BackendRequest. update: `{request_id, update, task_revision}`. cancel: `{request_id, reason}`. close: `{policy}`.
    clear_output: `{epoch}`. resume_output: `{token}`. recover_output: `{token, snapshot}`. resolve_delegation:
    `{delegation_id, outcome}`. release_output_recovery: `{epoch}`. The last five are optional callbacks that take no
    command id; returning is their whole outcome.
    """

    CONTROL = "control"
    APPEND_CONTEXT = "append_context"
    SUBMIT = "submit"
    UPDATE = "update"
    CANCEL = "cancel"
    CLOSE = "close"
    CLEAR_OUTPUT = "clear_output"
    RESUME_OUTPUT = "resume_output"
    RECOVER_OUTPUT = "recover_output"
    RESOLVE_DELEGATION = "resolve_delegation"
    RELEASE_OUTPUT_RECOVERY = "release_output_recovery"


@dataclass(frozen=True, slots=True)
class Invoke(Effect):
    """Hand one command to an owner. At most one is with an owner at a time, but for `close`.

    arguments: the callback's arguments as plain data (a dataclass argument by `wire.to_data`).
    deadline_us: by when the callback must have been invoked and returned.
    """

    role: Role
    command_id: str
    call: Call
    arguments: dict[str, Any]
    deadline_us: int


@dataclass(frozen=True, slots=True)
class DrainCapture(Effect):
    """Have the input pipeline drop what piled up during startup; `PipelineDrained` follows."""


@dataclass(frozen=True, slots=True)
class OpenAudio(Effect):
    """Let both pipelines forward; `pacing` is what the channel declared."""

    pacing: OutputPacing


@dataclass(frozen=True, slots=True)
class ControlPipeline(Effect):
    """Tell a pipeline to adopt `epoch` (clear) or to switch suppression; `PipelineReplied` follows."""

    role: Role
    command_id: str
    epoch: int | None = None
    suppress: bool | None = None


@dataclass(frozen=True, slots=True)
class StopPipelines(Effect):
    """End both pipelines, whatever application code does."""


@dataclass(frozen=True, slots=True)
class RunPolicy(Effect):
    """Interpret; `PolicyReplied` with the same run id follows, or the worker is replaced."""

    run_id: str
    snapshot: ContextSnapshot
    trigger: ContextTrigger


@dataclass(frozen=True, slots=True)
class ReplacePolicy(Effect):
    """Have the supervisor kill the policy worker and start another; `PolicyUp` follows."""

    reason: str


@dataclass(frozen=True, slots=True)
class ArmTimer(Effect):
    """Fire `TimerFired(timer_id)` at `due_us`. A timer id is armed once and never reused."""

    timer_id: str
    due_us: int


@dataclass(frozen=True, slots=True)
class CancelTimer(Effect):
    """Forget a timer; one that has fired already is ignored by its id."""

    timer_id: str


@dataclass(frozen=True, slots=True)
class Emit(Effect):
    """Send an event to every subscriber and the event sink."""

    event: Event


@dataclass(frozen=True, slots=True)
class Answer(Effect):
    """Answer a caller: a value, or an error."""

    caller: str
    call_id: str
    value: Any = None
    error: ErrorData | None = None


@dataclass(frozen=True, slots=True)
class Attach(Effect):
    """Start sending events to this caller under this subscription."""

    caller: str
    subscription_id: str


@dataclass(frozen=True, slots=True)
class Detach(Effect):
    """Stop sending; `reason` (e.g. slow_consumer) is told to the caller if given."""

    caller: str
    subscription_id: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Mirror(Effect):
    """Tell the supervisor which requests are unfinished, for the obituary should this coordinator die."""

    request_id: str
    finished: bool
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BeginTeardown(Effect):
    """Fix the one absolute deadline by which nothing of the session may be alive; the supervisor enforces it."""

    deadline_us: int
    reason: str


@dataclass(frozen=True, slots=True)
class ReapChildren(Effect):
    """Everything that could settle has: have the supervisor end what is left now; `ChildrenGone` follows.

    force: kill at once instead of asking first.
    """

    force: bool


@dataclass(frozen=True, slots=True)
class Exit(Effect):
    """The terminal `closed` has been emitted: flush the callers and leave."""
