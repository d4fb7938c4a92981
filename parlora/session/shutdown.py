"""The end: one absolute deadline, each owner closed on its own, the guardian behind all of it (spec 000 §2).

Before readiness no adapter is called any more: everything is killed. Nothing here says that an effect was undone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parlora.contract.adapter import ClosePolicy
from parlora.errors import ErrorCode
from parlora.events import Event, EventType
from parlora.session import commands, delivery, health, jobs, ledger, policy_runs, progress, uncertainty, waits
from parlora.session.effects import BeginTeardown, Call, Exit, Invoke, ReapChildren, StopPipelines
from parlora.session.failures import failure, is_unknown, told
from parlora.session.inputs import ChildrenGone, CommandReplied, ProcessDown
from parlora.session.roles import OWNERS, Role
from parlora.session.state import JobStatus, Lifecycle, Phase, TimerKind
from parlora.session.turn import Turn

REQUESTED = "requested"
FAILED = "failed"
CHANNEL_CLOSED = "channel_closed"
EXPIRED = "expired"
CHANNEL_DISCONNECTED = "channel_disconnected"


def close(turn: Turn, policy: ClosePolicy) -> None:
    """The application closes; a repeated close changes neither deadline nor policy."""
    if turn.phase in (Phase.STARTING, Phase.READY):
        _begin(turn, REQUESTED, "close_requested", policy)


def expired(turn: Turn) -> None:
    """The session has lasted as long as it may (`max_session_ms`): it ends in order."""
    if turn.phase is Phase.READY:
        _begin(turn, EXPIRED, "max_session_ms", ClosePolicy.FINISH)


def begin_if_failed(turn: Turn) -> None:
    """Tell a failure and begin the bounded shutdown it asks for. While the session closes anyway it adds nothing."""
    if turn.failure is None:
        return
    cause, error, details = turn.failure
    turn.failure = None
    if turn.phase in (Phase.STARTING, Phase.READY):
        turn.emit(EventType.FAILED, {"cause": cause, "error": error, **details})
        _begin(turn, FAILED, cause, ClosePolicy.CANCEL)
        turn.lifecycle = replace(turn.lifecycle, role=details.get("role"))


def _begin(turn: Turn, reason: str, cause: str, policy: ClosePolicy) -> None:
    started = turn.phase is Phase.READY
    deadline_us = turn.now_us + turn.spec.limits.shutdown_timeout_ms * 1_000
    turn.disarm(turn.lifecycle.phase_timer)
    timer_id = turn.arm(TimerKind.SHUTDOWN, "shutdown", deadline_us)
    turn.lifecycle = Lifecycle(
        phase=Phase.CLOSING,
        reason=reason,
        cause=cause,
        policy=policy,
        deadline_us=deadline_us,
        phase_timer=timer_id,
        finalization_observed=turn.lifecycle.finalization_observed,
    )
    turn.act(BeginTeardown(deadline_us, cause))
    policy_runs.end(turn)
    waits.end_all(turn)
    progress.cancel_pending(turn)
    commands.withdraw_all(turn, "session_closing")
    jobs.withdraw_queue(turn, "session_closing")
    if not started:
        _reap(turn, force=True)
        return
    turn.act(StopPipelines())
    for role in OWNERS:
        if not turn.adapters[role].ended:
            _close_owner(turn, role)
    _settle(turn)


def _close_owner(turn: Turn, role: Role) -> None:
    """Closing goes past the queue: a callback that hangs in one owner holds up no other."""
    command_id = turn.new_id()
    turn.lifecycle = replace(turn.lifecycle, closes=turn.lifecycle.closes.put(command_id, role))
    policy = str(turn.lifecycle.policy)
    turn.act(Invoke(role, command_id, Call.CLOSE, {"policy": policy}, turn.lifecycle.deadline_us))


def close_replied(turn: Turn, input: CommandReplied) -> bool:
    """An owner's answer to its close; True if it was one.

    An adapter that refused to close will not tell `closed` either; one that hangs has until the deadline.
    """
    role = turn.lifecycle.closes.get(input.command_id)
    if role is None:
        return False
    if input.error is not None and not is_unknown(input.error):
        _ended(turn, role)
    return True


def adapter_closed(turn: Turn, role: Role, event: Event) -> None:
    """An adapter has closed, because it was asked to or by itself."""
    if role is Role.PROVIDER and event.payload.get("finalization_observed") is True:
        turn.lifecycle = replace(turn.lifecycle, finalization_observed=True)
    _ended(turn, role)
    if turn.phase is Phase.READY and role is Role.CHANNEL:
        _begin(turn, CHANNEL_CLOSED, CHANNEL_CLOSED, ClosePolicy.FINISH)
        return
    cause = "startup_failed" if turn.phase is Phase.STARTING else f"{role}_closed"
    turn.fail(cause, failure(ErrorCode.CLOSED, f"the {role} closed by itself"), role=str(role))


def channel_disconnected(turn: Turn, event: Event) -> None:
    """The caller hung up: nobody is left to talk to, so the session closes in order. Running jobs may finish."""
    if turn.phase is Phase.READY:
        _begin(turn, CHANNEL_DISCONNECTED, CHANNEL_DISCONNECTED, ClosePolicy.FINISH)
    elif turn.phase is Phase.STARTING:
        turn.fail("startup_failed", failure(ErrorCode.CLOSED, "the caller left before the session was ready"))


def adapter_failed(turn: Turn, role: Role, event: Event) -> None:
    """An adapter gave up; its own words are in its event."""
    reason = event.payload.get("reason")
    error = told(event.payload.get("error"), f"the {role} failed" + (f": {reason}" if reason else ""))
    turn.fail("startup_failed" if turn.phase is Phase.STARTING else "adapter_failed", error, role=str(role))


def process_down(turn: Turn, input: ProcessDown) -> None:
    """A process of the session died. What it was doing is unknown; the session ends, nothing is replayed."""
    role = input.role
    error = input.error or failure(ErrorCode.ADAPTER_FAILED, f"the {role} process died", cause=input.cause)
    cause = "startup_failed" if turn.phase is Phase.STARTING else f"{role}_down"
    turn.fail(cause, error, role=str(role), process_cause=input.cause)
    if role in OWNERS:
        commands.owner_lost(turn, role)
        if role is Role.BACKEND:
            _unfinished_uncertain(turn)
        _ended(turn, role)


def _unfinished_uncertain(turn: Turn) -> None:
    for job in turn.work.jobs.values():
        if job.status is JobStatus.SUBMITTED and job.dispatched:
            jobs.make_uncertain(turn, job, "backend_down")


def _ended(turn: Turn, role: Role) -> None:
    if turn.adapters[role].ended:
        return
    turn.adapters = turn.adapters.put(role, replace(turn.adapters[role], ended=True))
    if role is Role.PROVIDER:
        delivery.provider_gone(turn)
        uncertainty.provider_gone(turn)
    if turn.phase is Phase.CLOSING:
        _settle(turn)


def _settle(turn: Turn) -> None:
    """When every owner has ended, ask for the rest to be ended too: before the deadline, if all goes well."""
    if all(turn.adapters[role].ended for role in OWNERS):
        _reap(turn, force=False)


def _reap(turn: Turn, *, force: bool) -> None:
    if turn.lifecycle.reaping and not force:
        return
    turn.lifecycle = replace(turn.lifecycle, reaping=True)
    turn.act(ReapChildren(force))


def deadline(turn: Turn) -> None:
    """The time is up: whatever is left is killed."""
    turn.lifecycle = replace(turn.lifecycle, phase_timer=None)
    _reap(turn, force=True)


def children_gone(turn: Turn, input: ChildrenGone) -> None:
    """Nothing is alive any more: tell how it ended, and leave."""
    if turn.phase in (Phase.STARTING, Phase.READY):
        # the supervisor ended the session for a reason of its own
        error = failure(ErrorCode.ADAPTER_FAILED, "the session's processes are gone")
        turn.emit(EventType.FAILED, {"cause": "process_down", "error": error})
        life = replace(turn.lifecycle, phase=Phase.CLOSING, reason=FAILED, cause="process_down", reaping=True)
        turn.lifecycle = life
        policy_runs.end(turn)
        progress.cancel_pending(turn)
        commands.withdraw_all(turn, "session_closing")
        jobs.withdraw_queue(turn, "session_closing")
    health.sampled(turn, input.counters)
    for role in OWNERS:
        if role in turn.adapters:
            commands.owner_lost(turn, role)
            _ended(turn, role)
    _tell_closed(turn, input)
    for timer_id in turn.timers:
        turn.disarm(timer_id)
    turn.lifecycle = replace(turn.lifecycle, phase=Phase.ENDED)
    turn.act(Exit())


def _tell_closed(turn: Turn, input: ChildrenGone) -> None:
    life = turn.lifecycle
    unfinished: dict[str, Any] = {
        job.id: {
            "status": "uncertain",
            "task_id": job.task_id,
            "task_revision": job.task_revision,
            "delegation_id": job.delegation_id,
        }
        for job in turn.work.jobs.values()
        if job.dispatched and not job.status.terminal
    }
    turn.emit(
        EventType.CLOSED,
        {
            "reason": life.reason,
            "cause": life.cause,
            **({} if life.role is None else {"role": life.role}),
            "job_policy": str(life.policy),
            "health": health.project(turn),
            "jobs": unfinished,
            "commands": ledger.outcomes(turn),
            "finalization_observed": life.finalization_observed,
            "killed": input.killed,
            "left": list(input.left),
            "audio_discontinuity": {
                "cause": "session_ended",
                "dropped_frames": input.lost.frames,
                "dropped_bytes": input.lost.bytes,
                "dropped_duration_us": input.lost.duration_us,
            },
        },
    )
