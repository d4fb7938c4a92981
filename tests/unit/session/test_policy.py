"""Interpretation: one run at a time, on one state, retried once, never losing a trigger."""

import pytest

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.errors import InvalidArgument
from parlora.limits import Limits
from parlora.session import effects, inputs
from parlora.session.effects import Call
from parlora.session.policy_runs import WORKER_RESPAWN_MS
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import REFUSED, only_task, start, started

TIMEOUT_MS = Limits().policy_timeout_ms


def triggers(model: SessionModel) -> list[str]:
    return [str(run.trigger.kind) for run in model.of(effects.RunPolicy)]


@pytest.mark.row("CP-05", "CP-07", "CP-03")
def test_a_run_gets_the_whole_snapshot_and_its_trigger() -> None:
    model = SessionModel().ready()
    model.say("what about order 124")
    model.decide()
    model.delegate("d1")

    run = model.last(effects.RunPolicy)
    assert (str(run.trigger.kind), run.trigger.delegation_id, run.trigger.task_id) == ("delegation", "d1", None)
    assert run.snapshot.revision == model.snapshot()["revision"]
    assert set(run.snapshot.pending_delegations) == {"d1"}
    assert run.snapshot.transcripts[0]["delta"] == "what about order 124"


@pytest.mark.row("CP-08", "CP-07")
@pytest.mark.parametrize("change", ["caption", "speech", "context", "delegation"])
def test_decisions_about_an_older_state_are_discarded_and_made_again_on_a_fresh_snapshot(change: str) -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    if change == "caption":
        model.say("no, wait")
    elif change == "speech":
        model.event(Role.PROVIDER, "provider_speech", {"status": "speaking"})
    elif change == "context":
        model.call("update_context", context={"page": 2})
    else:
        model.delegate("d2")
    model.decide(start("d1"))
    assert not model.snapshot()["tasks"]

    run = model.last(effects.RunPolicy)
    assert (str(run.trigger.kind), run.trigger.delegation_id) == ("delegation", "d1")
    assert run.snapshot.revision == model.snapshot()["revision"]
    model.decide(start("d1"))
    assert len(model.snapshot()["tasks"]) == 1


@pytest.mark.row("CP-21")
def test_only_a_change_of_the_providers_speech_revises_the_context() -> None:
    model = SessionModel().ready()
    before = model.snapshot()["revision"]
    model.event(Role.PROVIDER, "provider_speech", {"status": "speaking"})
    revision = model.snapshot()["revision"]
    assert revision == before + 1
    model.event(Role.PROVIDER, "provider_speech", {"status": "speaking"})

    assert model.snapshot()["revision"] == revision
    assert model.snapshot()["provider_speech"] == "speaking"


@pytest.mark.row("CP-21")
def test_a_judgment_made_on_the_older_speech_state_is_stale() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    model.event(Role.PROVIDER, "provider_speech", {"status": "speaking"})
    model.decide(start("d1"))

    assert not model.invoked(Call.SUBMIT)
    assert model.last(effects.RunPolicy).snapshot.provider_speech == "speaking"


def test_triggers_wait_while_a_run_is_under_way_and_equal_ones_are_one() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    for word in ("one", "two", "four"):
        model.say(word)
    model.delegate("d2")
    model.call("update_context", context={})
    assert len(model.of(effects.RunPolicy)) == 1
    model.settle()

    runs = [(str(run.trigger.kind), run.trigger.delegation_id) for run in model.of(effects.RunPolicy)]
    assert runs == [
        ("delegation", "d1"),
        ("delegation", "d1"),
        ("transcript_updated", None),
        ("delegation", "d2"),
        ("application_context_updated", None),
    ]


@pytest.mark.row("SL-47", "CP-02")
def test_a_changed_application_context_is_interpreted() -> None:
    model = SessionModel().ready()
    model.call("update_context", context={"customer": "Ada"})

    assert triggers(model) == ["application_context_updated"]
    assert model.last(effects.RunPolicy).snapshot.application_context == {"customer": "Ada"}


@pytest.mark.row("CP-04", "TY-09", "TY-29")
def test_a_cancelled_call_is_in_the_snapshot_before_it_is_interpreted_and_starts_nothing_any_more() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    model.decide()
    model.event(Role.PROVIDER, "delegation_cancelled", {"delegation_id": "d1"})

    run = model.last(effects.RunPolicy)
    assert str(run.trigger.kind) == "delegation_cancelled"
    assert run.snapshot.pending_delegations["d1"]["status"] == "cancelled"
    model.decide(start("d1"))
    assert model.told("policy_rejected").payload["error"]["code"] == "invalid_argument"
    assert not model.invoked(Call.SUBMIT)


def test_a_cancelled_call_of_running_work_stops_nothing() -> None:
    model = started()
    model.event(Role.PROVIDER, "delegation_cancelled", {"delegation_id": "d1"})
    model.settle()

    assert not model.invoked(Call.CANCEL)
    assert only_task(model)["status"] == "submitted"


@pytest.mark.row("CP-12", "CP-16", "CP-18")
def test_a_run_that_takes_too_long_is_told_its_worker_replaced_and_tried_once_more() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    model.advance(TIMEOUT_MS)

    payload = model.told("policy_failed").payload
    assert (payload["attempt"], payload["retry"], payload["error"]["code"]) == (1, True, "timeout")
    assert len(model.of(effects.ReplacePolicy)) == 1
    assert len(model.of(effects.RunPolicy)) == 1
    late = model.last(effects.RunPolicy).run_id
    model.feed(inputs.ProcessDown, role=Role.POLICY, cause="signal 9", asked=True)
    model.feed(inputs.PolicyUp)
    assert len(model.of(effects.RunPolicy)) == 2
    model.feed(inputs.PolicyReplied, run_id=late, decisions=(start("d1"),))
    assert not model.invoked(Call.SUBMIT)
    model.advance(TIMEOUT_MS - 1)
    model.decide(start("d1"))

    assert len(model.invoked(Call.SUBMIT)) == 1
    assert not model.events("failed")


@pytest.mark.row("CP-15", "CP-16")
def test_a_second_failure_in_a_row_ends_the_session_and_leaves_work_uncertain() -> None:
    model = started()
    model.say("hello")
    model.advance(TIMEOUT_MS)
    model.feed(inputs.PolicyUp)
    model.advance(TIMEOUT_MS)

    attempts = [(event.payload["attempt"], event.payload["retry"]) for event in model.events("policy_failed")]
    assert attempts == [(1, True), (2, False)]
    assert model.told("failed").payload["cause"] == "policy_failed"
    closed = model.told("closed").payload
    assert list(closed["jobs"]) == [model.request()["id"]]
    assert len(model.invoked(Call.SUBMIT)) == 1
    assert len(model.of(effects.ReplacePolicy)) == 1


def raising(*_: object) -> list[ContextDecision]:
    raise InvalidArgument("no such option", field="options.x")


@pytest.mark.row("CP-01", "CP-15")
def test_a_policy_that_raises_has_failed() -> None:
    model = SessionModel(policy=raising).ready()
    model.delegate("d1")

    assert [event.payload["attempt"] for event in model.events("policy_failed")] == [1, 2]
    assert model.told("closed").payload["cause"] == "policy_failed"


@pytest.mark.row("CP-12", "CP-14")
def test_only_an_applied_batch_restores_the_retry() -> None:
    model = SessionModel().ready()
    model.say("one")
    model.decide(error=REFUSED)
    model.say("two")
    model.settle()
    model.say("three")
    model.decide(error=REFUSED)
    assert [event.payload["attempt"] for event in model.events("policy_failed")] == [1, 1]
    model.say("four")
    model.decide(error=REFUSED)

    assert [event.payload["attempt"] for event in model.events("policy_failed")] == [1, 1, 2]
    assert model.told("failed").payload["cause"] == "policy_failed"


@pytest.mark.row("CP-12")
def test_the_retry_takes_the_newest_trigger_and_the_failed_one_is_not_lost() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    model.say("and now")
    model.decide(error=REFUSED)
    assert triggers(model)[-1] == "transcript_updated"
    model.decide()

    assert triggers(model)[-1] == "delegation"


@pytest.mark.row("CP-17")
def test_a_rejected_batch_is_no_failure_and_is_not_tried_again_by_itself() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    model.decide(start("nowhere"))
    assert model.told("policy_rejected").payload["error"]["code"] == "invalid_argument"
    assert not model.events("policy_failed")
    assert len(model.of(effects.RunPolicy)) == 1
    assert model.status()["interpretation"] == "unresolved"
    model.say("hello?")
    model.decide(start("d1"))

    assert len(model.invoked(Call.SUBMIT)) == 1


@pytest.mark.row("CP-17")
def test_rejected_batches_use_up_no_attempt() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    for word in ("one", "two", "three"):
        model.decide(start("nowhere"))
        model.say(word)
    model.decide(error=REFUSED)

    assert [(e.payload["attempt"], e.payload["retry"]) for e in model.events("policy_failed")] == [(1, True)]
    assert not model.events("failed")


@pytest.mark.row("CP-12")
def test_a_worker_that_dies_with_a_run_is_a_failed_attempt() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    model.feed(inputs.ProcessDown, role=Role.POLICY, cause="signal 11")
    assert model.told("policy_failed").payload["attempt"] == 1
    model.feed(inputs.PolicyUp)
    model.decide(start("d1"))

    assert len(model.invoked(Call.SUBMIT)) == 1
    assert not model.of(effects.ReplacePolicy)


def test_a_worker_that_dies_idle_is_no_failure_unless_none_comes_up_again() -> None:
    model = SessionModel().ready()
    model.feed(inputs.ProcessDown, role=Role.POLICY, cause="exit 0")
    assert not model.events("policy_failed")
    model.delegate("d1")
    assert not model.of(effects.RunPolicy)
    model.advance(WORKER_RESPAWN_MS)

    assert model.told("failed").payload["cause"] == "policy_failed"


@pytest.mark.row("CP-11")
def test_an_empty_batch_does_nothing() -> None:
    model = SessionModel().ready()
    model.delegate("d1")
    before = model.snapshot()
    model.decide()

    assert model.snapshot() == before
    assert model.status()["interpretation"] == "unresolved"


@pytest.mark.row("CP-22")
def test_without_a_decision_no_words_and_no_call_change_work() -> None:
    model = started()
    model.say("cancel that")
    model.delegate("d2")
    model.settle()

    assert len(model.invoked(Call.SUBMIT)) == 1
    assert not model.invoked(Call.CANCEL)
    assert only_task(model)["revision"] == 1


@pytest.mark.row("ST-05", "ST-06", "ST-08")
def test_interpretation_is_running_settled_or_unresolved() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1))).ready()
    assert model.status()["interpretation"] == "settled"
    model.delegate("d1")
    assert model.status()["interpretation"] == "running"
    model.decide(ContextDecision(DecisionKind.WAIT_FOR_CONTEXT, delegation_id="d1"))
    assert model.status()["interpretation"] == "unresolved"
    model.say("order 124")
    model.decide(start("d1"))

    assert model.status()["interpretation"] == "settled"
    assert model.status()["jobs"][model.request()["id"]]["status"] == "submitted"
