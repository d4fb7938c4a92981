"""Commands: one at a time per owner, bounded, told once, and never guessed."""

from typing import Any

import pytest

from parlora.limits import ADMISSION_DEADLINE_MS, Limits
from parlora.session import effects, inputs
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import REFUSED, UNKNOWN, error_code, only_task, start, started, supersede

QUIET = {"kind": "quiet", "text": "note", "delegation_id": None}


def append(model: SessionModel, command_id: str, caller: str = "host", text: str = "note") -> Any:
    return model.call("append_context", caller=caller, update={"kind": "quiet", "text": text}, command_id=command_id)


@pytest.mark.row("SL-48", "CM-05", "CM-01")
def test_an_append_goes_to_the_provider_under_the_callers_id_and_its_admission_is_the_answer() -> None:
    model = SessionModel(auto_reply=False).ready()
    assert append(model, "c1") is None
    (invoke,) = model.invoked(Call.APPEND_CONTEXT)
    assert (invoke.command_id, invoke.role, invoke.arguments) == ("c1", Role.PROVIDER, {"update": QUIET})
    model.reply(invoke)

    (answer,) = model.of(effects.Answer)
    assert (answer.value, answer.error) == ({"command_id": "c1"}, None)


@pytest.mark.row("CM-01", "SL-33")
def test_an_adapters_refusal_reaches_the_caller_with_code_message_and_details() -> None:
    model = SessionModel(auto_reply=False).ready()
    append(model, "c1")
    model.reply(model.last_invoke(Call.APPEND_CONTEXT), REFUSED)

    (answer,) = model.of(effects.Answer)
    assert answer.error == REFUSED
    assert append(model, "c1").error == REFUSED
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 1


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "update"),
        ({"update": {"kind": "loud", "text": "x"}}, "update.kind"),
        ({"update": {"kind": "quiet", "text": ""}}, "update.text"),
        ({"update": {"kind": "quiet", "text": "x", "delegation_id": 4}}, "update.delegation_id"),
        ({"update": {"kind": "quiet", "text": "x", "tone": "sad"}}, "update.tone"),
        ({"update": {"kind": "quiet", "text": "x"}, "command_id": ""}, "command_id"),
    ],
)
def test_a_malformed_append_names_the_field_and_changes_nothing(arguments: dict[str, Any], field: str) -> None:
    model = SessionModel().ready()
    before = model.state
    answer = model.call("append_context", **arguments)

    assert error_code(answer) == "invalid_argument"
    assert answer is not None
    assert answer.error is not None
    assert answer.error["details"]["field"] == field
    assert model.state == before


def test_an_unknown_operation_is_unsupported() -> None:
    assert error_code(SessionModel().ready().call("dance")) == "unsupported"


@pytest.mark.row("CM-06", "CM-07", "CM-14")
def test_a_repeated_id_repeats_no_effect_and_a_conflicting_one_is_refused() -> None:
    model = SessionModel().ready()
    first = append(model, "c1")
    again = append(model, "c1", caller="other")
    conflict = append(model, "c1", text="something else")

    assert (first.value, again.value) == ({"command_id": "c1"}, {"command_id": "c1"})
    assert error_code(conflict) == "conflict"
    assert error_code(model.call("control", command=["mute_input", True], command_id="c1")) == "conflict"
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 1


def test_an_id_that_the_session_itself_uses_is_a_conflict() -> None:
    model = SessionModel(auto_reply=False)
    started(model)
    command_id = model.invoked(Call.SUBMIT)[0].command_id

    assert error_code(append(model, command_id)) == "conflict"


@pytest.mark.row("RA-07")
def test_repetitions_of_a_pending_command_wait_for_its_one_answer_and_are_bounded() -> None:
    model = SessionModel(session_spec(Limits(max_subscribers=2)), auto_reply=False).ready()
    assert append(model, "c1", caller="a") is None
    assert append(model, "c1", caller="b") is None
    assert error_code(append(model, "c1", caller="c")) == "backpressure"
    model.reply(model.last_invoke(Call.APPEND_CONTEXT))

    assert [answer.caller for answer in model.of(effects.Answer) if answer.error is None] == ["a", "b"]


def test_a_caller_who_left_is_not_answered_and_its_command_goes_on() -> None:
    model = SessionModel(auto_reply=False).ready()
    append(model, "c1")
    model.feed(inputs.CallerGone, caller="host")
    model.reply(model.last_invoke(Call.APPEND_CONTEXT))

    assert not model.of(effects.Answer)
    assert append(model, "c1", caller="again").value == {"command_id": "c1"}


@pytest.mark.row("RA-02")
def test_an_owner_has_one_command_at_a_time_in_order_and_owners_do_not_wait_for_each_other() -> None:
    model = SessionModel(auto_reply=False)
    started(model)
    for name in ("a", "b", "c"):
        append(model, name)

    def handed_over() -> list[str]:
        return [invoke.command_id for invoke in model.invoked(Call.APPEND_CONTEXT)]

    assert handed_over() == ["a"]
    assert len(model.invoked(Call.SUBMIT)) == 1
    model.reply(model.last_invoke(Call.APPEND_CONTEXT))
    assert handed_over() == ["a", "b"]
    model.reply(model.last_invoke(Call.APPEND_CONTEXT))
    assert handed_over() == ["a", "b", "c"]


@pytest.mark.row("RA-06")
def test_pending_commands_are_bounded() -> None:
    limits = Limits(max_jobs=1, max_pending_jobs=1, max_pending_delegations=1)
    model = SessionModel(session_spec(limits), auto_reply=False).ready()
    assert [append(model, f"c{n}") for n in range(3)] == [None] * 3

    refused = append(model, "c3")
    assert error_code(refused) == "backpressure"
    assert refused.error["details"] == {"max_pending_commands": 3}
    model.reply(model.last_invoke(Call.APPEND_CONTEXT))
    assert append(model, "c3") is None


@pytest.mark.row("CM-08")
def test_command_records_are_bounded_and_pending_ones_are_kept() -> None:
    limits = Limits(max_records=2, max_jobs=1, max_pending_jobs=1)
    model = SessionModel(session_spec(limits)).ready()
    for name in ("a", "b", "c"):
        assert error_code(append(model, name)) is None
    assert len(model.state.commands.records) == 2

    model.auto_reply = False
    append(model, "d")
    append(model, "e")
    assert error_code(append(model, "f")) == "backpressure"


@pytest.mark.row("CM-08")
def test_a_settled_record_gives_way_and_an_older_pending_one_does_not() -> None:
    limits = Limits(max_records=2, max_jobs=1, max_pending_jobs=1)
    model = SessionModel(session_spec(limits), auto_reply=False).ready()
    append(model, "pending")  # with the provider
    for name in ("settled", "next"):
        model.call("control", command=["suppress_output", True], command_id=name)
        model.reply(model.last_invoke(Call.CONTROL))

    assert set(model.state.commands.records) == {"pending", "next"}


@pytest.mark.row("RA-08", "RA-09", "RA-10")
def test_a_callback_that_does_not_return_is_unknown_ends_the_session_and_what_waited_was_never_submitted() -> None:
    model = SessionModel(auto_reply=False, auto_close=False).ready()
    append(model, "stuck")
    append(model, "waiting")
    model.advance(ADMISSION_DEADLINE_MS - 1)
    assert not model.of(effects.Answer)
    model.advance(1)

    stuck, waiting = (answer.error for answer in model.of(effects.Answer))
    assert stuck is not None
    assert waiting is not None
    assert stuck["details"]["execution"] == "unknown"
    assert waiting["details"]["execution"] == "never_submitted"
    assert model.told("failed").payload["cause"] == "admission_unknown"
    assert model.status()["status"] == "closing"
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 1


@pytest.mark.row("RA-09")
def test_a_command_that_expires_in_the_queue_says_so() -> None:
    model = SessionModel(auto_reply=False).ready()
    append(model, "slow")
    model.advance(600)
    append(model, "waiting")
    model.advance(400)
    model.reply(model.last_invoke(Call.APPEND_CONTEXT))
    assert len(model.invoked(Call.APPEND_CONTEXT)) == 2

    model = SessionModel(auto_reply=False, auto_close=False).ready()
    append(model, "slow")
    model.call("control", command=["mute_input", True], command_id="muted")
    model.reply(model.invoked(Call.APPEND_CONTEXT)[0], UNKNOWN)
    (waiting,) = [answer for answer in model.of(effects.Answer) if "never_submitted" in repr(answer.error)]
    assert waiting.error is not None
    assert not model.invoked(Call.CONTROL)


@pytest.mark.row("RA-08")
def test_a_submission_waits_no_longer_than_its_request_has_left() -> None:
    model = SessionModel(session_spec(Limits(job_timeout_ms=400)), auto_reply=False)
    started(model)

    (submit,) = model.invoked(Call.SUBMIT)
    assert submit.deadline_us == model.clock.now_us + 400_000


@pytest.mark.row("RA-10")
def test_an_owners_word_that_a_callback_did_not_return_ends_the_session_and_leaves_the_request_uncertain() -> None:
    model = SessionModel(auto_reply=False, auto_close=False)
    started(model)
    model.reply(model.last_invoke(Call.SUBMIT), UNKNOWN)

    assert model.told("failed").payload["cause"] == "admission_unknown"
    assert model.status()["jobs"][model.request()["id"]]["status"] == "uncertain"
    assert model.told("task_submitted").payload["admission"]["error"] == UNKNOWN


@pytest.mark.row("RA-12")
@pytest.mark.parametrize(("code", "status"), [("unsupported", "failed"), ("uncertain", "uncertain")])
def test_an_explicit_admission_error_keeps_what_it_says_about_the_outcome(code: str, status: str) -> None:
    model = SessionModel(auto_reply=False)
    started(model)
    model.reply(model.last_invoke(Call.SUBMIT), {"code": code, "message": "no", "details": {}})

    assert model.status()["jobs"][model.request()["id"]]["status"] == status
    assert not model.events("failed")


@pytest.mark.row("RA-05")
def test_an_outcome_before_the_admission_reply_stays_authoritative() -> None:
    model = SessionModel(auto_reply=False)
    started(model)
    model.complete(model.request(), summary="done")
    model.reply(model.last_invoke(Call.SUBMIT), REFUSED)

    job = model.status()["jobs"][model.request()["id"]]
    assert (job["status"], job["admission"]) == ("completed", "settled")


def test_a_late_or_foreign_reply_changes_nothing() -> None:
    model = SessionModel(auto_reply=False)
    started(model)
    submit = model.last_invoke(Call.SUBMIT)
    before = model.state
    model.feed(inputs.CommandReplied, role=Role.PROVIDER, command_id=submit.command_id, error=None)
    model.feed(inputs.CommandReplied, role=Role.BACKEND, command_id="nobody", error=None)
    assert model.state == before
    model.reply(submit)
    before = model.state
    model.reply(submit, REFUSED)

    assert model.state == before


@pytest.mark.row("RA-03", "RA-04", "BK-25")
def test_a_waiting_submission_is_withdrawn_when_its_task_is_corrected() -> None:
    model = SessionModel(auto_reply=False).ready()
    model.delegate("d1")
    model.decide(start("d1"))
    first = model.request()
    model.delegate("d2")
    model.decide(start("d2", order="825"))
    task = model.snapshot()["tasks"][list(model.snapshot()["tasks"])[1]]
    model.say("no, one two three")
    model.decide(supersede(task))
    model.auto_reply = True
    model.reply(model.invoked(Call.SUBMIT)[0])

    submitted = [invoke.arguments["request"] for invoke in model.invoked(Call.SUBMIT)]
    assert [(request["input"]["order"], request["task_revision"]) for request in submitted] == [("124", 1), ("123", 2)]
    result = model.told("request_cancelled").payload["result"]
    assert result["metadata"] == {"execution": "never_submitted", "reason": "superseded"}
    assert first["id"] not in (result["request_id"],)


def test_an_owner_that_dies_leaves_what_it_did_unknown_and_what_waited_never_submitted() -> None:
    model = SessionModel(auto_reply=False, auto_close=False).ready()
    append(model, "doing")
    append(model, "waiting")
    model.feed(inputs.ProcessDown, role=Role.PROVIDER, cause="signal 11")

    executions = [answer.error["details"]["execution"] for answer in model.of(effects.Answer) if answer.error]
    assert executions == ["unknown", "never_submitted"]


@pytest.mark.row("SL-49", "BK-10")
def test_cancel_of_a_running_request_is_advice_and_no_outcome() -> None:
    model = started()
    request = model.request()
    answer = model.call("cancel", request_id=request["id"], expected_task_revision=1, command_id="c1")

    assert error_code(answer) is None
    (invoke,) = model.invoked(Call.CANCEL)
    assert (invoke.command_id, invoke.arguments["request_id"]) == ("c1", request["id"])
    model.event(Role.BACKEND, "cancellation_requested", {}, command_id="c1", request_id=request["id"])
    assert model.status()["jobs"][request["id"]]["status"] == "submitted"
    model.complete(request, "cancelled")
    assert only_task(model)["status"] == "cancelled"


@pytest.mark.row("SL-49", "BK-25")
def test_cancel_of_a_queued_request_is_settled_here_without_the_adapter() -> None:
    model = SessionModel(session_spec(Limits(max_jobs=1)))
    started(model)
    model.delegate("d2")
    model.decide(start("d2", order="825"))
    queued = next(key for key, job in model.status()["jobs"].items() if job["status"] == "queued")
    answer = model.call("cancel", request_id=queued, expected_task_revision=1, command_id="c1")

    assert error_code(answer) is None
    assert not model.invoked(Call.CANCEL)
    assert model.status()["jobs"][queued]["status"] == "cancelled"
    result = model.told("request_cancelled").payload["result"]
    assert (result["request_id"], result["metadata"]["execution"]) == (queued, "never_submitted")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"request_id": "nobody"}, "not_found"),
        ({"expected_task_revision": 2}, "conflict"),
        ({"expected_task_revision": 0}, "invalid_argument"),
        ({"command_id": None}, "invalid_argument"),
    ],
)
def test_cancel_refuses_what_it_cannot_mean(arguments: dict[str, Any], code: str) -> None:
    model = started()
    given = {"request_id": model.request()["id"], "expected_task_revision": 1, "command_id": "c1", **arguments}

    assert error_code(model.call("cancel", **given)) == code
    assert "c1" not in model.state.commands.records
