"""Progress deadlines: armed by the host only, one at a time, met by what they wait for and nothing else."""

from typing import Any

import pytest

from parlora.limits import Limits
from parlora.session import inputs
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import error_code, started


def expect(model: SessionModel, expectation_id: str = "e1", timeout_ms: Any = 1_000, **options: Any) -> str | None:
    return error_code(model.call("expect_progress", id=expectation_id, timeout_ms=timeout_ms, **options))


def outcome(model: SessionModel) -> list[str]:
    return [event.payload["status"] for event in model.events("progress_changed")]


@pytest.mark.row("HP-07", "HP-08")
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"timeout_ms": 300_001}, "timeout_ms"),
        ({"until": "silence"}, "until"),
        ({"on_timeout": "retry"}, "on_timeout"),
    ],
)
def test_a_progress_deadline_names_what_is_wrong_with_it(options: dict[str, Any], field: str) -> None:
    answer = SessionModel().ready().call("expect_progress", **{"id": "e", "timeout_ms": 10, **options})

    assert answer is not None
    assert answer.error is not None
    assert answer.error["details"]["field"] == field


@pytest.mark.row("HP-08", "HP-09", "HP-10", "HP-12", "HP-24")
@pytest.mark.parametrize(
    ("until", "met_by"),
    [
        ("assistant_caption", {"assistant"}),
        ("user_caption", {"user"}),
        ("delegation", {"delegation"}),
        ("conversation", {"assistant", "user", "delegation"}),
        ("explicit", set()),
    ],
)
def test_a_deadline_is_met_by_what_it_waits_for_and_nothing_else(until: str, met_by: set[str]) -> None:
    for activity in ("assistant", "user", "delegation", "blank", "playback", "acknowledgment", "bytes"):
        model = SessionModel().ready()
        model.say("before", speaker="assistant")
        assert expect(model, until=until) is None
        if activity in ("assistant", "user"):
            model.say("words", speaker=activity)
        elif activity == "delegation":
            model.delegate("d1")
        elif activity == "blank":
            model.say(" ", speaker="assistant")
        elif activity == "playback":
            model.event(Role.CHANNEL, "playback_observed", {"stage": "handed_off"})
        elif activity == "bytes":
            moved = inputs.AudioCounters(inputs.Forwarded(9, 8_640, 1), inputs.Forwarded(9, 8_640, 1))
            model.feed(inputs.Called, caller="a", call_id="x", operation="status", arguments={}, counters=moved)
        else:
            model.call("append_context", update={"kind": "quiet", "text": "x"})
        assert outcome(model) == (["pending", "observed"] if activity in met_by else ["pending"]), activity


@pytest.mark.row("HP-12", "HP-13")
def test_a_deadline_that_passes_is_told_and_by_default_changes_nothing_else() -> None:
    model = SessionModel().ready()
    expect(model)
    model.advance(999)
    assert outcome(model) == ["pending"]
    model.advance(1)
    model.say("late", speaker="assistant")

    assert outcome(model) == ["pending", "timed_out"]
    assert model.status()["status"] == "ready"
    assert model.status()["health"]["expectation"]["status"] == "timed_out"


@pytest.mark.row("HP-14", "HP-15", "HP-21")
def test_a_deadline_may_close_the_session_and_tells_health() -> None:
    model = started()
    expect(model, on_timeout="close")
    model.advance(1_000)

    failed = model.told("failed").payload
    assert failed["cause"] == "progress_timeout"
    assert failed["health"]["expectation"]["status"] == "timed_out"
    assert list(model.told("closed").payload["jobs"]) == [model.request()["id"]]


@pytest.mark.row("HP-11", "HP-22", "HP-18", "HP-17", "HP-25", "HP-16")
def test_deadlines_are_resolved_by_the_application_and_armed_one_at_a_time() -> None:
    model = SessionModel().ready()
    assert not model.events("progress_changed")
    assert expect(model, until="explicit") is None
    assert expect(model, until="explicit") is None
    assert expect(model, until="explicit", timeout_ms=7) == "conflict"
    assert expect(model, "e2") == "backpressure"
    assert error_code(model.call("resolve_progress", id="e1", outcome="observed")) == "invalid_argument"
    assert error_code(model.call("resolve_progress", id="nobody", outcome="completed")) == "not_found"
    assert error_code(model.call("resolve_progress", id="e1", outcome="completed")) is None
    assert expect(model, until="explicit") is None
    assert error_code(model.call("resolve_progress", id="e1", outcome="cancelled")) is None
    assert expect(model, "e2") is None
    assert error_code(model.call("resolve_progress", id="e2", outcome="cancelled")) is None

    assert outcome(model) == ["pending", "completed", "pending", "cancelled"]
    model.advance(2_000)
    assert outcome(model)[-1] == "cancelled"


@pytest.mark.row("HP-19")
def test_expectation_records_are_bounded() -> None:
    model = SessionModel(session_spec(Limits(max_records=2, max_jobs=1, max_pending_jobs=1))).ready()
    for name in ("e1", "e2"):
        assert expect(model, name) is None
        model.call("resolve_progress", id=name, outcome="completed")

    assert expect(model, "e3") == "backpressure"


@pytest.mark.row("HP-20")
def test_the_timer_of_a_resolved_deadline_cannot_close_a_later_one() -> None:
    model = SessionModel().ready()
    expect(model, "e1", on_timeout="close")
    (timer_id,) = [key for key, timer in model.state.timers.items() if timer.kind == "progress"]
    model.call("resolve_progress", id="e1", outcome="completed")
    expect(model, "e2", timeout_ms=5_000, on_timeout="close")
    model.feed(inputs.TimerFired, timer_id=timer_id)
    model.advance(1_000)

    assert model.status()["status"] == "ready"
    assert model.status()["health"]["expectation"]["id"] == "e2"


@pytest.mark.row("HP-23")
def test_progress_deadlines_and_acknowledgments_run_on_their_own() -> None:
    model = SessionModel(auto_acknowledge=False)
    started(model)
    expect(model, timeout_ms=20_000, until="explicit")
    model.complete(model.request(), summary="done")
    model.advance(model.spec.limits.ack_timeout_ms)
    assert model.told("result_delivery").payload["overdue"] is True
    assert outcome(model) == ["pending"]
    model.advance(10_000)

    assert outcome(model) == ["pending", "timed_out"]
    assert model.status()["jobs"][model.request()["id"]]["delivery"] == "awaiting_provider"


@pytest.mark.row("HP-09")
def test_what_is_observed_at_or_after_the_deadline_is_too_late_even_if_the_timer_is_late_too() -> None:
    model = SessionModel().ready()
    model.call("expect_progress", id="p", timeout_ms=100, until="user_caption")
    model.clock.now_us += 100_000  # the timer has not fired yet
    model.say("Hello.")
    assert model.status()["health"]["expectation"]["status"] == "pending"
    model.advance(0)
    assert model.status()["health"]["expectation"]["status"] == "timed_out"
