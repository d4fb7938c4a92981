"""What became of each command that was handed over: completed, failed or unknown, never guessed (spec 000 §2).

An open outcome is dropped once it is known; while the session closes it is kept, so that `closed` can tell what became
of every command that was outstanding when the end began (acceptance SD-04).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from parlora.session.state import Phase
from parlora.session.turn import Turn

COMPLETED: Final = "completed"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"


def open_outcome(turn: Turn, command_id: str) -> None:
    """A command was handed over. Beyond `max_records` the oldest open outcome is forgotten: it stays unknown."""
    table = turn.commands.ledger.put(command_id, None)
    if len(table) > turn.spec.limits.max_records and turn.phase is not Phase.CLOSING:
        table = table.drop(next(iter(table)))
    turn.commands = replace(turn.commands, ledger=table)


def settle(turn: Turn, command_id: str | None, outcome: str) -> None:
    """The outcome of a command became known; the first observation wins."""
    table = turn.commands.ledger
    if command_id is None or command_id not in table or table[command_id] is not None:
        return
    table = table.put(command_id, outcome) if turn.phase is Phase.CLOSING else table.drop(command_id)
    turn.commands = replace(turn.commands, ledger=table)


def outcomes(turn: Turn) -> dict[str, str]:
    """The final outcome of every command that was outstanding when the session began to close."""
    return {command_id: outcome or UNKNOWN for command_id, outcome in turn.commands.ledger.items()}
