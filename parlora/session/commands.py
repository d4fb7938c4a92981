"""Commands to adapter owners: one lane per owner, one command at a time, rechecked at hand-over (spec 000 §2).

Whatever has not been handed over stays here, where a correction, a cancellation or the end of the session can still
withdraw it. Handed over counts as invoked: from then on only the owner's reply, or its absence, speaks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.errors import Backpressure, ErrorCode
from parlora.limits import ADMISSION_DEADLINE_MS, Limits
from parlora.session import ledger
from parlora.session.effects import Call, Invoke
from parlora.session.failures import UNKNOWN, execution_of, failure, never_submitted
from parlora.session.inputs import CommandReplied, ErrorData
from parlora.session.roles import OWNERS, Role
from parlora.session.state import Command, Lane, Phase, Purpose, TimerKind
from parlora.session.turn import Turn, Withdraw

_EXEMPT: Final = frozenset({Purpose.CONTROL, Purpose.RESUME})
"""Barrier legs must never be refused for want of room: at most two of them wait per owner, for clears coalesce."""


def room(limits: Limits) -> int:
    """Most runtime commands that may be pending at once (acceptance RA-06)."""
    return min(limits.max_records, limits.max_jobs + limits.max_pending_jobs + limits.max_pending_delegations)


def check_room(turn: Turn) -> None:
    """Raise `Backpressure` if one more runtime command would exceed the bound."""
    bound = room(turn.spec.limits)
    if sum(1 for command in turn.commands.pending.values() if command.purpose not in _EXEMPT) >= bound:
        raise Backpressure("too many commands are pending", details={"max_pending_commands": bound})


def enqueue(
    turn: Turn,
    role: Role,
    call: Call,
    purpose: Purpose,
    subject: str,
    arguments: dict[str, Any] | None = None,
    *,
    command_id: str | None = None,
    before_us: int | None = None,
) -> str:
    """Queue a command for an owner; raises `Backpressure` if the bound is reached. Returns the command id.

    before_us: an earlier deadline than the admission's own, e.g. the request's.
    """
    if purpose not in _EXEMPT:
        check_room(turn)
    command_id = command_id or turn.new_id()
    due_us = turn.now_us + ADMISSION_DEADLINE_MS * 1_000
    if before_us is not None:
        due_us = min(due_us, before_us)
    timer_id = turn.arm(TimerKind.ADMISSION, command_id, due_us)
    command = Command(command_id, role, call, arguments or {}, purpose, subject, due_us, timer_id)
    lane = turn.commands.lanes.get(role) or Lane()
    urgent = purpose in _EXEMPT
    queue = (command_id, *lane.queue) if urgent else (*lane.queue, command_id)
    turn.commands = replace(
        turn.commands,
        pending=turn.commands.pending.put(command_id, command),
        lanes=turn.commands.lanes.put(role, replace(lane, queue=queue)),
    )
    return command_id


def hand_over(turn: Turn) -> None:
    """Send the next command of every lane that is free; before readiness no adapter is called."""
    if turn.phase is not Phase.READY:
        return
    for role in OWNERS:
        while True:
            lane = turn.commands.lanes.get(role)
            if lane is None or lane.in_flight is not None or not lane.queue:
                break
            _hand_over_one(turn, turn.commands.pending[lane.queue[0]])


def _hand_over_one(turn: Turn, command: Command) -> None:
    handler = turn.handlers[command.purpose]
    arguments = handler.prepare(turn, command)
    if isinstance(arguments, Withdraw):
        withdraw(turn, command, arguments.reason)
        return
    lane = turn.commands.lanes[command.role]
    turn.commands = replace(
        turn.commands,
        pending=turn.commands.pending.put(command.id, replace(command, dispatched=True, arguments=arguments)),
        lanes=turn.commands.lanes.put(command.role, Lane(command.id, lane.queue[1:])),
    )
    ledger.open_outcome(turn, command.id)
    turn.act(Invoke(command.role, command.id, command.call, arguments, command.deadline_us))
    if handler.handed_over is not None:
        handler.handed_over(turn, command)


def withdraw(turn: Turn, command: Command, reason: str) -> None:
    """Take a command back that was not handed over."""
    _remove(turn, command)
    turn.disarm(command.timer_id)
    turn.handlers[command.purpose].withdrawn(turn, command, reason)


def withdraw_all(turn: Turn, reason: str) -> None:
    """Take back everything that was not handed over (acceptance RA-04)."""
    for command in list(turn.commands.pending.values()):
        if not command.dispatched and command.id in turn.commands.pending:
            withdraw(turn, command, reason)


def replied(turn: Turn, input: CommandReplied) -> None:
    """An owner's admission. One of a command that is not pending any more is late and changes nothing."""
    command = turn.commands.pending.get(input.command_id)
    if command is None or command.role is not input.role or not command.dispatched:
        return
    turn.disarm(command.timer_id)
    _remove(turn, command)
    _settle(turn, command, input.error)


def expired(turn: Turn, command_id: str) -> None:
    """An admission deadline passed: never submitted if it was still here, unknown if it was handed over."""
    command = turn.commands.pending.get(command_id)
    if command is None:
        return
    turn.disarm(command.timer_id)
    details = {"role": str(command.role), "call": str(command.call)}
    if command.dispatched:
        # the owner is stuck in this callback: its lane stays taken, for nothing else may run beside it
        turn.commands = replace(turn.commands, pending=turn.commands.pending.drop(command.id))
        error = failure(ErrorCode.TIMEOUT, "the owner did not return in time", execution=UNKNOWN, **details)
    else:
        _remove(turn, command)
        error = never_submitted(ErrorCode.TIMEOUT, "the command expired before it could be handed over", **details)
    _settle(turn, command, error)


def owner_lost(turn: Turn, role: Role) -> None:
    """The owner died: what it was doing is unknown, what waited for it was never submitted."""
    details = {"role": str(role)}
    for command in list(turn.commands.pending.values()):
        if command.role is not role or command.id not in turn.commands.pending:
            continue
        turn.disarm(command.timer_id)
        _remove(turn, command)
        if command.dispatched:
            _settle(turn, command, failure(ErrorCode.ADAPTER_FAILED, "the owner died", execution=UNKNOWN, **details))
        else:
            _settle(turn, command, never_submitted(ErrorCode.ADAPTER_FAILED, "the owner died", **details))


def _settle(turn: Turn, command: Command, error: ErrorData | None) -> None:
    unknown = execution_of(error) == UNKNOWN
    if unknown:
        ledger.settle(turn, command.id, ledger.UNKNOWN)
    elif error is not None or command.purpose in (Purpose.RELEASE, Purpose.RESUME, Purpose.RESOLVE, Purpose.SUBMIT):
        ledger.settle(turn, command.id, ledger.FAILED if error is not None else ledger.COMPLETED)
    turn.handlers[command.purpose].replied(turn, command, error)
    if unknown and error is not None:
        turn.fail("admission_unknown", error, role=str(command.role), command_id=command.id)


def _remove(turn: Turn, command: Command) -> None:
    lane = turn.commands.lanes.get(command.role) or Lane()
    if lane.in_flight == command.id:
        lane = Lane(None, lane.queue)
    elif command.id in lane.queue:
        lane = Lane(lane.in_flight, tuple(other for other in lane.queue if other != command.id))
    turn.commands = replace(
        turn.commands,
        pending=turn.commands.pending.drop(command.id),
        lanes=turn.commands.lanes.put(command.role, lane),
    )
