"""The brain: `reduce(state, input) -> (state, effects)`, one table of inputs and one of timers (design §5).

A given state is never changed, so the same state and input always give the same answer. After `Exit` no input has any
effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from parlora.errors import ErrorCode
from parlora.session import (
    adapter_events,
    associations,
    calls,
    clarifications,
    commands,
    controls,
    delegations,
    delivery,
    jobs,
    policy_runs,
    pressure,
    progress,
    records,
    shutdown,
    startup,
    subscriptions,
    tasks,
    uncertainty,
    waits,
)
from parlora.session.effects import Effect
from parlora.session.failures import failure
from parlora.session.inputs import (
    AdapterEvent,
    Begin,
    Called,
    CallerGone,
    ChildrenGone,
    CommandReplied,
    Input,
    PipelineDrained,
    PipelineLost,
    PipelinePressed,
    PipelineReplied,
    PipelineStalled,
    PolicyReplied,
    PolicyUp,
    ProcessDown,
    TimerFired,
)
from parlora.session.roles import Role
from parlora.session.spec import SessionSpec
from parlora.session.state import Conversation, Phase, Purpose, State, TimerKind
from parlora.session.turn import CommandHandler, Turn


def begin(spec: SessionSpec, at_us: int, fresh: str) -> tuple[State, list[Effect]]:
    """The first state of a session, and the effects that start it."""
    state = State(spec, conversation=Conversation(application_context=dict(spec.context)))
    return reduce(state, Begin(at_us, fresh))


def reduce(state: State, input: Input) -> tuple[State, list[Effect]]:
    """The state after `input`, and what is to be done, in order."""
    if state.lifecycle.phase is Phase.ENDED:
        return state, []
    turn = Turn(state, input, COMMAND_HANDLERS)
    _INPUTS[type(input)](turn, input)
    shutdown.begin_if_failed(turn)
    _pump(turn)
    return turn.state(), turn.effects


def _pump(turn: Turn) -> None:
    """What any input may have made possible: the next step of startup, requests, runs, deliveries, commands."""
    startup.advance(turn)
    jobs.fill_slots(turn)
    policy_runs.start_next(turn)
    delivery.release(turn)
    uncertainty.release(turn)
    commands.hand_over(turn)
    shutdown.begin_if_failed(turn)


def _begin(turn: Turn, input: Begin) -> None:
    startup.begin(turn)


def _caller_gone(turn: Turn, input: CallerGone) -> None:
    subscriptions.caller_gone(turn, input.caller)
    records.caller_gone(turn, input.caller)


def _replied(turn: Turn, input: CommandReplied) -> None:
    if not shutdown.close_replied(turn, input):
        commands.replied(turn, input)


def _lost(turn: Turn, input: PipelineLost) -> None:
    controls.lost(turn, input.stream, input.cause, input.loss)


def _stalled(turn: Turn, input: PipelineStalled) -> None:
    to = Role.PROVIDER if input.role is Role.INPUT_PIPELINE else Role.CHANNEL
    error = failure(
        ErrorCode.BACKPRESSURE,
        f"the {to} took no audio for too long",
        epoch=input.epoch,
        blocked_us=input.blocked_us,
    )
    turn.fail("pipeline_stalled", error, role=str(to), pipeline=str(input.role))


def _policy_up(turn: Turn, input: PolicyUp) -> None:
    policy_runs.up(turn)


def _down(turn: Turn, input: ProcessDown) -> None:
    if input.role is not Role.POLICY:
        shutdown.process_down(turn, input)
    elif turn.phase is Phase.STARTING and input.error is not None:
        # it could not even import its policy, and would not the next time
        turn.fail("startup_failed", input.error, role=str(input.role))
    else:
        policy_runs.down(turn, input)


def _fired(turn: Turn, input: TimerFired) -> None:
    timer = turn.timers.get(input.timer_id)
    if timer is not None:
        turn.timers = turn.timers.drop(input.timer_id)
        _TIMERS[timer.kind](turn, timer.subject)


COMMAND_HANDLERS: Final[Mapping[Purpose, CommandHandler]] = {
    Purpose.CALLER: controls.CALLER_HANDLER,
    Purpose.SUBMIT: jobs.SUBMIT_HANDLER,
    Purpose.UPDATE: tasks.UPDATE_HANDLER,
    Purpose.CANCEL: tasks.CANCEL_HANDLER,
    Purpose.RESULT: delivery.RESULT_HANDLER,
    Purpose.NOTICE: uncertainty.NOTICE_HANDLER,
    Purpose.QUESTION: clarifications.QUESTION_HANDLER,
    Purpose.ASSOCIATION: associations.ASSOCIATION_HANDLER,
    Purpose.CONTROL: controls.CONTROL_HANDLER,
    Purpose.RESUME: controls.RESUME_HANDLER,
    Purpose.RESOLVE: delegations.RESOLVE_HANDLER,
    Purpose.RELEASE: pressure.RELEASE_HANDLER,
}

_INPUTS: Final[dict[type[Input], Callable[[Turn, Any], None]]] = {
    Begin: _begin,
    Called: calls.called,
    CallerGone: _caller_gone,
    AdapterEvent: adapter_events.observed,
    CommandReplied: _replied,
    PipelineDrained: startup.drained,
    PipelineReplied: controls.pipeline_replied,
    PipelineLost: _lost,
    PipelineStalled: _stalled,
    PipelinePressed: pressure.pressed,
    PolicyUp: _policy_up,
    PolicyReplied: policy_runs.replied,
    ProcessDown: _down,
    TimerFired: _fired,
    ChildrenGone: shutdown.children_gone,
}

_TIMERS: Final[dict[TimerKind, Callable[[Turn, str], None]]] = {
    TimerKind.STARTUP: lambda turn, subject: startup.timed_out(turn),
    TimerKind.ADMISSION: commands.expired,
    TimerKind.BARRIER: controls.expired,
    TimerKind.RESUME: controls.resume_expired,
    TimerKind.POLICY: policy_runs.timed_out,
    TimerKind.POLICY_WORKER: lambda turn, subject: policy_runs.worker_missing(turn),
    TimerKind.JOB: jobs.expired,
    TimerKind.WAIT: waits.expired,
    TimerKind.ACKNOWLEDGMENT: delivery.overdue,
    TimerKind.PROGRESS: progress.timed_out,
    TimerKind.SHUTDOWN: lambda turn, subject: shutdown.deadline(turn),
    TimerKind.MAX_SESSION: lambda turn, subject: shutdown.expired(turn),
}
