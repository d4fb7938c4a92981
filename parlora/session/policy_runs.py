"""Interpretation runs outside, one at a time, on a snapshot; decisions count only for that very state (spec 000 §7).

Triggers wait in order and equal ones are one: none is lost, for each is dropped only after a run on a current snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from parlora.context.decision import ContextDecision
from parlora.context.trigger import ContextTrigger
from parlora.errors import ErrorCode, ParloraError
from parlora.events import EventType
from parlora.session import decisions, projection
from parlora.session.effects import ReplacePolicy, RunPolicy
from parlora.session.failures import failure
from parlora.session.inputs import ErrorData, PolicyReplied, ProcessDown
from parlora.session.roles import Role
from parlora.session.state import Phase, Run, TimerKind
from parlora.session.turn import Turn

MOST_ATTEMPTS: Final = 2
"""One run and one retry; a second consecutive failure ends the session (acceptance CP-15)."""

WORKER_RESPAWN_MS: Final = 5_000
"""How long a replaced policy worker may take to import its policy again (design §8)."""


def start_next(turn: Turn) -> None:
    """Begin the next run if there is something to interpret and somebody to do it."""
    policy = turn.policy
    if policy.run is not None or not policy.triggers or not policy.up or turn.phase is not Phase.READY:
        return
    trigger, run_id = policy.triggers[0], turn.new_id()
    snapshot = projection.snapshot(turn)
    timer_id = turn.arm(TimerKind.POLICY, run_id, turn.now_us + turn.spec.limits.policy_timeout_ms * 1_000)
    run = Run(run_id, trigger, snapshot.revision, snapshot.provider_generation, timer_id)
    turn.policy = replace(policy, run=run, triggers=policy.triggers[1:])
    turn.act(RunPolicy(run_id, snapshot, trigger))


def replied(turn: Turn, input: PolicyReplied) -> None:
    """A run ended. One that is not the current run is late and changes nothing."""
    run = turn.policy.run
    if run is None or run.id != input.run_id:
        return
    turn.disarm(run.timer_id)
    turn.policy = replace(turn.policy, run=None)
    if input.error is not None:
        _failed(turn, run, input.error)
    elif _is_stale(turn, run):
        _again(turn, run.trigger)
    else:
        _apply(turn, run, input.decisions)


def _is_stale(turn: Turn, run: Run) -> bool:
    generation = turn.adapters[Role.PROVIDER].generation
    return (run.revision, run.generation) != (turn.conversation.revision, generation)


def _again(turn: Turn, trigger: ContextTrigger) -> None:
    """Interpret the same trigger on a fresh snapshot, before newer ones."""
    others = tuple(other for other in turn.policy.triggers if other != trigger)
    turn.policy = replace(turn.policy, triggers=(trigger, *others))


def _apply(turn: Turn, run: Run, batch: Sequence[ContextDecision]) -> None:
    try:
        decisions.check(turn, batch)
    except ParloraError as error:
        # an admission error, not a policy failure: what was held stays held until the next change is interpreted
        turn.policy = replace(turn.policy, unresolved=True)
        turn.emit(EventType.POLICY_REJECTED, {"error": error.to_data(), "trigger": str(run.trigger.kind)})
        return
    unresolved = decisions.apply(turn, batch)
    turn.policy = replace(turn.policy, failures=0, unresolved=unresolved)


def _failed(turn: Turn, run: Run, error: ErrorData) -> None:
    """Retry once, with the newest trigger first; results stay held."""
    attempt = turn.policy.failures + 1
    retry = attempt < MOST_ATTEMPTS
    turn.emit(EventType.POLICY_FAILED, {"attempt": attempt, "retry": retry, "error": error})
    newest, others = turn.policy.triggers[-1:], turn.policy.triggers[:-1]
    triggers = tuple(dict.fromkeys((*newest, *others, run.trigger)))
    turn.policy = replace(turn.policy, failures=attempt, unresolved=True, triggers=triggers)
    if not retry:
        turn.fail("policy_failed", error)


def timed_out(turn: Turn, run_id: str) -> None:
    """An attempt took too long: its worker is replaced, for nothing else stops code that does not return."""
    run = turn.policy.run
    if run is None or run.id != run_id:
        return
    turn.policy = replace(turn.policy, run=None)
    limit = turn.spec.limits.policy_timeout_ms
    _failed(turn, run, failure(ErrorCode.TIMEOUT, "the policy did not answer in time", policy_timeout_ms=limit))
    if turn.failure is None:
        turn.act(ReplacePolicy("policy_timeout"))
        _await_worker(turn)


def _await_worker(turn: Turn) -> None:
    turn.disarm(turn.policy.worker_timer)
    timer_id = turn.arm(TimerKind.POLICY_WORKER, "policy", turn.now_us + WORKER_RESPAWN_MS * 1_000)
    turn.policy = replace(turn.policy, up=False, worker_timer=timer_id)


def up(turn: Turn) -> None:
    """A worker is there and has imported the policy."""
    turn.disarm(turn.policy.worker_timer)
    turn.policy = replace(turn.policy, up=True, worker_timer=None)


def watch(turn: Turn) -> None:
    """The session became ready: from now on a missing worker has a deadline of its own."""
    if not turn.policy.up:
        _await_worker(turn)


def down(turn: Turn, input: ProcessDown) -> None:
    """The worker died. Asked for, it was expected; else the run it held has failed. The supervisor starts another."""
    if input.asked:
        return
    if turn.phase is not Phase.READY:
        turn.policy = replace(turn.policy, up=False)
        return
    run = turn.policy.run
    _await_worker(turn)
    if run is not None:
        turn.disarm(run.timer_id)
        turn.policy = replace(turn.policy, run=None)
        error = input.error or failure(ErrorCode.ADAPTER_FAILED, "the policy worker died", cause=input.cause)
        _failed(turn, run, error)


def worker_missing(turn: Turn) -> None:
    """No worker came up again in time."""
    if turn.phase is Phase.READY and not turn.policy.up:
        error = failure(ErrorCode.TIMEOUT, "no policy worker came up", respawn_timeout_ms=WORKER_RESPAWN_MS)
        turn.fail("policy_failed", error)


def end(turn: Turn) -> None:
    """The session closes: nothing is interpreted any more."""
    if turn.policy.run is not None:
        turn.disarm(turn.policy.run.timer_id)
    turn.disarm(turn.policy.worker_timer)
    turn.policy = replace(turn.policy, run=None, triggers=(), worker_timer=None)
