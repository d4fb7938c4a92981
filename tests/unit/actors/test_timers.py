"""Timers fire once, in order, not before their time, and not after they were cancelled."""

import select
from collections.abc import Iterator

import pytest

from parlora_actors.timers import TimerQueue
from parlora_actors.timing import now_us


@pytest.fixture
def timers() -> Iterator[TimerQueue]:
    queue = TimerQueue()
    yield queue
    queue.close()


def run_until(timers: TimerQueue, fired: list[str], count: int) -> None:
    while len(fired) < count:
        ready, _, _ = select.select([timers], [], [], 5)
        assert ready, f"only {fired} fired"
        timers.run_due()


def test_fires_in_the_order_of_times_whatever_the_order_of_arming(timers: TimerQueue) -> None:
    fired: list[str] = []
    start = now_us()
    timers.at(start + 3_000, lambda: fired.append("third"))
    timers.at(start + 1_000, lambda: fired.append("first"))
    timers.at(start + 2_000, lambda: fired.append("second"))
    run_until(timers, fired, 3)
    assert fired == ["first", "second", "third"]
    assert now_us() >= start + 3_000


def test_equal_times_fire_in_the_order_of_arming(timers: TimerQueue) -> None:
    fired: list[str] = []
    due = now_us() + 1_000
    for name in "abc":
        timers.at(due, lambda name=name: fired.append(name))  # type: ignore[misc]
    run_until(timers, fired, 3)
    assert fired == ["a", "b", "c"]


def test_a_time_that_has_passed_fires_at_the_next_turn(timers: TimerQueue) -> None:
    fired: list[str] = []
    timers.at(0, lambda: fired.append("late"))
    run_until(timers, fired, 1)


def test_a_cancelled_timer_never_fires_also_when_another_callback_cancels_it(timers: TimerQueue) -> None:
    fired: list[str] = []
    due = now_us() + 1_000
    timers.at(due, lambda: second.cancel())
    second = timers.at(due, lambda: fired.append("cancelled"))
    timers.at(due + 500, lambda: fired.append("last"))
    run_until(timers, fired, 1)
    assert fired == ["last"]
    assert not second.is_armed


def test_a_timer_armed_by_a_callback_waits_for_the_next_turn(timers: TimerQueue) -> None:
    fired: list[str] = []

    def again() -> None:
        fired.append("first")
        timers.at(0, lambda: fired.append("second"))

    timers.at(0, again)
    select.select([timers], [], [], 5)
    timers.run_due()
    assert fired == ["first"]
    run_until(timers, fired, 2)


def test_without_timers_nothing_is_readable(timers: TimerQueue) -> None:
    timers.at(now_us() + 1_000, lambda: None).cancel()
    timers.run_due()
    assert select.select([timers], [], [], 0.01) == ([], [], [])
