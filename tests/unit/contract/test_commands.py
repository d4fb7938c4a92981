"""Repeated, conflicting and too many commands."""

import pytest

from parlora.contract.commands import CommandLog
from parlora.errors import Backpressure, Conflict


def test_the_same_command_is_new_only_once() -> None:
    log = CommandLog(4)

    assert log.admit("c1", "cancel", "r1")
    assert not log.admit("c1", "cancel", "r1")
    with pytest.raises(Conflict):
        log.admit("c1", "cancel", "r2")


def test_settled_records_make_room_and_pending_ones_never_do() -> None:
    log = CommandLog(2)
    log.admit("c1", "submit", 1)
    log.admit("c2", "submit", 2)
    with pytest.raises(Backpressure):
        log.admit("c3", "submit", 3)
    log.settle("c1")

    assert log.admit("c3", "submit", 3)
    assert not log.admit("c2", "submit", 2)


def test_a_refused_command_may_come_again() -> None:
    log = CommandLog(1)
    log.admit("c1", "submit", 1)
    log.forget("c1")

    assert log.admit("c1", "submit", 2)
