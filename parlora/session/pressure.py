"""Recovery pressure: generated audio piles up before a channel that holds playback back (spec 000 §13).

The channel is asked to end its hold of that epoch. A hint, not a control: it drops nothing, enlarges nothing, and
whether it changed anything is not known here. Every bound and deadline stays as it is.
"""

from __future__ import annotations

from typing import Any, Final

from parlora.errors import Backpressure
from parlora.events import EventType
from parlora.session import commands
from parlora.session.effects import Call
from parlora.session.inputs import ErrorData, PipelinePressed
from parlora.session.roles import Role
from parlora.session.state import Command, Phase, Purpose
from parlora.session.turn import CommandHandler, Turn, Withdraw

_FIELDS: Final = ("queued_bytes", "capacity_bytes", "pending_bytes", "threshold_bytes")


def pressed(turn: Turn, input: PipelinePressed) -> None:
    """Ask the channel to end its hold, unless a clear has ended the epoch or it is being asked already."""
    asked = any(command.purpose is Purpose.RELEASE for command in turn.commands.pending.values())
    if turn.phase is not Phase.READY or asked or input.epoch != turn.controls.epoch:
        return
    measured = {"epoch": input.epoch, **{name: getattr(input, name) for name in _FIELDS}}
    try:
        commands.enqueue(turn, Role.CHANNEL, Call.RELEASE_OUTPUT_RECOVERY, Purpose.RELEASE, "", measured)
    except Backpressure:
        _tell(turn, measured, False)


def _prepare(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    return command.arguments if command.arguments["epoch"] == turn.controls.epoch else Withdraw("cleared")


def _replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    _tell(turn, command.arguments, error is None)


def _withdrawn(turn: Turn, command: Command, reason: str) -> None:
    _tell(turn, command.arguments, False)


def _tell(turn: Turn, measured: dict[str, Any], accepted: bool) -> None:
    """`accepted`: the channel took the hint, no more than that."""
    turn.emit(EventType.RECOVERY_PRESSURE, {**measured, "accepted": accepted})


RELEASE_HANDLER: Final = CommandHandler(_prepare, _replied, _withdrawn)
