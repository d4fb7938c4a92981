"""The end: one deadline, each owner on its own, one `closed`, and nothing claimed that was not seen."""

from typing import Any

import pytest

from parlora.limits import Limits
from parlora.session import effects, inputs
from parlora.session.effects import Call
from parlora.session.roles import OWNERS, Role
from parlora.session.state import Phase
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import UNKNOWN, error_code, start, started

DEADLINE_MS = Limits().shutdown_timeout_ms


def stubborn(model: SessionModel | None = None) -> SessionModel:
    """A ready session whose adapters do not close by themselves."""
    return started(model or SessionModel(auto_close=False))


def gone(model: SessionModel, killed: int = 0) -> dict[str, Any]:
    model.feed(inputs.ChildrenGone, killed=killed)
    return model.told("closed").payload


@pytest.mark.row("SD-01", "SD-06")
@pytest.mark.parametrize("policy", ["finish", "cancel"])
def test_close_fixes_one_deadline_and_hands_the_job_policy_to_every_owner(policy: str) -> None:
    model = stubborn()
    model.call("close", policy=policy)

    deadline_us = model.clock.now_us + DEADLINE_MS * 1_000
    assert [teardown.deadline_us for teardown in model.of(effects.BeginTeardown)] == [deadline_us]
    closes = model.invoked(Call.CLOSE)
    assert {close.role for close in closes} == set(OWNERS)
    assert {close.deadline_us for close in closes} == {deadline_us}
    assert [close.arguments for close in closes] == [{"policy": policy}] * 3
    assert len(model.of(effects.StopPipelines)) == 1


def test_the_default_job_policy_is_finish_and_another_one_is_refused() -> None:
    model = stubborn()
    assert error_code(model.call("close", policy="abort")) == "invalid_argument"
    model.call("close")

    assert model.invoked(Call.CLOSE)[0].arguments == {"policy": "finish"}


@pytest.mark.row("SD-02", "SD-07")
def test_a_repeated_close_changes_neither_deadline_nor_policy() -> None:
    model = stubborn()
    model.call("close", policy="finish")
    model.advance(1_000)
    answer = model.call("close", policy="cancel", caller="other")

    assert error_code(answer) is None
    assert len(model.of(effects.BeginTeardown)) == 1
    assert len(model.invoked(Call.CLOSE)) == 3
    model.advance(DEADLINE_MS - 1_001)
    assert not model.of(effects.ReapChildren)
    model.advance(1)
    assert [reap.force for reap in model.of(effects.ReapChildren)] == [True]
    assert gone(model, killed=3)["job_policy"] == "finish"


@pytest.mark.row("SD-08")
def test_an_owner_stuck_in_a_callback_holds_up_neither_the_others_nor_status_nor_the_deadline() -> None:
    model = SessionModel(auto_reply=False, auto_close=False).ready()
    model.call("append_context", update={"kind": "quiet", "text": "note"}, command_id="c1")
    model.call("close")

    assert {close.role for close in model.invoked(Call.CLOSE)} == set(OWNERS)
    for role in (Role.CHANNEL, Role.BACKEND):
        model.event(role, "closed")
    assert not model.of(effects.ReapChildren)
    assert model.status()["status"] == "closing"
    model.advance(DEADLINE_MS)
    assert [reap.force for reap in model.of(effects.ReapChildren)] == [True]


@pytest.mark.row("SD-12")
def test_when_every_owner_has_ended_the_rest_is_ended_before_the_deadline() -> None:
    model = stubborn()
    model.call("close")
    model.event(Role.PROVIDER, "closed", {"finalization_observed": True})
    model.feed(inputs.ProcessDown, role=Role.CHANNEL, cause="exit 0")
    assert not model.of(effects.ReapChildren)
    close = next(close for close in model.invoked(Call.CLOSE) if close.role is Role.BACKEND)
    model.reply(close, {"code": "adapter_failed", "message": "no", "details": {}})

    assert [reap.force for reap in model.of(effects.ReapChildren)] == [False]
    assert gone(model)["finalization_observed"] is True


def test_a_close_that_does_not_return_has_until_the_deadline() -> None:
    model = stubborn()
    model.call("close")
    for role in (Role.CHANNEL, Role.PROVIDER):
        model.event(role, "closed")
    model.reply(model.invoked(Call.CLOSE)[-1], UNKNOWN)

    assert not model.of(effects.ReapChildren)
    model.advance(DEADLINE_MS)
    assert gone(model, killed=1)["killed"] == 1


def test_asking_to_end_the_rest_still_ends_in_force_at_the_deadline() -> None:
    model = stubborn()
    model.call("close")
    for role in OWNERS:
        model.event(role, "closed")
    model.advance(DEADLINE_MS)

    assert [reap.force for reap in model.of(effects.ReapChildren)] == [False, True]


@pytest.mark.row("SD-03")
def test_a_closing_session_takes_no_new_work_and_still_answers_what_it_is() -> None:
    model = stubborn()
    model.call("close")

    for operation, arguments in {
        "update_context": {"context": {}},
        "append_context": {"update": {"kind": "quiet", "text": "x"}},
        "control": {"command": ["mute_input", True], "command_id": "c"},
        "cancel": {"request_id": "r", "expected_task_revision": 1, "command_id": "d"},
        "expect_progress": {"id": "e", "timeout_ms": 10},
    }.items():
        assert error_code(model.call(operation, **arguments)) == "closed"
    assert model.status()["status"] == "closing"
    assert error_code(model.call("snapshot")) is None
    model.delegate("d2")
    assert "d2" not in model.snapshot()["pending_delegations"]


@pytest.mark.row("SD-13", "SD-16", "SD-05", "SL-28")
def test_submitted_work_without_an_outcome_is_uncertain_at_the_end() -> None:
    model = stubborn()
    request = model.request()
    model.call("close", policy="cancel")
    payload = gone(model)

    assert payload["jobs"] == {
        request["id"]: {"status": "uncertain", "task_id": request["task_id"], "task_revision": 1, "delegation_id": "d1"}
    }
    assert "cancelled" not in repr(model.events("closed"))
    assert "roll" not in repr(payload)


@pytest.mark.row("SD-12")
def test_work_that_finishes_while_the_session_closes_is_not_uncertain() -> None:
    model = stubborn()
    model.call("close", policy="finish")
    model.complete(model.request(), summary="done")

    assert gone(model)["jobs"] == {}
    assert model.appended_texts() == []


@pytest.mark.row("SD-26")
def test_queued_work_is_discarded_as_never_submitted() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1)), auto_close=False)
    started(model)
    model.delegate("d2")
    model.decide(start("d2", order="825"))
    running = model.request()
    model.call("close")

    result = model.told("request_cancelled").payload["result"]
    assert result["metadata"]["execution"] == "never_submitted"
    assert list(gone(model)["jobs"]) == [running["id"]]
    assert len(model.invoked(Call.SUBMIT)) == 1


@pytest.mark.row("SD-04", "SD-17")
def test_every_outstanding_command_ends_completed_failed_or_unknown() -> None:
    model = SessionModel(auto_acknowledge=False, auto_close=False).ready()
    for name in ("acknowledged", "rejected", "silent"):
        model.call("append_context", update={"kind": "quiet", "text": name}, command_id=name)
    model.auto_reply = False
    model.call("append_context", update={"kind": "quiet", "text": "stuck"}, command_id="stuck")
    waiting = model.call("append_context", update={"kind": "quiet", "text": "queued"}, command_id="queued")
    model.call("close")
    model.event(Role.PROVIDER, "context_acknowledged", command_id="acknowledged")
    model.event(Role.PROVIDER, "context_rejected", command_id="rejected")

    assert waiting is None
    (refused,) = [answer.error for answer in model.of(effects.Answer) if answer.error is not None]
    assert refused["details"]["execution"] == "never_submitted"
    assert gone(model)["commands"] == {
        "acknowledged": "completed",
        "rejected": "failed",
        "silent": "unknown",
        "stuck": "unknown",
    }


@pytest.mark.row("SL-45", "SL-44")
def test_after_the_terminal_event_there_is_nothing_to_poll() -> None:
    model = stubborn()
    seen = {SessionModel().status()["status"], model.status()["status"]}
    model.call("close")
    seen.add(model.status()["status"])
    gone(model)

    assert seen == {"starting", "ready", "closing"}
    assert isinstance(model.effects[-1], effects.Exit)
    assert model.state.lifecycle.phase is Phase.ENDED
    assert model.call("status") is None
    assert model.clock.armed == {}


@pytest.mark.row("SD-27", "SD-24")
def test_no_timer_outlives_the_session() -> None:
    model = stubborn()
    model.call("expect_progress", id="e1", timeout_ms=300_000)
    model.call("close")
    assert model.told("progress_changed").payload["status"] == "cancelled"
    gone(model)

    assert model.clock.armed == {}


@pytest.mark.row("SD-25")
def test_closed_retains_health_with_the_last_sample_of_the_rings() -> None:
    model = stubborn()
    model.call("close")
    counters = inputs.AudioCounters(inputs.Forwarded(50, 48_000, 7), inputs.Forwarded())
    model.feed(inputs.ChildrenGone, killed=0, counters=counters)

    health = model.told("closed").payload["health"]
    assert health["input_forwarded"] == {"frames": 50, "bytes": 48_000, "last_at_us": 7}
    assert health["output_forwarded"] == {"frames": 0, "bytes": 0, "last_at_us": None}
    assert health["observations"]["delegation"]["count"] == 1


@pytest.mark.parametrize("role", [*OWNERS, Role.INPUT_PIPELINE, Role.OUTPUT_PIPELINE])
def test_a_process_that_dies_ends_the_session_with_one_failed_and_one_closed(role: Role) -> None:
    model = started()
    model.feed(inputs.ProcessDown, role=role, cause="signal 9")

    assert [event.payload["cause"] for event in model.events("failed")] == [f"{role}_down"]
    (closed,) = model.events("closed")
    assert (closed.payload["cause"], closed.payload["role"]) == (f"{role}_down", role)
    assert role not in {close.role for close in model.invoked(Call.CLOSE)}
    assert list(closed.payload["jobs"]) == [model.request()["id"]]


def test_a_caller_who_hangs_up_ends_the_session_without_a_failure() -> None:
    model = started()
    model.event(Role.CHANNEL, "closed", {"reason": "end_of_input"})

    assert not model.events("failed")
    assert model.told("closed").payload["cause"] == "channel_closed"


def test_a_caller_whose_connection_ends_closes_the_session_in_order_and_running_jobs_may_finish() -> None:
    model = started()
    model.event(Role.CHANNEL, "disconnected", {"reason": "remote_hangup"})

    assert not model.events("failed")
    assert {str(close.arguments["policy"]) for close in model.invoked(Call.CLOSE)} == {"finish"}
    assert model.told("closed").payload["cause"] == "channel_disconnected"


def test_a_caller_who_leaves_before_readiness_ends_the_start() -> None:
    model = SessionModel()
    model.event(Role.CHANNEL, "disconnected", {"reason": "remote_hangup"})

    assert model.told("failed").payload["cause"] == "startup_failed"
    assert not model.events("ready", source="session")


def test_a_pipeline_held_up_too_long_ends_the_session() -> None:
    model = started()
    model.feed(inputs.PipelineStalled, role=Role.OUTPUT_PIPELINE, epoch=0, blocked_us=500_000)

    failed = model.told("failed").payload
    assert failed["error"]["details"] == {"epoch": 0, "blocked_us": 500_000}
    assert (failed["role"], failed["pipeline"]) == ("channel", "output_pipeline")


def test_children_gone_without_our_asking_still_ends_in_one_closed() -> None:
    model = started()
    model.feed(inputs.ChildrenGone, killed=6)

    assert model.told("closed").payload["cause"] == "process_down"
    assert not model.of(effects.ReapChildren)
    assert isinstance(model.effects[-1], effects.Exit)


def test_a_session_that_lasts_too_long_closes_in_order_and_says_so() -> None:
    model = stubborn(SessionModel(spec=session_spec(limits=Limits(max_session_ms=60_000)), auto_close=False))
    model.advance(59_999)
    assert model.of(effects.BeginTeardown) == []
    model.advance(1)

    assert [teardown.reason for teardown in model.of(effects.BeginTeardown)] == ["max_session_ms"]
    assert {close.arguments["policy"] for close in model.invoked(Call.CLOSE)} == {"finish"}
    closed = gone(model)
    assert (closed["reason"], closed["cause"]) == ("expired", "max_session_ms")


def test_without_that_limit_a_session_lasts() -> None:
    model = stubborn()
    model.advance(48 * 3_600_000)
    assert model.of(effects.BeginTeardown) == []


def test_a_session_that_closes_earlier_is_not_ended_again() -> None:
    model = stubborn(SessionModel(spec=session_spec(limits=Limits(max_session_ms=1_000)), auto_close=False))
    model.call("close")
    model.advance(1_000)
    assert len(model.of(effects.BeginTeardown)) == 1
    assert gone(model)["reason"] == "requested"
