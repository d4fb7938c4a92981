"""What the backend tells: matched to our records or refused."""

from typing import Any

import pytest

from parlora.context.decision import DecisionKind
from parlora.limits import Limits
from parlora.session import effects
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.session.uncertainty import NOTICE
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import REFUSED, on_task, only_task, start, started, supersede


def job(model: SessionModel, request: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = model.status()["jobs"][(request or model.request())["id"]]
    return found


def tell(model: SessionModel, type: str, payload: dict[str, Any], request_id: str | None = None) -> None:
    model.event(Role.BACKEND, type, payload, request_id=request_id or model.request()["id"])


@pytest.mark.row("BK-07", "TY-12", "ST-14")
@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_an_outcome_ends_the_request_and_its_task_and_frees_the_slot(status: str) -> None:
    model = started()
    model.advance(5)
    model.complete(model.request(), status)

    assert (job(model)["status"], job(model)["completed_at_us"]) == (status, model.clock.now_us)
    assert only_task(model)["status"] == status
    assert not model.state.work.running
    assert model.told(f"request_{status}", "backend").payload["result"]["status"] == status
    assert [(mirror.request_id, mirror.finished) for mirror in model.of(effects.Mirror)] == [
        (model.request()["id"], False),
        (model.request()["id"], True),
    ]


@pytest.mark.row("BK-08", "CM-16")
@pytest.mark.parametrize(
    "wrong",
    [
        {"request_id": "other"},
        {"task_id": "other"},
        {"task_revision": 2},
        {"status": "failed"},
        {"status": "sold"},
        {"summary": 4},
        {"facts": None},
    ],
)
def test_a_result_that_does_not_match_its_event_is_refused_and_the_request_goes_on(wrong: dict[str, Any]) -> None:
    model = started()
    tell(model, "request_completed", {"result": {**result(model), **wrong}})

    rejected = model.told("event_rejected")
    assert (rejected.request_id, rejected.payload["type"]) == (model.request()["id"], "request_completed")
    assert not model.events("request_completed", "backend")
    assert job(model)["status"] == "submitted"
    assert not model.appended_texts()


def result(model: SessionModel) -> dict[str, Any]:
    request = model.request()
    return {
        "request_id": request["id"],
        "task_id": request["task_id"],
        "task_revision": request["task_revision"],
        "status": "completed",
        "facts": {},
        "summary": "done",
        "metadata": {},
    }


@pytest.mark.row("BK-08", "LM-19")
def test_an_event_without_a_usable_result_or_of_nobodys_request_is_refused() -> None:
    model = started()
    big = {**result(model), "facts": {"text": "x" * 65_536}}
    tell(model, "request_completed", {})
    tell(model, "request_completed", {"result": big})
    tell(model, "request_completed", {"result": result(model)}, request_id="nobody")
    tell(model, "request_started", {"task_revision": 7})

    assert len(model.events("event_rejected")) == 4
    assert job(model)["status"] == "submitted"


def test_only_the_first_outcome_of_a_request_counts() -> None:
    model = started()
    model.complete(model.request(), summary="first")
    model.complete(model.request(), "failed", summary="second")

    assert job(model)["status"] == "completed"
    assert model.appended_texts() == ["first"]
    assert model.told("event_rejected").payload["error"]["code"] == "conflict"


@pytest.mark.row("BK-08")
def test_a_request_that_was_never_handed_over_has_no_outcome_of_the_backends() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1)))
    started(model)
    model.delegate("d2")
    model.decide(start("d2"))
    queued = next(key for key, entry in model.status()["jobs"].items() if entry["status"] == "queued")
    tell(model, "request_completed", {"result": {**result(model), "request_id": queued}}, request_id=queued)

    assert model.status()["jobs"][queued]["status"] == "queued"


@pytest.mark.row("BK-04", "ST-13", "ST-14", "CM-21")
def test_admission_and_execution_are_apart() -> None:
    model = SessionModel(auto_reply=False)
    started(model)
    assert (job(model)["status"], job(model)["admission"]) == ("submitted", "started")
    assert "started_at_us" not in job(model)
    model.advance(3)
    tell(model, "request_started", {"task_revision": 1})
    assert (job(model)["admission"], job(model)["started_at_us"]) == ("started", model.clock.now_us)
    model.reply(model.last_invoke(Call.SUBMIT))

    assert job(model)["admission"] == "settled"


@pytest.mark.row("ST-13")
def test_a_submission_that_waits_for_the_owner_is_pending() -> None:
    model = SessionModel(auto_reply=False)
    started(model)
    model.delegate("d2")
    model.decide(start("d2"))

    assert [entry["admission"] for entry in model.status()["jobs"].values()] == ["started", "pending"]


@pytest.mark.row("BK-05", "BK-26", "TY-16")
def test_progress_is_kept_on_the_task_of_the_current_revision() -> None:
    model = started()
    old = model.request()
    tell(model, "request_progress", {"task_revision": 1, "facts": {"found": 2}, "summary": None, "share": 0.5})
    assert only_task(model)["progress"] == {"task_revision": 1, "facts": {"found": 2}, "share": 0.5}
    model.say("no")
    model.decide(supersede(only_task(model)))
    tell(model, "request_progress", {"task_revision": 1, "summary": "old"}, request_id=old["id"])

    assert "progress" not in only_task(model)


@pytest.mark.row("BK-03")
def test_a_failed_request_is_no_failed_adapter() -> None:
    model = started()
    model.complete(model.request(), "failed", summary="no such order")

    assert not model.events("failed")
    assert model.status()["status"] == "ready"
    assert model.appended_texts() == ["no such order"]


@pytest.mark.row("UN-01", "UN-02", "UN-03", "UN-06", "TY-13", "BK-24")
@pytest.mark.parametrize("how", ["told", "deadline"])
def test_uncertain_work_keeps_its_slot_and_is_explained_once_after_interpretation_settles(how: str) -> None:
    model = started()
    model.say("hello?")
    if how == "told":
        tell(model, "request_uncertain", {"task_revision": 1, "reason": "observer_lost"})
        assert not model.appended_texts()
        model.decide()
    else:
        model.decide()
        model.advance(model.spec.limits.job_timeout_ms)
        assert model.told("job_deadline").request_id == model.request()["id"]

    assert only_task(model)["status"] == "uncertain"
    assert job(model)["status"] == "uncertain"
    assert job(model)["uncertainty_reason"] == ("observer_lost" if how == "told" else "job_deadline")
    assert model.state.work.running == {model.request()["id"]}
    assert model.appended_texts() == [NOTICE]
    model.say("hello?")
    model.settle()
    assert model.appended_texts() == [NOTICE]
    lowered = NOTICE.lower()
    assert not any(word in lowered for word in ("complete", "cancel", "undo", "revers", "still", "running", "work"))


@pytest.mark.row("UN-05", "UN-09", "TY-13")
def test_a_verified_result_after_the_notice_is_still_told() -> None:
    model = started()
    tell(model, "request_uncertain", {"task_revision": 1, "reason": "lost"})
    assert job(model)["uncertainty_delivery"] == "accepted"
    model.complete(model.request(), summary="it is done")

    assert model.appended_texts() == [NOTICE, "it is done"]
    assert job(model)["uncertainty_delivery"] == "accepted"
    assert (job(model)["status"], only_task(model)["status"]) == ("completed", "completed")


@pytest.mark.row("UN-07", "UN-08")
@pytest.mark.parametrize("where", ["held", "queued"])
def test_a_verified_result_before_the_notice_suppresses_it(where: str) -> None:
    model = started()
    if where == "held":
        model.say("hello?")
    else:
        model.auto_reply = False
        model.call("append_context", update={"kind": "quiet", "text": "busy"}, command_id="busy")
    tell(model, "request_uncertain", {"task_revision": 1, "reason": "lost"})
    model.complete(model.request(), summary="it is done")
    if where == "held":
        model.settle()
    else:
        model.auto_reply = True
        model.reply(model.last_invoke(Call.APPEND_CONTEXT))

    assert NOTICE not in model.appended_texts()
    assert model.appended_texts()[-1] == "it is done"
    assert job(model)["uncertainty_delivery"] == "superseded"
    assert job(model)["delivery"] == "accepted"


@pytest.mark.row("UN-04")
def test_an_obsolete_notice_is_suppressed() -> None:
    model = started()
    old = model.request()
    model.say("no, one two three")
    tell(model, "request_uncertain", {"task_revision": 1, "reason": "lost"})
    model.decide(supersede(only_task(model)))

    assert not model.appended_texts()
    assert job(model, old)["uncertainty_delivery"] == "stale"


@pytest.mark.row("UN-06", "UN-04")
def test_a_notice_has_its_own_delivery_and_is_not_tried_again() -> None:
    model = SessionModel(auto_acknowledge=False)
    started(model)
    tell(model, "request_uncertain", {"task_revision": 1, "reason": "lost " * 100})
    assert len(job(model)["uncertainty_reason"]) == 256
    assert job(model)["uncertainty_delivery"] == "awaiting_provider"
    assert "delivery" not in job(model)
    command_id = model.last_invoke(Call.APPEND_CONTEXT).command_id
    model.event(Role.PROVIDER, "context_rejected", {"error": REFUSED}, command_id=command_id)
    model.advance(30_000)

    assert job(model)["uncertainty_delivery"] == "rejected"
    assert len(model.appended_texts()) == 1


@pytest.mark.row("BK-09")
def test_the_words_on_updates_and_cancellations_are_passed_on_as_they_came() -> None:
    model = started()
    model.say("stop")
    model.decide(on_task(DecisionKind.CANCEL_TASK, only_task(model)))
    command_id = model.last_invoke(Call.CANCEL).command_id
    payload = {"task_revision": 1, "outcome": "advised", "error": None, "agent": "x"}
    model.event(
        Role.BACKEND, "cancellation_requested", payload, command_id=command_id, request_id=model.request()["id"]
    )

    told = model.told("cancellation_requested", "backend")
    assert (told.payload, told.command_id, told.request_id) == (payload, command_id, model.request()["id"])


@pytest.mark.row("CM-18", "EV-09", "EV-14")
def test_extensions_and_unknown_events_are_passed_on_and_change_nothing() -> None:
    model = started()
    before = model.state.work, model.state.conversation
    for role in (Role.CHANNEL, Role.PROVIDER, Role.BACKEND):
        model.event(role, "extension", {"name": "vendor.thing", "x": 1})
        model.event(role, "never_heard_of", {"y": [1]})
        assert model.told("extension", str(role)).payload == {"name": "vendor.thing", "x": 1}

    assert (model.state.work, model.state.conversation) == before
