"""Progress deadlines that the host arms: at most one pending, none by ourselves (spec 000 §15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.errors import Backpressure, Conflict, ErrorCode, NotFound
from parlora.events import EventType
from parlora.ids import check_id
from parlora.session import health
from parlora.session.expectation import check_expectation, check_outcome
from parlora.session.failures import failure
from parlora.session.state import Expectation, TimerKind
from parlora.session.turn import Turn

_CONVERSATION: Final = ("assistant_caption", "user_caption", "delegation")


def expect(turn: Turn, arguments: dict[str, Any]) -> None:
    """Arm a deadline; the same id with the same settings is a no-op, also after resolution."""
    expectation_id = check_id(arguments.get("id"), "id")
    timeout_ms, until, on_timeout = check_expectation(arguments)
    known = turn.health.expectations.get(expectation_id)
    if known is not None:
        if (known.timeout_ms, known.until, known.on_timeout) != (timeout_ms, until, on_timeout):
            raise Conflict("this expectation id stands for other settings", details={"id": expectation_id})
        return
    current = turn.health.expectations.get(turn.health.current)
    if current is not None and current.status == "pending":
        raise Backpressure("another progress deadline is pending", details={"id": current.id})
    bound = turn.spec.limits.max_records
    if len(turn.health.expectations) >= bound:
        raise Backpressure("every expectation record is in use", details={"max_records": bound})
    due_us = turn.now_us + timeout_ms * 1_000
    timer_id = turn.arm(TimerKind.PROGRESS, expectation_id, due_us)
    turn.health = replace(turn.health, current=expectation_id)
    _change(
        turn,
        Expectation(expectation_id, timeout_ms, until, on_timeout, turn.now_us, due_us, timer_id=timer_id),
    )


def resolve(turn: Turn, arguments: dict[str, Any]) -> None:
    """The application settles its deadline; settling it again is a no-op."""
    expectation_id, outcome = check_id(arguments.get("id"), "id"), check_outcome(arguments.get("outcome"))
    expectation = turn.health.expectations.get(expectation_id)
    if expectation is None:
        raise NotFound("no expectation has this id", details={"id": expectation_id})
    _settle(turn, expectation, outcome)


def observed(turn: Turn, name: str) -> None:
    """An activity: it meets a pending deadline that waits for it and has not passed."""
    current = turn.health.expectations.get(turn.health.current)
    if current is None or current.status != "pending" or turn.now_us >= current.deadline_at_us:
        return
    if current.until == name or (current.until == "conversation" and name in _CONVERSATION):
        _settle(turn, current, "observed")


def timed_out(turn: Turn, expectation_id: str) -> None:
    """The deadline passed."""
    expectation = turn.health.expectations.get(expectation_id)
    if expectation is None or expectation.status != "pending":
        return
    _settle(turn, expectation, "timed_out")
    if expectation.on_timeout == "close":
        error = failure(ErrorCode.TIMEOUT, "the progress deadline passed", id=expectation.id)
        turn.fail("progress_timeout", error, health=health.project(turn))


def cancel_pending(turn: Turn) -> None:
    """The session closes: its pending deadline ends with it (acceptance SD-24)."""
    current = turn.health.expectations.get(turn.health.current)
    if current is not None:
        _settle(turn, current, "cancelled")


def _settle(turn: Turn, expectation: Expectation, status: str) -> None:
    if expectation.status == "pending":
        turn.disarm(expectation.timer_id)
        _change(turn, replace(expectation, status=status, resolved_at_us=turn.now_us, timer_id=None))


def _change(turn: Turn, expectation: Expectation) -> None:
    turn.health = replace(turn.health, expectations=turn.health.expectations.put(expectation.id, expectation))
    turn.emit(EventType.PROGRESS_CHANGED, health.describe(expectation))
