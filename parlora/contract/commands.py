"""Repeated commands: one id with one command acts once, with another command it is a conflict (spec 000 §2)."""

from __future__ import annotations

from typing import Any

from parlora.errors import Backpressure, Conflict
from parlora.wire import pack, to_data


class CommandLog:
    """The commands one adapter has admitted in its generation, at most `capacity` of them.

    A command is pending until `settle`; when room is needed the oldest settled record goes, a pending one never does.
    Not thread-safe: adapters that settle from other threads hold their own lock.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._pending: dict[str, bytes] = {}
        self._settled: dict[str, bytes] = {}

    def admit(self, command_id: str, operation: str, *arguments: Any) -> bool:
        """True for a new command, False for a repeated one, whose effects must not be repeated.

        Raises `Conflict` if the id stands for another command, `Backpressure` if every record is of a pending command.
        """
        command = pack([operation, to_data(arguments)])
        known = self._pending.get(command_id, self._settled.get(command_id))
        if known is not None:
            if known != command:
                raise Conflict("this command id stands for another command")
            return False
        if len(self._pending) >= self._capacity:
            raise Backpressure("no room for another pending command", details={"max_records": self._capacity})
        if len(self._pending) + len(self._settled) >= self._capacity:
            del self._settled[next(iter(self._settled))]
        self._pending[command_id] = command
        return True

    def settle(self, command_id: str) -> None:
        """The command has its outcome; its record may go when room is needed."""
        command = self._pending.pop(command_id, None)
        if command is not None:
            self._settled[command_id] = command

    def forget(self, command_id: str) -> None:
        """The command was refused after all, as if it had never come."""
        self._pending.pop(command_id, None)
