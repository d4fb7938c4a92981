"""A backend may answer twice, wrongly, too late or without end: what is told stays true, and the audio goes on."""

from collections.abc import Callable
from typing import Any

import pytest

from parlora.testing import scripted
from parlora.testing.script import Step, acknowledge, delegate, emit, expect, finish, pause, progress, ref, started
from tests.contract.whole import EVERYTHING, end
from tests.sessions import Call, wait_for

Start = Callable[..., Call]


def one_task(*script: Step, told: str = "Done.", **options: Any) -> dict[str, Any]:
    provider = scripted.provider(delegate("d1"), expect("append_context", text=told, name="told"), acknowledge("told"))
    return {**EVERYTHING, "provider": provider, "backend": scripted.backend(*script), **options}


def test_a_backend_that_answers_twice_is_believed_once(call: Start) -> None:
    work = expect("submit", name="work")
    session = call(**one_task(work, finish("work", "Done."), finish("work", "Done, really."))).ready()

    rejected = session.event("event_rejected", "session")
    assert rejected.payload["error"]["code"] == "conflict"
    session.event("result_delivery", "session", stage="accepted")
    end(session)
    assert len(session.of("result_recorded")) == 1


def test_an_answer_for_another_request_changes_nothing_for_this_one(call: Start) -> None:
    other = finish("work", "Lies.", request_id="nobody")
    wrong = {**other, "request_id": "nobody"}
    session = call(**one_task(expect("submit", name="work"), wrong, other, finish("work", "Done."))).ready()

    session.event("result_delivery", "session", stage="accepted")
    codes = [event.payload["error"]["code"] for event in session.of("event_rejected")]
    assert codes == ["not_found", "conflict"]
    end(session)


def test_an_answer_after_close_is_never_told(call: Start) -> None:
    closes = expect("close", emit("closed", {"uncertain_requests": []}), name="end")
    session = call(
        **{
            **EVERYTHING,
            "provider": scripted.provider(delegate("d1")),
            "backend": scripted.backend(
                expect("submit", name="work"), started("work"), closes, finish("work", "Late.")
            ),
        }
    ).ready()
    session.event("request_started", "backend")
    request_id = session.event("task_submitted").request_id
    closed = end(session)

    assert closed["reason"] == "requested"
    late = [event for event in session.of("request_completed", "backend") if event.request_id == request_id]
    assert set(closed["jobs"]) == (set() if late else {request_id})  # known only if it came before the end
    assert not any(
        event.payload["stage"] in ("accepted", "awaiting_provider") for event in session.of("result_delivery")
    )


def test_a_flood_of_progress_delays_no_frame(call: Start) -> None:
    flood = [progress("work", times=1_000, percent=1), pause(200)] * 3
    session = call(**one_task(expect("submit", name="work"), *flood, finish("work", "Done."))).ready()

    session.event("result_delivery", "session", stage="accepted")
    assert len(session.of("request_progress", "backend")) == 3_000
    end(session)


def test_a_flood_beyond_every_bound_ends_the_session_in_order(call: Start) -> None:
    flood = progress("work", times=200_000, text="x" * 500)
    provider = scripted.provider(delegate("d1"))
    session = call(
        **{**EVERYTHING, "provider": provider, "backend": scripted.backend(expect("submit", name="work"), flood)}
    ).ready()
    closed = session.closed()

    assert (closed["reason"], closed["cause"]) == ("failed", "adapter_failed")
    assert session.event("failed", "backend").payload["error"]["code"] == "backpressure"
    assert [job["status"] for job in closed["jobs"].values()] == ["uncertain"]


@pytest.mark.row("BK-28")
@pytest.mark.parametrize(
    ("expected_revision", "applied"), [(2, True), (3, False)], ids=["as the session sends it", "as it should not be"]
)
def test_updates_are_correlated_by_the_fake_backend(call: Start, expected_revision: int, applied: bool) -> None:
    applied_event = emit(
        "update_applied",
        {"task_revision": 2, "outcome": "applied", "error": None},
        command_id=ref("change.command_id"),
        request_id=ref("work.request_id"),
    )
    session = call(
        **{
            **EVERYTHING,
            "context_policy": "tests.contract.test_backends:start_then_update",
            "provider": scripted.provider(delegate("d1"), pause(300), delegate("d2")),
            "backend": scripted.backend(
                expect("submit", name="work"),
                expect("update", request_id=ref("work.request_id"), task_revision=expected_revision, name="change"),
                applied_event,
            ),
        }
    ).ready()
    if applied:
        session.event("update_applied", "backend")
        wait_for("the new revision", lambda: any(
            job["task_revision"] == 2 for job in session.session.status()["jobs"].values()
        ))  # fmt: skip
        end(session)
    else:
        assert session.closed()["cause"] == "adapter_failed"
        with pytest.raises(AssertionError, match=r"unexpected update\(.*task_revision=2"):
            scripted.check_scripts(session.events)


def start_then_update(snapshot: Any, trigger: Any, options: Any) -> list[dict[str, Any]]:
    tasks = list(snapshot.tasks.values())
    if not snapshot.pending_delegations or trigger.delegation_id is None:
        return []
    if not tasks:
        return [{"kind": "start_task", "delegation_id": trigger.delegation_id, "input": {"order": "124"}}]
    target = {"task_id": tasks[0]["id"], "expected_task_revision": tasks[0]["revision"]}
    return [{"kind": "update_task", "delegation_id": trigger.delegation_id, "input": {"order": "123"}, **target}]
