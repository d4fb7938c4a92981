"""The bounds of values and of counts: what is just inside is taken, what is just outside is refused and told."""

from typing import Any

import pytest

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.session import effects
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel, session_spec
from parlora.wire import packed_size

from .helpers import UNKNOWN, error_code, only_task, start, started, with_limits


def decided(**fields: Any) -> SessionModel:
    """A session whose policy said this about its one pending call."""
    model = SessionModel().ready()
    model.delegate("d1")
    model.decide(ContextDecision(delegation_id="d1", **fields))
    return model


def rejected_field(model: SessionModel) -> str | None:
    told = model.events("policy_rejected")
    field: str | None = told[0].payload["error"]["details"]["field"] if told else None
    return field


@pytest.mark.row("LM-14")
@pytest.mark.parametrize(("ms", "taken"), [(0, False), (1, True), (60_000, True), (60_001, False), (1.5, False)])
def test_a_recheck_delay_is_1_to_60_000_ms(ms: Any, taken: bool) -> None:
    model = decided(kind=DecisionKind.WAIT_FOR_CONTEXT, recheck_after_ms=ms)
    assert rejected_field(model) == (None if taken else "recheck_after_ms")
    assert bool(model.events("context_wait_started")) is taken
    if taken:
        (due_us,) = [arm.due_us for arm in model.of(effects.ArmTimer) if arm.timer_id in wait_timers(model)]
        assert due_us == model.clock.now_us + ms * 1_000


def wait_timers(model: SessionModel) -> set[str]:
    return {timer_id for timer_id, timer in model.state.timers.items() if timer.kind == "wait"}


@pytest.mark.row("LM-15", "LM-16")
@pytest.mark.parametrize(("key", "taken"), [("", False), ("k", True), ("ü" * 64, True), ("ü" * 64 + "k", False)])
def test_keys_are_1_to_128_bytes(key: str, taken: bool) -> None:
    wait = decided(kind=DecisionKind.WAIT_FOR_CONTEXT, recheck_after_ms=1, recheck_key=key)
    assert rejected_field(wait) == (None if taken else "recheck_key")
    ask = decided(kind=DecisionKind.REQUEST_CLARIFICATION, message="Which?", clarification_key=key)
    assert rejected_field(ask) == (None if taken else "clarification_key")
    assert bool(ask.invoked(Call.APPEND_CONTEXT)) is taken


@pytest.mark.row("LM-17")
@pytest.mark.parametrize(("size", "taken"), [(4_096, True), (4_097, False)])
def test_the_input_of_a_clarification_is_at_most_4_096_bytes_as_msgpack(size: int, taken: bool) -> None:
    input = {"text": "x" * (size - packed_size({"text": "x" * 300}) + 300)}
    assert packed_size(input) == size
    model = decided(kind=DecisionKind.REQUEST_CLARIFICATION, message="Which?", input=input)
    assert rejected_field(model) == (None if taken else "input")


@pytest.mark.row("LM-17")
def test_the_input_of_a_clarification_is_an_empty_map_by_default() -> None:
    model = decided(kind=DecisionKind.REQUEST_CLARIFICATION, message="Which?")
    assert model.snapshot()["pending_delegations"]["d1"]["clarification"]["input"] == {}


@pytest.mark.row("LM-18")
@pytest.mark.parametrize(("ms", "taken"), [(0, False), (1, True), (300_000, True), (300_001, False), (True, False)])
def test_a_progress_deadline_is_1_to_300_000_ms(ms: Any, taken: bool) -> None:
    model = SessionModel().ready()
    answer = model.call("expect_progress", id="p", timeout_ms=ms)
    assert error_code(answer) == (None if taken else "invalid_argument")
    assert (model.status()["health"]["expectation"] is not None) is taken


@pytest.mark.row("LM-21")
def test_progress_ids_are_bounded_by_max_records_and_a_known_one_still_works() -> None:
    model = with_limits(max_records=20).ready()
    for number in range(20):
        assert error_code(model.call("expect_progress", id=f"p{number}", timeout_ms=5)) is None
        model.advance(5)
    assert error_code(model.call("expect_progress", id="p20", timeout_ms=5)) == "backpressure"
    assert error_code(model.call("expect_progress", id="p3", timeout_ms=5)) is None


@pytest.mark.row("LM-21")
def test_clarification_attempts_are_bounded_by_max_records() -> None:
    model = with_limits(max_records=20).ready()
    model.delegate("d1")
    for number in range(21):
        ask = ContextDecision(
            DecisionKind.REQUEST_CLARIFICATION, delegation_id="d1", message="?", clarification_key=f"k{number}"
        )
        model.decide(ask)
        model.say("er")
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 20
    assert model.told("policy_rejected").payload["error"]["code"] == "backpressure"


@pytest.mark.row("LM-26")
@pytest.mark.parametrize("outcome", ["completed", "failed", "cancelled"])
def test_an_admission_that_expired_proves_no_failure_of_the_work(outcome: str) -> None:
    model = SessionModel(auto_reply=False, auto_close=False).ready()
    model.delegate("d1")
    model.decide(start("d1"))
    model.advance(1_100)
    request_id = model.request()["id"]
    assert model.status()["jobs"][request_id]["status"] == "uncertain"
    assert not model.events("request_failed")
    model.complete(model.request(), outcome)  # the owner had done it all the while
    assert model.status()["jobs"][request_id]["status"] == outcome


@pytest.mark.row("LM-26")
def test_an_unknown_admission_is_uncertain_and_not_failed() -> None:
    model = SessionModel(auto_reply=False, auto_close=False).ready()
    model.delegate("d1")
    model.decide(start("d1"))
    model.reply(model.last_invoke(Call.SUBMIT), UNKNOWN)
    assert model.status()["jobs"][model.request()["id"]]["status"] == "uncertain"


# ---- LM-02: whatever is exhausted, somebody is told


def subscribers() -> SessionModel:
    model = with_limits(max_subscribers=1).ready()
    model.call("subscribe", subscription_id="a")
    assert error_code(model.call("subscribe", subscription_id="b")) == "backpressure"
    return model


def requests() -> SessionModel:
    model = started(with_limits(max_jobs=1, max_pending_jobs=0))
    model.delegate("d2")
    model.decide(start("d2"))
    assert model.told("policy_rejected").payload["error"]["code"] == "backpressure"
    return model


def corrections() -> SessionModel:
    model = started(with_limits(max_jobs=1, max_pending_jobs=0))
    model.delegate("d2")
    task = only_task(model)
    model.decide(
        ContextDecision(
            DecisionKind.SUPERSEDE_TASK, task_id=task["id"], expected_task_revision=1, input={}, delegation_id="d2"
        )
    )
    assert model.told("failed").payload["cause"] == "correction_queue_exhausted"
    return model


def delegations() -> SessionModel:
    model = with_limits(max_pending_delegations=1).ready()
    model.delegate("d1")
    model.delegate("d2")
    assert model.told("delegation_rejected").payload["error"]["code"] == "backpressure"
    return model


def commands() -> SessionModel:
    model = SessionModel(session_spec(), auto_reply=False).ready()
    update = {"kind": "quiet", "text": "x"}
    answers = [model.call("append_context", update=update, command_id=f"c{number}") for number in range(40)]
    assert error_code(answers[-1]) == "backpressure"
    return model


def waiters() -> SessionModel:
    model = SessionModel(session_spec(), auto_reply=False).ready()
    update = {"kind": "quiet", "text": "x"}
    answers = [model.call("append_context", update=update, command_id="c") for _ in range(33)]
    assert error_code(answers[-1]) == "backpressure"
    return model


def result_size() -> SessionModel:
    model = started()
    model.complete(model.request(), summary="x" * 65_536)
    assert model.told("event_rejected").payload["error"]["details"]["field"] == "result"
    return model


def policy_time() -> SessionModel:
    model = SessionModel().ready()
    model.delegate("d1")
    model.advance(5_000)
    assert model.told("policy_failed").payload["error"]["code"] == "timeout"
    return model


def job_time() -> SessionModel:
    model = started()
    model.advance(60_000)
    assert model.told("job_deadline").payload["status"] == "uncertain"
    return model


def acknowledgment_time() -> SessionModel:
    model = started(SessionModel(auto_acknowledge=False))
    model.complete(model.request(), summary="Done.")
    model.advance(10_000)
    assert model.told("result_delivery").payload["overdue"] is True
    return model


def startup_time() -> SessionModel:
    model = SessionModel()
    model.adapter_ready(Role.CHANNEL)
    model.advance(15_000)
    assert model.told("failed").payload["error"]["code"] == "timeout"
    return model


@pytest.mark.row("LM-02")
@pytest.mark.parametrize(
    "exhaust",
    [
        subscribers,
        requests,
        corrections,
        delegations,
        commands,
        waiters,
        result_size,
        policy_time,
        job_time,
        acknowledgment_time,
        startup_time,
    ],
    ids=lambda function: function.__name__,
)
def test_the_exhaustion_of_a_limit_is_told(exhaust: Any) -> None:
    exhaust()
