"""The call the project is about: asked, corrected while the work runs, answered once, with the right answer."""

from typing import Any

import pytest

from parlora.session import staleness
from parlora.session.effects import Call
from parlora.testing.session_model import SessionModel

from .helpers import only_task, started, supersede


def corrected(model: SessionModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """The caller corrects the order while its lookup runs; the old and the new request."""
    old = model.request()
    model.say("no, one two three")
    model.decide(supersede(only_task(model)))
    return old, model.request()


@pytest.mark.row("CM-16", "BK-12")
def test_an_obsolete_result_is_recorded_and_never_appended() -> None:
    model = started()
    old, new = corrected(model)
    model.complete(old, summary="Order 124 is delivered.")
    model.complete(new, summary="Order 123 is on its way.")

    assert model.appended_texts() == ["Order 123 is on its way."]
    assert [event.payload["current"] for event in model.events("result_recorded")] == [False, True]
    assert model.stages(old["id"]) == ["stale"]
    assert model.stages(new["id"]) == ["awaiting_interpretation", "awaiting_provider", "accepted"]


def test_with_the_staleness_check_switched_off_the_obsolete_result_is_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staleness, "is_current", lambda *_: True)
    model = started()
    old, _ = corrected(model)
    model.complete(old, summary="Order 124 is delivered.")

    assert model.appended_texts() == ["Order 124 is delivered."]


def test_a_correction_asks_the_running_request_to_stop_and_uses_the_same_call() -> None:
    model = started()
    old, new = corrected(model)

    assert [invoke.arguments["request_id"] for invoke in model.invoked(Call.CANCEL)] == [old["id"]]
    assert (new["task_id"], new["task_revision"], new["delegation_id"]) == (old["task_id"], 2, "d1")
    assert model.told("task_superseded").payload["obsolete_request_ids"] == [old["id"]]
