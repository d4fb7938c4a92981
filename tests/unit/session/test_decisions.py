"""A batch of decisions is checked as a whole before any of it is applied."""

from dataclasses import replace
from typing import Any

import pytest

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.contract.backend import BackendCapabilities
from parlora.limits import Limits
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import REFUSED, UNKNOWN, follow_up, on_task, only_task, start, started, supersede

K = DecisionKind
OTHER = {"id": "nobody", "revision": 1}


def rejection(model: SessionModel, *batch: ContextDecision) -> dict[str, Any]:
    """What the batch is rejected with; nothing of it was applied."""
    model.say("so")
    before = model.snapshot()
    model.decide(*batch)
    assert model.snapshot() == before, model.story()
    error: dict[str, Any] = model.told("policy_rejected").payload["error"]
    return error


def interpreted(model: SessionModel, *batch: ContextDecision) -> SessionModel:
    """The caller says something, and the policy decides; the batch is applied."""
    rejections = len(model.events("policy_rejected"))
    model.say("so")
    model.decide(*batch)
    assert len(model.events("policy_rejected")) == rejections, model.story()
    return model


def started_with_pending() -> SessionModel:
    """One running task `d1`, and a pending delegation `d2`."""
    model = started()
    model.delegate("d2")
    model.decide()
    return model


@pytest.mark.row("CP-10", "CD-03", "CD-20", "TY-19", "ST-15")
def test_a_start_claims_its_call_and_tells_the_request_with_ids_of_our_making() -> None:
    model = started(order="124")
    task, request = only_task(model), model.request()

    assert (task["revision"], task["status"], task["input"]) == (1, "submitted", {"order": "124"})
    assert (task["request_ids"], task["delegation_id"], task["confirmation"]) == ([request["id"]], "d1", None)
    delegation = model.snapshot()["pending_delegations"]["d1"]
    assert (delegation["status"], delegation["task_id"], delegation["task_revision"]) == ("claimed", task["id"], 1)
    submitted = model.told("task_submitted")
    assert submitted.payload["request"] == request
    assert submitted.payload["admission"] == {"ok": True, "error": None}
    assert submitted.request_id == request["id"]


@pytest.mark.row("BK-13", "CP-20")
def test_a_request_brings_identity_revision_context_and_deadline_and_no_authorization() -> None:
    model = SessionModel(session_spec(context={"customer": "Ada"}))
    request = started(model).request()

    assert set(request) == {
        "id",
        "task_id",
        "task_revision",
        "delegation_id",
        "input",
        "deadline_at_us",
        "context",
        "provider_generation",
    }
    assert request["context"] == {"customer": "Ada"}
    assert request["deadline_at_us"] == model.clock.now_us + model.spec.limits.job_timeout_ms * 1_000


def invalid() -> list[tuple[str, ContextDecision]]:
    task = {"id": "T", "revision": 1}
    anchored = follow_up(task)
    return [
        ("kind", ContextDecision("dance")),  # type: ignore[arg-type]
        ("input", replace(start("d2"), input=None)),
        ("delegation_id", ContextDecision(K.START_TASK, input={})),
        ("delegation_id", start("d1")),
        ("delegation_id", start("nowhere")),
        ("delegation_id", replace(anchored, delegation_id="d2")),
        ("anchor_task_id", follow_up(OTHER)),
        ("anchor_task_id", replace(anchored, anchor_task_id=None)),
        ("expected_anchor_revision", replace(anchored, expected_anchor_revision=None)),
        ("expected_anchor_revision", replace(anchored, expected_anchor_revision=2)),
        ("task_id", replace(start("d2"), task_id="T", expected_task_revision=1)),
        ("expected_task_revision", replace(start("d2"), expected_task_revision=1)),
        ("anchor_task_id", replace(supersede(task), anchor_task_id="T")),
        ("expected_anchor_revision", on_task(K.CANCEL_TASK, task, expected_anchor_revision=1)),
        ("task_id", ContextDecision(K.SUPERSEDE_TASK, input={})),
        ("task_id", ContextDecision(K.SUPERSEDE_TASK, task_id="T", input={})),
        ("input", on_task(K.SUPERSEDE_TASK, task)),
        ("input", on_task(K.CANCEL_TASK, task, input={})),
        ("message", on_task(K.CANCEL_TASK, task, message="because")),
        ("message", on_task(K.WAIT_FOR_CONTEXT, task, message="because")),
        ("recheck_key", on_task(K.SUPERSEDE_TASK, task, input={}, recheck_key="k")),
        ("clarification_key", on_task(K.WAIT_FOR_CONTEXT, task, clarification_key="k")),
        ("delegation_id", on_task(K.ASSOCIATE_DELEGATION, task)),
        ("task_id", ContextDecision(K.WAIT_FOR_CONTEXT)),
        ("task_id", on_task(K.WAIT_FOR_CONTEXT, task, delegation_id="d2")),
        ("recheck_after_ms", on_task(K.WAIT_FOR_CONTEXT, task, recheck_after_ms=0)),
        ("recheck_after_ms", on_task(K.WAIT_FOR_CONTEXT, task, recheck_after_ms=60_001)),
        ("recheck_after_ms", on_task(K.WAIT_FOR_CONTEXT, task, recheck_after_ms=True)),
        ("recheck_key", on_task(K.WAIT_FOR_CONTEXT, task, recheck_key="")),
        ("recheck_key", on_task(K.WAIT_FOR_CONTEXT, task, recheck_key="ü" * 65)),
        ("message", on_task(K.REQUEST_CLARIFICATION, task)),
        ("message", on_task(K.REQUEST_CLARIFICATION, task, message=" ")),
        ("input", on_task(K.REQUEST_CLARIFICATION, task, message="?", input={"x": "y" * 4_096})),
        ("clarification_key", on_task(K.REQUEST_CLARIFICATION, task, message="?", clarification_key="k" * 129)),
    ]


@pytest.mark.row(
    "CD-01", "CD-02", "CD-06", "CD-07", "CD-08", "CD-09", "CD-15", "CD-21", "CW-01", "CL-03", "TY-24", "TY-30"
)
@pytest.mark.parametrize(("field", "decision"), invalid())
def test_a_decision_that_its_kind_does_not_allow_is_rejected_naming_the_field(
    field: str, decision: ContextDecision
) -> None:
    model = started_with_pending()
    task_id = only_task(model)["id"]
    named = {name: task_id for name in ("task_id", "anchor_task_id") if getattr(decision, name) == "T"}
    error = rejection(model, replace(decision, **named))

    assert error["code"] == "invalid_argument"
    assert error["details"]["field"] == field


@pytest.mark.row("CD-17")
def test_a_stale_or_unknown_target_is_rejected() -> None:
    model = interpreted(started_with_pending())
    task = only_task(model)
    for kind in (K.SUPERSEDE_TASK, K.CANCEL_TASK, K.ASSOCIATE_DELEGATION, K.WAIT_FOR_CONTEXT):
        fields: dict[str, Any] = {"input": {}} if kind is K.SUPERSEDE_TASK else {}
        if kind is K.ASSOCIATE_DELEGATION:
            fields = {"delegation_id": "d2"}
        assert rejection(model, on_task(kind, {**task, "revision": 2}, **fields))["code"] == "conflict"
        assert rejection(model, on_task(kind, OTHER, **fields))["code"] == "not_found"


@pytest.mark.row("CP-09", "CD-13", "CD-14")
def test_a_batch_that_decides_about_one_thing_twice_is_rejected_as_a_whole() -> None:
    model = started_with_pending()
    task = only_task(model)
    link = on_task(K.ASSOCIATE_DELEGATION, task, delegation_id="d2")
    ask = on_task(K.REQUEST_CLARIFICATION, task, message="?")
    wait = on_task(K.WAIT_FOR_CONTEXT, task)
    for batch in (
        (start("d2"), start("d2")),
        (start("d2"), link),
        (follow_up(task), follow_up(task)),
        (follow_up(task), supersede(task)),
        (on_task(K.CANCEL_TASK, task), follow_up(task)),
        (supersede(task), on_task(K.CANCEL_TASK, task)),
        (supersede(task), link),
        (wait, supersede(task)),
        (wait, wait),
        (ask, ask),
        (start("d2"), ContextDecision(K.WAIT_FOR_CONTEXT, delegation_id="d2")),
    ):
        assert rejection(model, *batch)["code"] == "conflict", batch
    assert rejection(model, start("d2"), start("nowhere"))["code"] == "invalid_argument"


def test_a_start_a_follow_up_and_a_question_with_its_wait_go_together() -> None:
    model = started_with_pending()
    task = only_task(model)
    wait, ask = on_task(K.WAIT_FOR_CONTEXT, task), on_task(K.REQUEST_CLARIFICATION, task, message="?")
    interpreted(model, start("d2"), follow_up(task), wait, ask)

    assert len(model.snapshot()["tasks"]) == 3


@pytest.mark.row("CD-04", "CD-05", "CD-10", "CD-11", "CD-12", "CD-22", "CD-23")
def test_a_follow_up_is_work_of_its_own_and_leaves_its_anchor_alone() -> None:
    model = started()
    anchor = only_task(model)
    model.complete(model.request(), summary="status")
    anchor = only_task(model)
    interpreted(model, follow_up(anchor))
    request = model.request()

    assert (request["task_revision"], request["delegation_id"]) == (1, None)
    assert request["task_id"] != anchor["id"]
    tasks = model.snapshot()["tasks"]
    assert tasks[anchor["id"]] == anchor
    assert set(tasks[request["task_id"]]) == set(anchor)
    interpreted(model, follow_up(anchor))
    assert len(model.snapshot()["tasks"]) == 3


@pytest.mark.row("CD-16", "BK-11", "BK-17", "TY-11", "TY-12")
def test_superseding_raises_the_revision_at_once_also_while_the_replacement_waits() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1)))
    started(model)
    old = model.request()
    interpreted(model, supersede(only_task(model), order="123"))
    task = only_task(model)

    assert (task["revision"], task["input"], task["status"]) == (2, {"order": "123"}, "submitted")
    jobs = model.status()["jobs"]
    assert [jobs[request_id]["status"] for request_id in task["request_ids"]] == ["queued", "submitted"]
    assert [jobs[request_id]["current"] for request_id in task["request_ids"]] == [True, False]
    assert len(model.invoked(Call.SUBMIT)) == 1
    model.complete(old, summary="obsolete")
    assert model.request()["task_revision"] == 2
    assert only_task(model)["status"] == "submitted"


@pytest.mark.row("BK-18", "BK-24", "ST-12")
def test_old_and_uncertain_requests_keep_their_slots() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=2)))
    started(model)
    first = model.request()
    model.event(Role.BACKEND, "request_uncertain", {"task_revision": 1, "reason": "lost"}, request_id=first["id"])
    interpreted(model, supersede(only_task(model)))
    assert len(model.invoked(Call.SUBMIT)) == 2
    interpreted(model, supersede(only_task(model), order="825"))
    assert len(model.invoked(Call.SUBMIT)) == 2
    model.complete(first, summary="after all")

    assert model.request()["input"] == {"order": "825"}


@pytest.mark.row("BK-19")
def test_a_correction_without_room_ends_the_session() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1, max_pending_jobs=0)))
    started(model)
    interpreted(model, supersede(only_task(model)))

    assert model.told("failed").payload["cause"] == "correction_queue_exhausted"
    assert model.told("closed").payload["jobs"].keys() == {model.request()["id"]}
    assert not model.appended_texts()


@pytest.mark.row("CD-19")
def test_a_start_without_room_is_rejected_with_the_bounds() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1, max_pending_jobs=1)))
    started(model)
    for name in ("d2", "d3"):
        model.delegate(name)
        model.decide()
    first = only_task(model)
    assert rejection(model, start("d2"), follow_up(first))["code"] == "backpressure"
    error = rejection(model, start("d2"), start("d3"))
    assert (error["code"], error["details"]) == ("backpressure", {"max_jobs": 1, "max_pending_jobs": 1})
    interpreted(model, start("d2"))

    assert [job["status"] for job in model.status()["jobs"].values()] == ["submitted", "queued"]


@pytest.mark.row("BK-20")
def test_a_queued_request_can_reach_its_deadline_and_was_never_executed() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1, job_timeout_ms=1_000)))
    started(model)
    model.advance(100)
    model.delegate("d2")
    model.decide(start("d2", order="825"))
    queued = next(key for key, job in model.status()["jobs"].items() if job["status"] == "queued")
    model.event(
        Role.BACKEND, "request_uncertain", {"task_revision": 1, "reason": "lost"}, request_id=model.request()["id"]
    )
    model.advance(1_000)

    assert model.status()["jobs"][queued]["status"] == "failed"
    result = model.told("request_failed").payload["result"]
    assert result["metadata"] == {"execution": "never_submitted", "reason": "job_deadline"}
    assert model.told("job_deadline").payload["execution"] == "never_submitted"
    assert len(model.invoked(Call.SUBMIT)) == 1


def test_cancelling_a_task_asks_the_backend_and_withholds_whatever_it_says() -> None:
    model = started()
    request = model.request()
    interpreted(model, on_task(K.CANCEL_TASK, only_task(model)))
    assert [invoke.arguments["request_id"] for invoke in model.invoked(Call.CANCEL)] == [request["id"]]
    assert only_task(model)["status"] == "submitted"
    assert model.last_invoke(Call.RESOLVE_DELEGATION).arguments == {"delegation_id": "d1", "outcome": "cancelled"}
    model.complete(request, summary="done anyway")

    assert only_task(model)["status"] == "completed"
    assert model.stages(request["id"]) == ["stale"]
    assert not model.appended_texts()


def test_a_backend_that_takes_no_advice_is_not_asked() -> None:
    model = SessionModel()
    model.capabilities[Role.BACKEND] = BackendCapabilities()
    started(model)
    interpreted(model, on_task(K.CANCEL_TASK, only_task(model)))

    assert not model.invoked(Call.CANCEL)
    answer = model.call("cancel", request_id=model.request()["id"], expected_task_revision=1, command_id="c1")
    assert answer is not None
    assert answer.error is not None
    assert answer.error["code"] == "unsupported"


@pytest.mark.row("BK-21", "BK-22")
def test_an_update_advances_the_revision_and_its_request_follows_when_it_was_applied() -> None:
    model = started()
    request = model.request()
    interpreted(model, on_task(K.UPDATE_TASK, only_task(model), input={"order": "123"}))
    (update,) = model.invoked(Call.UPDATE)
    assert update.arguments == {"request_id": request["id"], "update": {"order": "123"}, "task_revision": 2}
    job = model.status()["jobs"][request["id"]]
    assert (only_task(model)["revision"], job["task_revision"], job["current"]) == (2, 1, False)
    model.event(Role.BACKEND, "update_applied", {}, command_id=update.command_id, request_id=request["id"])
    job = model.status()["jobs"][request["id"]]
    assert (job["task_revision"], job["current"]) == (2, True)
    model.complete({**request, "task_revision": 2}, summary="123 it is")

    assert model.appended_texts() == ["123 it is"]


@pytest.mark.row("BK-22", "BK-21")
def test_a_rejected_update_does_not_make_the_old_answer_current_again() -> None:
    model = started()
    request = model.request()
    interpreted(model, on_task(K.UPDATE_TASK, only_task(model), input={"order": "123"}))
    (update,) = model.invoked(Call.UPDATE)
    model.event(Role.BACKEND, "update_rejected", {}, command_id=update.command_id, request_id=request["id"])
    model.complete(request, summary="124")

    assert model.stages(request["id"]) == ["stale"]


@pytest.mark.row("BK-23")
@pytest.mark.parametrize(("error", "type"), [(REFUSED, "update_rejected"), (UNKNOWN, "update_uncertain")])
def test_the_admission_of_an_update_is_told_when_it_is_refused_or_uncertain(error: Any, type: str) -> None:
    model = started(SessionModel(auto_reply=False))
    model.reply(model.last_invoke(Call.SUBMIT))
    interpreted(model, on_task(K.UPDATE_TASK, only_task(model), input={"order": "123"}))
    model.reply(model.last_invoke(Call.UPDATE), error)

    assert model.told(type).payload["task_revision"] == 2


def test_an_update_that_the_backend_cannot_take_is_rejected_as_unsupported() -> None:
    model = SessionModel()
    model.capabilities[Role.BACKEND] = BackendCapabilities()
    started(model)

    assert rejection(model, on_task(K.UPDATE_TASK, only_task(model), input={}))["code"] == "unsupported"


def test_more_calls_than_may_be_pending_are_refused_and_resolved() -> None:
    model = SessionModel(session_spec(Limits(max_pending_delegations=1))).ready()
    model.delegate("d1")
    model.delegate("d2")

    payload = model.told("delegation_rejected").payload
    assert (payload["delegation_id"], payload["error"]["code"]) == ("d2", "backpressure")
    assert list(model.snapshot()["pending_delegations"]) == ["d1"]
    assert model.last_invoke(Call.RESOLVE_DELEGATION).arguments == {"delegation_id": "d2", "outcome": "failed"}


def test_finished_records_give_way_and_running_ones_do_not() -> None:
    limits = Limits(max_records=3, max_jobs=2, max_pending_jobs=1)
    model = SessionModel(session_spec(limits))
    started(model)
    kept = model.request()
    for number in range(2, 12):
        model.delegate(f"d{number}")
        model.decide(start(f"d{number}"))
        model.complete(model.request(), summary=f"answer {number}")

    assert len(model.status()["jobs"]) == 3
    assert kept["id"] in model.status()["jobs"]
    assert len(model.snapshot()["tasks"]) == 3
    assert len(model.appended_texts()) == 10
