"""The command ids of callers: the same id with the same command acts once, with another it is a conflict (spec 000 §2).

A settled record is kept for later repetitions until `max_records` are held, then the oldest settled ones give way;
records of pending operations never do. Beyond that, new commands are refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parlora.errors import Backpressure, Conflict
from parlora.session.inputs import ErrorData
from parlora.session.state import Record
from parlora.session.turn import Turn

Waiter = tuple[str, str]
"""A caller and the correlation id of its call."""


def admit(turn: Turn, command_id: str, operation: str, arguments: dict[str, Any], waiter: Waiter) -> bool:
    """True if the command is new and is to be carried out; False if this was a repetition, which is then handled.

    Raises `Conflict` if the id stands for another command, `Backpressure` when no record or waiter has room.
    """
    record = turn.commands.records.get(command_id)
    if record is None:
        if command_id in turn.commands.pending or command_id in turn.commands.ledger:
            raise Conflict("the session itself uses this command id", details={"command_id": command_id})
        _make_room(turn)
        _put(turn, command_id, Record(operation, arguments, (waiter,)))
        return True
    if (record.operation, record.arguments) != (operation, arguments):
        raise Conflict("this command id stands for another command", details={"command_id": command_id})
    if record.settled:
        _tell(turn, record, waiter)
    elif len(record.waiters) >= turn.spec.limits.max_subscribers:
        limit = turn.spec.limits.max_subscribers
        raise Backpressure("too many callers wait on this command", details={"max_subscribers": limit})
    else:
        _put(turn, command_id, replace(record, waiters=(*record.waiters, waiter)))
    return False


def settle(turn: Turn, command_id: str, value: Any = None, error: ErrorData | None = None) -> None:
    """The local result: tell everybody who waits and keep it for repetitions."""
    record = turn.commands.records.get(command_id)
    if record is None or record.settled:
        return
    record = replace(record, settled=True, value=value, error=error)
    for waiter in record.waiters:
        _tell(turn, record, waiter)
    _put(turn, command_id, replace(record, waiters=()))


def caller_gone(turn: Turn, caller: str) -> None:
    """Nobody waits on that connection any more; what was asked for goes on."""
    for command_id, record in turn.commands.records.items():
        if any(waiter[0] == caller for waiter in record.waiters):
            left = tuple(waiter for waiter in record.waiters if waiter[0] != caller)
            _put(turn, command_id, replace(record, waiters=left))


def _make_room(turn: Turn) -> None:
    bound = turn.spec.limits.max_records
    if len(turn.commands.records) < bound:
        return
    for command_id, record in turn.commands.records.items():
        if record.settled:
            turn.commands = replace(turn.commands, records=turn.commands.records.drop(command_id))
            return
    raise Backpressure("every command record is in use", details={"max_records": bound})


def _put(turn: Turn, command_id: str, record: Record) -> None:
    turn.commands = replace(turn.commands, records=turn.commands.records.put(command_id, record))


def _tell(turn: Turn, record: Record, waiter: Waiter) -> None:
    if record.error is not None:
        turn.refuse(waiter, record.error)
    else:
        turn.answer(waiter, record.value)
