"""`wait_for_context` and `request_clarification`: one timer a target, one question a key, nothing claimed heard."""

from typing import Any

import pytest

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.limits import Limits
from parlora.session import effects
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import REFUSED, UNKNOWN, on_task, only_task, start, started, supersede


def wait(delegation_id: str = "d1", **fields: Any) -> ContextDecision:
    return ContextDecision(DecisionKind.WAIT_FOR_CONTEXT, delegation_id=delegation_id, **fields)


def ask(delegation_id: str = "d1", message: str = "Which order?", **fields: Any) -> ContextDecision:
    return ContextDecision(DecisionKind.REQUEST_CLARIFICATION, delegation_id=delegation_id, message=message, **fields)


def pending(model: SessionModel | None = None) -> SessionModel:
    """A ready session with one call to be interpreted."""
    model = (model or SessionModel()).ready()
    model.delegate("d1")
    return model


def again(model: SessionModel, *batch: ContextDecision) -> None:
    """The caller says more, and the policy decides once more."""
    model.say("er")
    model.decide(*batch)


def entry(model: SessionModel) -> dict[str, Any]:
    found: dict[str, Any] = model.snapshot()["pending_delegations"]["d1"]
    return found


def expiries(model: SessionModel) -> int:
    return [str(run.trigger.kind) for run in model.of(effects.RunPolicy)].count("context_wait_expired")


@pytest.mark.row("CW-08", "TY-17", "EV-10")
def test_a_wait_is_in_the_snapshot_and_so_is_its_expiry() -> None:
    model = pending()
    model.decide(wait(recheck_after_ms=2_000, recheck_key="k"))
    due_us = model.clock.now_us + 2_000_000
    assert entry(model)["context_wait"] == {"due_at_us": due_us, "expired": False, "recheck_key": "k"}
    assert model.told("context_wait_started").payload["due_at_us"] == due_us
    model.advance(2_000)

    run = model.last(effects.RunPolicy)
    assert (str(run.trigger.kind), run.trigger.delegation_id) == ("context_wait_expired", "d1")
    assert run.snapshot.pending_delegations["d1"]["context_wait"]["expired"] is True


@pytest.mark.row("CW-02", "CW-04")
@pytest.mark.parametrize("key", ["k", None])
def test_a_repeated_key_resets_no_timer_also_not_after_expiry(key: str | None) -> None:
    model = pending()
    repeated = wait(recheck_after_ms=1_000, recheck_key=key)
    model.decide(repeated)
    model.advance(600)
    again(model, repeated)
    model.advance(400)
    assert expiries(model) == 1
    model.decide(repeated)
    again(model, repeated)
    model.advance(5_000)

    assert expiries(model) == 1


@pytest.mark.row("CW-03", "CW-06")
def test_another_key_replaces_the_timer() -> None:
    model = pending()
    model.decide(wait(recheck_after_ms=1_000, recheck_key="a"))
    model.advance(600)
    again(model, wait(recheck_after_ms=1_000, recheck_key="b"))
    model.advance(600)
    assert expiries(model) == 0
    model.advance(400)

    assert expiries(model) == 1
    assert len([timer for timer in model.state.timers.values() if timer.kind == "wait"]) == 0


@pytest.mark.row("CW-01", "CW-05")
def test_without_a_delay_no_timer_changes() -> None:
    model = pending()
    model.decide(wait())
    assert "context_wait" not in entry(model)
    again(model, wait(recheck_after_ms=1_000))
    again(model, wait(recheck_key="other"))
    model.advance(1_000)

    assert expiries(model) == 1


@pytest.mark.row("CW-07")
def test_claiming_cancelling_or_revising_the_target_ends_its_timer() -> None:
    model = pending()
    model.decide(wait(recheck_after_ms=1_000))
    again(model, start("d1"))
    assert "context_wait" not in entry(model)
    assert not [timer for timer in model.state.timers.values() if timer.kind == "wait"]
    again(model, on_task(DecisionKind.WAIT_FOR_CONTEXT, only_task(model), recheck_after_ms=1_000))
    again(model, supersede(only_task(model)))
    assert "context_wait" not in only_task(model)
    model.delegate("d2")
    model.decide(wait("d2", recheck_after_ms=1_000))
    model.event(Role.PROVIDER, "delegation_cancelled", {"delegation_id": "d2"})
    model.settle()
    model.advance(2_000)

    assert expiries(model) == 0


@pytest.mark.row("CW-04")
def test_a_new_revision_may_be_rechecked_again() -> None:
    model = started()
    again(model, on_task(DecisionKind.WAIT_FOR_CONTEXT, only_task(model), recheck_after_ms=100))
    model.advance(100)
    model.settle()
    again(model, supersede(only_task(model)))
    again(model, on_task(DecisionKind.WAIT_FOR_CONTEXT, only_task(model), recheck_after_ms=100))
    model.advance(100)

    assert expiries(model) == 2
    assert model.last(effects.RunPolicy).trigger.task_id == only_task(model)["id"]


@pytest.mark.row("CL-01", "CL-02", "CL-04", "CL-19", "CL-20", "TY-34")
def test_a_question_is_spoken_and_noted_as_submitted() -> None:
    model = pending()
    model.decide(ask(input={"missing": ["order"]}))
    (invoke,) = model.invoked(Call.APPEND_CONTEXT)
    assert invoke.arguments == {"update": {"kind": "speakable", "text": "Which order?", "delegation_id": None}}
    assert entry(model)["clarification"] == {
        "context_revision": model.snapshot()["revision"],
        "command_id": invoke.command_id,
        "delivery": "unconfirmed",
        "message": "Which order?",
        "input": {"missing": ["order"]},
    }
    requested = model.told("clarification_requested")
    assert (requested.command_id, requested.payload["delegation_id"]) == (invoke.command_id, "d1")
    model.say("one two four")
    assert model.snapshot()["transcripts"][0]["arrival_order"] > entry(model)["clarification"]["context_revision"]


@pytest.mark.row("CL-09", "CL-11", "CL-19", "CL-13")
def test_the_marker_is_there_before_the_reply_and_the_event_only_after_it() -> None:
    model = pending(SessionModel(auto_reply=False, auto_acknowledge=False))
    model.decide(ask())
    assert "clarification" in entry(model)
    assert entry(model)["clarification"]["input"] == {}
    assert not model.events("clarification_requested")
    invoke = model.last_invoke(Call.APPEND_CONTEXT)
    model.reply(invoke)
    assert "clarification" in entry(model)
    assert model.events("clarification_requested")
    model.event(Role.PROVIDER, "context_acknowledged", {}, command_id=invoke.command_id)
    assert entry(model)["clarification"]["delivery"] == "unconfirmed"


@pytest.mark.row("CL-10")
def test_a_refused_question_leaves_no_mark_and_may_be_asked_again() -> None:
    model = pending(SessionModel(auto_reply=False))
    model.decide(ask())
    model.reply(model.last_invoke(Call.APPEND_CONTEXT), REFUSED)
    assert "clarification" not in entry(model)
    assert not model.events("clarification_requested")
    again(model, ask())

    assert len(model.invoked(Call.APPEND_CONTEXT)) == 2


@pytest.mark.row("CL-08")
def test_an_uncertain_or_later_rejected_question_stays_asked() -> None:
    model = pending(SessionModel(auto_acknowledge=False))
    model.decide(ask())
    model.event(
        Role.PROVIDER,
        "context_rejected",
        {"error": REFUSED},
        command_id=model.last_invoke(Call.APPEND_CONTEXT).command_id,
    )
    again(model, ask())
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 1

    model = pending(SessionModel(auto_reply=False, auto_close=False))
    model.decide(ask())
    model.reply(model.last_invoke(Call.APPEND_CONTEXT), UNKNOWN)
    assert "clarification" in entry(model)


@pytest.mark.row("CL-05", "CL-06", "CL-07")
def test_a_question_is_asked_once_per_target_revision_and_key() -> None:
    model = pending()
    model.decide(ask())
    again(model, ask(message="Which order, please?"))
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 1
    again(model, ask(clarification_key="a"))
    again(model, ask(clarification_key="b"))
    again(model, ask(clarification_key="a"))
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 3
    again(model, start("d1"))
    question = on_task(DecisionKind.REQUEST_CLARIFICATION, only_task(model), message="Sure?")
    again(model, question)
    again(model, question)
    again(model, supersede(only_task(model)))
    again(model, on_task(DecisionKind.REQUEST_CLARIFICATION, only_task(model), message="Sure?"))

    assert len(model.invoked(Call.APPEND_CONTEXT)) == 5


@pytest.mark.row("CL-12")
def test_questions_are_bounded() -> None:
    model = pending(SessionModel(session_spec(Limits(max_records=2, max_jobs=1, max_pending_jobs=1))))
    model.decide(ask(clarification_key="a"))
    again(model, ask(clarification_key="b"))
    again(model, ask(clarification_key="c"))

    assert model.told("policy_rejected").payload["error"]["code"] == "backpressure"
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 2


def queued_question() -> SessionModel:
    """A question that waits in the provider's lane behind a slow command."""
    model = SessionModel(auto_reply=False).ready()
    model.call("append_context", update={"kind": "quiet", "text": "busy"}, command_id="busy")
    model.delegate("d1")
    model.decide(ask())
    assert model.appended_texts() == ["busy"]
    return model


def unblock(model: SessionModel) -> None:
    model.reply(model.invoked(Call.APPEND_CONTEXT)[0])


@pytest.mark.row("CL-14", "CL-15", "CL-16")
@pytest.mark.parametrize("change", ["words", "speech"])
def test_new_context_takes_a_waiting_question_back_and_asks_the_policy_again(change: str) -> None:
    model = queued_question()
    if change == "words":
        model.say("one two four")
        model.settle()
    else:
        model.event(Role.PROVIDER, "provider_speech", {"status": "speaking"})
    unblock(model)

    assert model.appended_texts() == ["busy"]
    assert "clarification" not in entry(model)
    run = model.last(effects.RunPolicy)
    assert (str(run.trigger.kind), run.trigger.delegation_id) == ("context_wait_expired", "d1")
    model.decide(ask())
    assert model.appended_texts() == ["busy", "Which order?"]


@pytest.mark.row("CL-14", "CL-17")
@pytest.mark.parametrize("change", ["claimed", "cancelled", "replaced"])
def test_a_waiting_question_is_dropped_when_its_target_is_settled_or_another_takes_its_place(change: str) -> None:
    model = queued_question()
    if change == "claimed":
        again(model, start("d1"))
    elif change == "cancelled":
        model.event(Role.PROVIDER, "delegation_cancelled", {"delegation_id": "d1"})
        model.settle()
    else:
        again(model, ask(message="Status or items?", clarification_key="next"))
    model.auto_reply = True
    unblock(model)

    assert model.appended_texts() == (["busy", "Status or items?"] if change == "replaced" else ["busy"])


@pytest.mark.row("CL-18", "BK-27", "BK-06", "TY-33")
def test_a_question_of_the_backend_reaches_the_policy_and_the_task() -> None:
    model = started()
    request = model.request()
    payload = {"task_revision": 1, "question": "Which address?", "choices": 2}
    model.event(Role.BACKEND, "request_clarification", payload, request_id=request["id"])

    run = model.last(effects.RunPolicy)
    assert (str(run.trigger.kind), run.trigger.request_id, run.trigger.task_id) == (
        "backend_clarification",
        request["id"],
        request["task_id"],
    )
    assert run.snapshot.tasks[request["task_id"]]["clarification"] == payload
