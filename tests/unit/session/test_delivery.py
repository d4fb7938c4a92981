"""Results on their way to the provider: held, checked again at hand-over, told as far as they were seen."""

from dataclasses import replace
from typing import Any

import pytest

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.limits import Limits
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.testing.session_model import PROVIDER, SessionModel, session_spec

from .helpers import REFUSED, UNKNOWN, follow_up, on_task, only_task, start, started, supersede


def job(model: SessionModel, request: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = model.status()["jobs"][(request or model.request())["id"]]
    return found


@pytest.mark.row("RD-01", "RD-05", "RD-06", "RD-15")
def test_a_result_is_appended_once_with_the_summary_and_each_stage_is_told() -> None:
    model = started()
    request = model.request()
    model.complete(request, summary="It is on its way.")

    (append,) = model.invoked(Call.APPEND_CONTEXT)
    assert append.arguments == {"update": {"kind": "speakable", "text": "It is on its way.", "delegation_id": "d1"}}
    deliveries = model.events("result_delivery")
    assert [event.payload["stage"] for event in deliveries] == [
        "awaiting_interpretation",
        "awaiting_provider",
        "accepted",
    ]
    assert [event.payload["result_command_id"] for event in deliveries] == [None, append.command_id, append.command_id]
    assert {event.request_id for event in deliveries} == {request["id"]}
    entry = job(model)
    assert (entry["delivery"], entry["result_command_id"]) == ("accepted", append.command_id)
    assert entry["delivery_updated_at_us"] == model.clock.now_us
    assert entry["status"] == "completed"


@pytest.mark.row("RD-03")
def test_a_result_without_a_summary_is_not_applicable_and_its_call_is_resolved() -> None:
    model = started()
    model.complete(model.request())

    assert model.stages(model.request()["id"]) == ["not_applicable"]
    (resolve,) = model.invoked(Call.RESOLVE_DELEGATION)
    assert resolve.arguments == {"delegation_id": "d1", "outcome": "no_content"}
    assert not model.appended_texts()


@pytest.mark.row("RD-17")
def test_a_job_without_a_result_has_no_delivery_value() -> None:
    assert "delivery" not in job(started())


@pytest.mark.row("RD-14", "CP-13")
def test_a_result_that_arrives_while_the_conversation_is_interpreted_is_held() -> None:
    model = started()
    model.say("and another thing")
    model.complete(model.request(), summary="done")
    assert model.stages(model.request()["id"]) == ["awaiting_interpretation"]
    model.decide(error=REFUSED)
    assert not model.appended_texts()
    model.decide()

    assert model.appended_texts() == ["done"]


@pytest.mark.row("CW-09", "ST-07")
@pytest.mark.parametrize("kind", [DecisionKind.WAIT_FOR_CONTEXT, DecisionKind.REQUEST_CLARIFICATION])
def test_a_task_that_waits_or_was_asked_about_holds_results_until_that_is_settled(kind: DecisionKind) -> None:
    model = started()
    model.say("hm, actually")
    fields: dict[str, Any] = (
        {"recheck_after_ms": 2_000} if kind is DecisionKind.WAIT_FOR_CONTEXT else {"message": "Which?"}
    )
    model.decide(on_task(kind, only_task(model), **fields))
    model.complete(model.request(), summary="done")
    model.say("One moment.", speaker="assistant")
    model.decide()
    assert model.status()["interpretation"] == "unresolved"
    assert "done" not in model.appended_texts()

    model.advance(2_000)
    model.say("never mind")
    model.settle()
    assert "done" in model.appended_texts()


@pytest.mark.row("RD-04", "RD-16")
def test_without_acknowledgment_a_submitted_append_is_unconfirmed_and_nothing_means_heard() -> None:
    model = SessionModel(auto_acknowledge=False)
    started(model)
    model.complete(model.request(), summary="done")
    model.event(Role.PROVIDER, "context_submitted", {}, command_id=job(model)["result_command_id"])
    model.event(Role.CHANNEL, "playback_observed", {"stage": "handed_off", "evidence": "handoff"})
    model.say("done", speaker="assistant")

    assert job(model)["delivery"] == "unconfirmed"
    assert "heard" not in repr(model.status())


@pytest.mark.row("GM-03")
@pytest.mark.parametrize(
    ("word", "delivery"),
    [("context_submitted", "unconfirmed"), ("context_acknowledged", "accepted"), ("closed", "unknown")],
)
@pytest.mark.parametrize("played", [False, True])
def test_how_far_a_result_came_is_apart_from_the_work_and_from_what_was_played(
    word: str, delivery: str, played: bool
) -> None:
    model = SessionModel(auto_acknowledge=False, auto_close=False)
    started(model)
    model.complete(model.request(), summary="done")
    assert (job(model)["status"], job(model)["delivery"]) == ("completed", "awaiting_provider")
    if played:
        model.event(Role.CHANNEL, "playback_observed", {"stage": "handed_off", "evidence": "handoff"})
    if word == "closed":
        model.call("close")
        model.event(Role.PROVIDER, word, {"finalization_observed": False})
    else:
        model.event(Role.PROVIDER, word, {}, command_id=job(model)["result_command_id"])

    assert (job(model)["status"], job(model)["delivery"]) == ("completed", delivery)
    assert bool(model.status()["playback"]) is played


@pytest.mark.row("RD-02")
def test_a_rejected_append_is_rejected_and_not_tried_again() -> None:
    model = SessionModel(auto_acknowledge=False)
    started(model)
    model.complete(model.request(), summary="done")
    model.event(Role.PROVIDER, "context_rejected", {"error": REFUSED}, command_id=job(model)["result_command_id"])

    assert job(model)["delivery"] == "rejected"
    model.advance(60_000)
    assert len(model.appended_texts()) == 1


@pytest.mark.row("RD-07", "RD-08", "RA-11")
def test_a_missing_acknowledgment_stays_pending_is_told_once_and_never_retried() -> None:
    model = SessionModel(auto_acknowledge=False)
    started(model)
    model.complete(model.request(), summary="done")
    model.advance(model.spec.limits.ack_timeout_ms)

    assert model.told("result_delivery").payload["overdue"] is True
    assert job(model)["delivery"] == "awaiting_provider"
    model.advance(40_000)
    assert len(model.appended_texts()) == 1
    model.event(Role.PROVIDER, "context_acknowledged", {}, command_id=job(model)["result_command_id"])
    assert job(model)["delivery"] == "accepted"


@pytest.mark.row("RD-07")
def test_what_a_closing_provider_has_not_acknowledged_is_unknown() -> None:
    model = SessionModel(auto_acknowledge=False, auto_close=False)
    started(model)
    model.complete(model.request(), summary="done")
    model.call("close")
    model.event(Role.PROVIDER, "closed", {"finalization_observed": True})

    assert job(model)["delivery"] == "unknown"


@pytest.mark.row("RA-05")
def test_an_acknowledgment_before_the_admission_reply_stays_authoritative() -> None:
    model = SessionModel(auto_reply=False, auto_acknowledge=False)
    started(model)
    model.complete(model.request(), summary="done")
    model.reply(model.invoked(Call.SUBMIT)[0])
    (append,) = model.invoked(Call.APPEND_CONTEXT)
    model.event(Role.PROVIDER, "context_acknowledged", {}, command_id=append.command_id)
    assert job(model)["delivery"] == "accepted"
    model.reply(append, REFUSED)

    assert job(model)["delivery"] == "accepted"


def test_an_append_that_is_refused_at_once_is_rejected_and_one_that_hangs_is_unknown_and_ends_the_session() -> None:
    for error, stage in ((REFUSED, "rejected"), (UNKNOWN, "unknown")):
        model = SessionModel(auto_reply=False, auto_acknowledge=False, auto_close=False)
        started(model)
        model.reply(model.last_invoke(Call.SUBMIT))
        model.complete(model.request(), summary="done")
        model.reply(model.last_invoke(Call.APPEND_CONTEXT), error)

        assert job(model)["delivery"] == stage
        assert bool(model.events("failed")) == (stage == "unknown")


@pytest.mark.row("RD-09", "UN-09")
def test_a_later_correction_does_not_retract_an_accepted_append() -> None:
    model = started()
    old = model.request()
    model.complete(old, summary="Order 124 is delivered.")
    model.say("no, one two three")
    model.decide(supersede(only_task(model)))

    assert job(model, old)["delivery"] == "accepted"
    assert job(model, old)["current"] is False


def blocked(model: SessionModel) -> None:
    """Keep the provider's owner busy, so that what follows waits in its lane."""
    model.auto_reply = False
    model.call("append_context", update={"kind": "quiet", "text": "busy"}, command_id="busy")


def unblock(model: SessionModel) -> None:
    model.auto_reply = True
    model.reply(next(invoke for invoke in model.invoked(Call.APPEND_CONTEXT) if invoke.command_id == "busy"))


@pytest.mark.row("RD-10", "RA-03")
def test_a_queued_result_is_checked_again_just_before_it_is_handed_over() -> None:
    model = started()
    old = model.request()
    blocked(model)
    model.complete(old, summary="Order 124 is delivered.")
    assert job(model, old)["delivery"] == "awaiting_provider"
    model.say("no, one two three")
    model.decide(supersede(only_task(model)))
    unblock(model)

    assert model.appended_texts() == ["busy"]
    assert job(model, old)["delivery"] == "stale"
    assert job(model, old)["result_command_id"] is None


def test_a_queued_result_goes_back_to_being_held_when_new_words_are_being_interpreted() -> None:
    model = started()
    blocked(model)
    model.complete(model.request(), summary="done")
    model.say("wait")
    unblock(model)
    assert model.appended_texts() == ["busy"]
    assert job(model)["delivery"] == "awaiting_interpretation"
    model.decide()

    assert model.appended_texts() == ["busy", "done"]


def cancel_call(model: SessionModel, delegation_id: str = "d1") -> None:
    model.event(Role.PROVIDER, "delegation_cancelled", {"delegation_id": delegation_id})
    model.decide()


@pytest.mark.row("RD-10", "RD-11")
def test_a_cancelled_call_blocks_the_results_of_its_revision() -> None:
    model = started()
    cancel_call(model)
    model.complete(model.request(), summary="done")

    assert model.stages(model.request()["id"]) == ["stale"]
    assert not model.invoked(Call.RESOLVE_DELEGATION)


@pytest.mark.row("RD-11")
def test_a_newer_correction_is_delivered_but_not_over_the_cancelled_call() -> None:
    model = started()
    model.say("no, one two three")
    model.decide(supersede(only_task(model)))
    cancel_call(model)
    model.complete(model.request(), summary="done")

    (append,) = model.invoked(Call.APPEND_CONTEXT)
    assert append.arguments["update"]["delegation_id"] is None


@pytest.mark.row("BK-14", "BK-15")
def test_an_obsolete_result_leaves_the_call_to_the_replacement_also_while_that_is_queued() -> None:
    model = started()
    old = model.request()
    model.say("no, one two three")
    model.decide(supersede(only_task(model)))
    model.complete(old, summary="obsolete")
    assert not model.invoked(Call.RESOLVE_DELEGATION)
    model.complete(model.request(), summary="right")

    assert model.invoked(Call.APPEND_CONTEXT)[0].arguments["update"]["delegation_id"] == "d1"


@pytest.mark.row("BK-16")
def test_a_call_that_only_an_obsolete_request_uses_is_resolved_as_superseded_once() -> None:
    model = started()
    old = model.request()
    model.delegate("d2")
    model.decide(replace(supersede(only_task(model)), delegation_id="d2"))
    model.complete(old, summary="obsolete")

    assert [invoke.arguments for invoke in model.invoked(Call.RESOLVE_DELEGATION)] == [
        {"delegation_id": "d1", "outcome": "superseded"}
    ]
    assert model.request()["delegation_id"] == "d2"
    assert model.snapshot()["pending_delegations"]["d2"]["task_revision"] == 2


@pytest.mark.row("CM-20", "TY-15", "CD-05")
def test_without_a_call_nothing_is_made_up() -> None:
    model = started()
    model.complete(model.request(), summary="status")
    model.say("and the items?")
    model.decide(
        ContextDecision(
            DecisionKind.START_TASK,
            anchor_task_id=only_task(model)["id"],
            expected_anchor_revision=1,
            input={"operation": "items"},
        )
    )
    request = model.request()
    model.complete(request, summary="items")

    assert request["delegation_id"] is None
    assert model.invoked(Call.APPEND_CONTEXT)[-1].arguments["update"]["delegation_id"] is None


@pytest.mark.row("RD-12", "RD-13", "CD-18", "EV-11")
def test_a_later_call_for_known_work_is_answered_from_what_the_work_is_when_the_answer_leaves() -> None:
    model = started()
    model.delegate("d2")
    blocked(model)
    model.decide(on_task(DecisionKind.ASSOCIATE_DELEGATION, only_task(model), delegation_id="d2"))
    model.complete(model.request(), summary="It is on its way.")
    unblock(model)

    reply = model.invoked(Call.APPEND_CONTEXT)[1].arguments["update"]
    assert (reply["kind"], reply["delegation_id"]) == ("quiet", "d2")
    assert "completed" in reply["text"]
    assert "It is on its way." in reply["text"]
    assert model.told("delegation_associated").payload == {
        "delegation_id": "d2",
        "task_id": model.request()["task_id"],
        "task_revision": 1,
    }
    assert len(model.invoked(Call.SUBMIT)) == 1


@pytest.mark.row("RD-13")
@pytest.mark.parametrize("change", ["cancelled", "superseded"])
def test_an_association_that_was_cancelled_or_superseded_is_not_sent(change: str) -> None:
    model = started()
    model.delegate("d2")
    blocked(model)
    model.decide(on_task(DecisionKind.ASSOCIATE_DELEGATION, only_task(model), delegation_id="d2"))
    if change == "cancelled":
        cancel_call(model, "d2")
    else:
        model.say("no")
        model.decide(supersede(only_task(model)))
    unblock(model)

    assert model.appended_texts() == ["busy"]


def test_a_provider_without_quiet_updates_has_the_associated_call_resolved() -> None:
    model = SessionModel()
    model.capabilities[Role.PROVIDER] = replace(PROVIDER, context_update_kinds=PROVIDER.context_update_kinds[1:2])
    started(model)
    model.delegate("d2")
    model.decide(on_task(DecisionKind.ASSOCIATE_DELEGATION, only_task(model), delegation_id="d2"))

    assert model.last_invoke(Call.RESOLVE_DELEGATION).arguments == {"delegation_id": "d2", "outcome": "no_content"}


@pytest.mark.row("CP-19")
def test_results_held_by_a_rejected_batch_are_released_by_a_later_good_one() -> None:
    model = started()
    model.say("hm")
    model.complete(model.request(), summary="done")
    model.decide(start("nowhere"))
    assert model.events("policy_rejected")
    assert not model.appended_texts()
    model.call("update_context", context={"page": 2})
    model.decide()

    assert model.appended_texts() == ["done"]


def test_the_record_of_a_result_that_waits_for_its_turn_is_not_given_up() -> None:
    model = SessionModel(session_spec(Limits(max_records=3, max_jobs=1, max_pending_jobs=1)))
    started(model)
    anchor = only_task(model)
    blocked(model)
    model.complete(model.request(), summary="the first")
    for _ in range(4):
        model.say("and the next")
        model.decide(follow_up(anchor))
        model.reply(model.last_invoke(Call.SUBMIT))
        model.complete(model.request())
    assert len(model.invoked(Call.SUBMIT)) == 5
    unblock(model)

    assert model.appended_texts() == ["busy", "the first"]
