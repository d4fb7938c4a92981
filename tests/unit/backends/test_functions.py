"""A function per request: what is told about it, and what is never told."""

import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from parlora.backends.functions import Functions
from parlora.backends.job import Job
from parlora.contract.adapter import ClosePolicy
from parlora.contract.backend import BackendRequest
from parlora.errors import Backpressure, Closed, Conflict, InvalidArgument, NotFound, Unsupported
from parlora.limits import Limits
from parlora.testing.adapters import AdapterHarness, backend_request
from tests.unit.backends import shop

SHOP = "tests.unit.backends.shop"


@pytest.fixture
def rid() -> Iterator[str]:
    """An id that is fresh in each test; its gate is opened at the end so that no thread waits on."""
    name = uuid.uuid4().hex
    yield name
    shop.gates.gate(name).set()


def functions(name: str, **options: Any) -> AdapterHarness:
    return AdapterHarness(Functions(f"{SHOP}:{name}", **options))


def run(name: str, input: dict[str, Any] | None = None, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    """All events of one request to one function, with their payloads."""
    with functions(name, **options) as harness:
        harness.start()
        harness.call("submit", backend_request("r1", input, task_revision=3), "c1")
        harness.close_adapter()
        return [(event.type, event.payload) for event in harness.sink.events(request_id="r1")]


@pytest.mark.row("BK-01", "BK-02")
@pytest.mark.parametrize(
    ("name", "options", "capabilities"),
    [
        ("hours", {}, (False, "unsupported", False, False)),
        ("status", {}, (False, "advisory", True, True)),
        ("status", {"updates": True}, (True, "advisory", True, True)),
    ],
)
def test_capabilities_follow_from_what_the_function_can_do(
    name: str, options: dict[str, Any], capabilities: tuple[object, ...]
) -> None:
    with functions(name, **options) as harness:
        told = harness.start().payload["capabilities"]

    assert (told["updates"], told["cancellation"], told["progress"], told["clarification"]) == capabilities


@pytest.mark.row("BK-04", "BK-05", "BK-07")
def test_a_request_is_started_progresses_and_completes_under_its_identity() -> None:
    started, progress, completed = run("status", {"order": "123"})

    assert started == ("request_started", {"task_revision": 3})
    assert progress == ("request_progress", {"task_revision": 3, "summary": "looking", "facts": {"order": "123"}})
    assert completed[0] == "request_completed"
    assert completed[1]["result"] == {
        "request_id": "r1",
        "task_id": "task-of-r1",
        "task_revision": 3,
        "status": "completed",
        "facts": {"order": "123", "status": "shipped"},
        "summary": "it has shipped",
        "metadata": {},
    }


def test_a_text_is_the_summary_and_nothing_is_nothing_to_say() -> None:
    assert run("hours")[-1][1]["result"]["summary"] == "we are open from nine to five"
    assert run("counted")[-1][1]["result"]["summary"] is None


@pytest.mark.row("BK-06")
def test_a_question_names_the_request_the_revision_and_what_is_missing() -> None:
    assert run("asks")[1] == ("request_clarification", {"task_revision": 3, "question": "which order?"})


@pytest.mark.row("BK-07")
def test_a_failure_tells_the_type_and_the_line_and_never_the_text() -> None:
    type, payload = run("breaks", failure_summary="sorry, that did not work")[-1]

    assert type == "request_failed"
    assert payload["result"]["status"] == "failed"
    assert payload["result"]["summary"] == "sorry, that did not work"
    assert payload["error"]["message"] == "the function raised ValueError"
    assert payload["error"]["details"]["where"].startswith("shop.py:")
    assert shop.SECRET not in repr(payload)


def test_an_applications_own_error_is_told_as_it_is() -> None:
    error = run("not_there")[-1][1]["error"]

    assert error == {"code": "not_found", "message": "no such order", "details": {"order": "999"}}


def test_a_function_that_exits_has_failed_and_its_slot_is_free_again() -> None:
    with AdapterHarness(Functions(f"{SHOP}:leaves"), limits=Limits(max_jobs=1)) as harness:
        harness.start()
        for name in ("r1", "r2"):
            harness.call("submit", backend_request(name), f"c-{name}")
            assert harness.wait_for("request_failed", request_id=name).payload["result"]["status"] == "failed"


@pytest.mark.row("BK-08")
@pytest.mark.parametrize("name", ["somebody_elses", "too_long", "number"])
def test_a_result_that_is_not_the_requests_own_or_not_valid_is_uncertain(name: str) -> None:
    with functions(name) as harness:
        harness.start()
        harness.call("submit", backend_request("r1"), "c1")
        told = harness.wait_for("request_uncertain", request_id="r1")
        closed = harness.close_adapter()

        assert (told.payload["reason"], told.payload["task_revision"]) == ("invalid_result", 1)
        assert harness.sink.events("request_completed") == []
        assert closed.payload["uncertain_requests"] == ["r1"]


def test_a_repeated_command_or_request_never_runs_the_function_again(rid: str) -> None:
    with functions("counted") as harness:
        harness.start()
        request = backend_request(rid)
        harness.call("submit", request, "c1")
        harness.wait_for("request_completed", request_id=rid)
        harness.call("submit", request, "c1")
        harness.call("submit", request, "c2")
        for command_id, other in (("c1", backend_request(rid + "x")), ("c3", backend_request(rid, {"order": "1"}))):
            with pytest.raises(Conflict):
                harness.call("submit", other, command_id)
        harness.close_adapter()

    assert shop.runs.count(rid) == 1


def test_more_jobs_than_slots_are_refused_and_may_come_again(rid: str) -> None:
    with AdapterHarness(Functions(f"{SHOP}:held"), limits=Limits(max_jobs=1)) as harness:
        harness.start()
        harness.call("submit", backend_request(rid), "c1")
        with pytest.raises(Backpressure):
            harness.call("submit", backend_request("r2"), "c2")
        shop.gates.gate(rid).set()
        harness.wait_for("request_completed", request_id=rid)
        shop.gates.gate("r2").set()
        harness.call("submit", backend_request("r2"), "c2")

        harness.wait_for("request_completed", request_id="r2")


@pytest.mark.row("BK-09", "BK-10")
def test_a_stop_is_only_advice_and_the_function_decides_what_came_of_it(rid: str) -> None:
    with functions("stubborn") as harness:
        harness.start()
        harness.call("submit", backend_request(rid, task_revision=2), "c1")
        shop.gates.pass_through(f"{rid} began")
        harness.call("cancel", rid, "the caller hung up", "c2")
        asked = harness.wait_for("cancellation_requested", command_id="c2")
        harness.call("cancel", rid, "the caller hung up", "c2")
        shop.gates.gate(rid).set()
        done = harness.wait_for("request_completed", request_id=rid)

        assert (asked.request_id, asked.payload) == (rid, {"task_revision": 2, "outcome": "flagged", "error": None})
        assert done.payload["result"]["summary"] == "asked to stop: True"
        assert len(harness.sink.events("cancellation_requested")) == 1
        assert harness.sink.events("request_cancelled") == []


@pytest.mark.row("BK-07")
@pytest.mark.parametrize(("name", "facts"), [("waits", {"half": True}), ("waits_async", {})])
def test_a_function_that_stopped_says_so_and_only_then_it_is_cancelled(name: str, facts: dict[str, Any]) -> None:
    with functions(name) as harness:
        harness.start()
        harness.call("submit", backend_request("r1"), "c1")
        harness.wait_for("request_started")
        harness.call("cancel", "r1", "changed their mind", "c2")
        result = harness.wait_for("request_cancelled", request_id="r1").payload["result"]

        assert (result["status"], result["facts"]) == ("cancelled", facts)


@pytest.mark.row("BK-09")
def test_a_stop_that_cannot_be_told_is_rejected_with_the_reason() -> None:
    both = {"a": f"{SHOP}:status", "b": f"{SHOP}:hours"}
    with AdapterHarness(Functions(both)) as harness:
        harness.start()
        harness.call("submit", backend_request("r1", {"operation": "b"}, task_revision=5), "c1")
        harness.wait_for("request_completed", request_id="r1")
        harness.call("cancel", "r1", "too late", "c2")
        rejected = harness.wait_for("cancellation_rejected", command_id="c2")
        with pytest.raises(NotFound):
            harness.call("cancel", "r9", "who?", "c3")

        assert (rejected.request_id, rejected.payload["task_revision"]) == ("r1", 5)
        assert rejected.payload["error"]["code"] == "closed"


def test_functions_without_a_job_refuse_stops_and_updates_at_once() -> None:
    with functions("hours") as harness:
        harness.start()
        with pytest.raises(Unsupported):
            harness.call("cancel", "r1", "please", "c1")
        with pytest.raises(Unsupported):
            harness.call("update", "r1", {}, 2, "c2")


@pytest.mark.row("BK-09")
def test_an_update_is_applied_when_the_function_takes_it_and_moves_its_revision() -> None:
    with functions("takes_updates", updates=True) as harness:
        harness.start()
        harness.call("submit", backend_request("r1"), "c1")
        harness.wait_for("request_started")
        harness.call("update", "r1", {"order": "123"}, 2, "c2")
        applied = harness.wait_for("update_applied", command_id="c2")
        result = harness.wait_for("request_completed").payload["result"]
        harness.call("update", "r1", {"order": "124"}, 3, "c3")
        rejected = harness.wait_for("update_rejected", command_id="c3")

        assert (applied.request_id, applied.payload["task_revision"], applied.payload["outcome"]) == ("r1", 2, "taken")
        assert (result["task_revision"], result["facts"]) == (2, {"changes": [{"order": "123"}]})
        assert (rejected.payload["task_revision"], rejected.payload["error"]["code"]) == (3, "closed")


@pytest.mark.row("BK-09")
def test_an_update_that_was_never_taken_is_rejected_before_the_result(rid: str) -> None:
    with functions("held", updates=True) as harness:
        harness.start()
        harness.call("submit", backend_request(rid), "c1")
        harness.call("update", rid, {"order": "123"}, 2, "c2")
        shop.gates.gate(rid).set()
        harness.wait_for("request_completed")

        types = [event.type for event in harness.sink.events(request_id=rid)]
        assert types == ["request_started", "update_rejected", "request_completed"]


def test_async_functions_share_one_loop_and_run_at_the_same_time() -> None:
    with functions("together") as harness:
        harness.start()
        harness.call("submit", backend_request("r1"), "c1")
        harness.call("submit", backend_request("r2"), "c2")

        names = {harness.wait_for("request_completed", request_id=r).payload["result"]["summary"] for r in ("r1", "r2")}
        assert names == {"functions-loop"}


@pytest.mark.row("BK-03")
def test_close_with_finish_waits_for_the_work_and_takes_no_more(rid: str) -> None:
    with functions("held") as harness:
        harness.start()
        harness.call("submit", backend_request(rid), "c1")
        harness.call("close", ClosePolicy.FINISH, "c2")
        harness.call("close", ClosePolicy.FINISH, "c2")
        with pytest.raises(Closed):
            harness.call("submit", backend_request("r2"), "c3")
        assert harness.sink.events("closed") == []
        shop.gates.gate(rid).set()
        closed = harness.wait_for("closed")

        result = harness.sink.events("request_completed", rid)[0].payload["result"]
        assert result["summary"] == f"{rid} done, stop asked for: False"
        assert closed.payload["uncertain_requests"] == []
        assert len(harness.sink.events("closed")) == 1


def test_close_with_cancel_asks_every_function_to_stop(rid: str) -> None:
    with functions("waits") as harness:
        harness.start()
        harness.call("submit", backend_request(rid), "c1")
        closed = harness.close_adapter(ClosePolicy.CANCEL)

        assert len(harness.sink.events("request_cancelled", rid)) == 1
        assert closed.payload["uncertain_requests"] == []


@pytest.mark.row("BK-03")
def test_work_still_running_at_the_deadline_is_uncertain_and_its_late_result_is_not_told(rid: str) -> None:
    with AdapterHarness(Functions(f"{SHOP}:stubborn"), limits=Limits(shutdown_timeout_ms=80)) as harness:
        harness.start()
        harness.call("submit", backend_request(rid), "c1")
        shop.gates.pass_through(f"{rid} began")
        closed = harness.close_adapter(ClosePolicy.CANCEL)
        (job,) = [thread for thread in threading.enumerate() if thread.name == f"job-{rid[:8]}"]
        shop.gates.gate(rid).set()
        job.join(10)

        assert closed.payload["uncertain_requests"] == [rid]
        assert [event.type for event in harness.sink.events(request_id=rid)] == ["request_started", "request_uncertain"]


@pytest.mark.row("CM-04")
def test_admission_waits_neither_for_the_work_nor_at_close(rid: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parlora.testing.adapters.CALL_TIMEOUT_MS", 500)
    with functions("held") as harness:
        harness.start()
        harness.call("submit", backend_request(rid), "c1")
        harness.call("cancel", rid, "please", "c2")
        harness.call("close", ClosePolicy.FINISH, "c3")

        assert harness.sink.events("closed") == []
        shop.gates.gate(rid).set()
        harness.wait_for("closed")


def test_the_operation_chooses_the_function_and_an_unknown_one_is_refused() -> None:
    with AdapterHarness(Functions({"hours": f"{SHOP}:hours"})) as harness:
        harness.start()
        with pytest.raises(InvalidArgument, match=r"input.operation must be one of hours"):
            harness.call("submit", backend_request("r1", {"operation": "sell"}), "c1")
        harness.call("submit", backend_request("r1", {"operation": "hours"}), "c1")

        harness.wait_for("request_completed", request_id="r1")


def test_the_functions_get_the_options() -> None:
    facts = run("echo_options", options={"delay_ms": 5})[-1][1]["result"]["facts"]

    assert facts == {"delay_ms": 5}


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"handler": "nowhere"}, "handler"),
        ({"handler": f"{SHOP}:missing"}, "handler"),
        ({"handler": f"{SHOP}:no_arguments"}, "handler"),
        ({"handler": f"{SHOP}:SECRET"}, "handler"),
        ({"handler": {}}, "handler"),
        ({"handler": {"x": f"{SHOP}:missing"}}, "handler.x"),
        ({"handler": f"{SHOP}:hours", "updates": True}, "updates"),
        ({"handler": f"{SHOP}:hours", "failure_summary": 7}, "failure_summary"),
    ],
)
def test_a_bad_option_names_its_field(arguments: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Functions(**arguments)

    assert caught.value.details["field"] == field


def test_what_a_job_is_told_is_checked_and_ends_with_it() -> None:
    told: list[str] = []
    job = Job(backend_request("r1"), {}, lambda kind, payload, command_id: told.append(kind))
    with pytest.raises(InvalidArgument):
        job.progress()
    with pytest.raises(InvalidArgument):
        job.progress("x" * 70_000)
    with pytest.raises(InvalidArgument):
        job.ask("")
    job.end()
    with pytest.raises(Closed):
        job.progress("late")

    assert told == []


def lookup(request: BackendRequest) -> None: ...


def test_a_function_may_be_given_itself_where_no_process_lies_between() -> None:
    with AdapterHarness(Functions(lookup)) as harness:
        harness.start()
        harness.call("submit", backend_request("r1"), "c1")

        harness.wait_for("request_completed", request_id="r1")
