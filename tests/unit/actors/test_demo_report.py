"""The demonstration's verdict: every way in which the call can go wrong keeps `ok` from being true."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from parlora.events import Event
from parlora.orderdesk.orders import ORDERS, Operation
from parlora_actors.demo_ledger import QUIET_US, CallLedger
from parlora_actors.demo_proof import Heard
from parlora_actors.demo_report import EXPECTED, report

_at = itertools.count(1_000_000, 1_000)


def event(source: str, type: str, request_id: str | None = None, **payload: Any) -> Event:
    return Event("e", source, type, "s", None, 0, None, request_id, next(_at), payload)


def submitted(request_id: str, order: str, operation: str = "status") -> Event:
    request = {"id": request_id, "input": {"order": order, "operation": operation}}
    return event("session", "task_submitted", request_id, request=request, admission="accepted")


def said(text: str) -> str:
    return " ".join("".join(c for c in text.lower() if c.isalpha() or c == " ").split())


def sentence(number: str, operation: Operation) -> str:
    return ORDERS[number].sentence(operation)


def the_call() -> dict[str, Event]:
    return {
        "ready": event("session", "ready"),
        "asked 124": submitted("r1", "124"),
        "asked 123": submitted("r2", "123"),
        "superseded": event("session", "task_superseded", "r2", obsolete_request_ids=["r1"]),
        "done 123": event("backend", "request_completed", "r2"),
        "told 123": event("session", "result_delivery", "r2", stage="accepted"),
        "caption 1": event(
            "provider", "transcript_delta", speaker="assistant", delta=sentence("123", Operation.STATUS)
        ),
        "done 124": event("backend", "request_completed", "r1"),
        "withheld 124": event("session", "result_delivery", "r1", stage="stale"),
        "interrupted": event("provider", "output_interrupted", token="t"),
        "caption 2": event("provider", "transcript_delta", speaker="assistant", delta=sentence("123", Operation.ITEMS)),
        "idle": event("provider", "provider_speech", status="idle"),
    }


def ledger_of(events: dict[str, Event]) -> CallLedger:
    ledger = CallLedger(0, EXPECTED)
    for each in events.values():
        ledger.observe(each)
    return ledger


HEARD = [
    Heard(0, 1, said(sentence("123", Operation.STATUS))),
    Heard(2, 3, ""),
    Heard(4, 5, said(sentence("123", Operation.ITEMS))),
]


def test_a_call_as_it_should_be_is_ok() -> None:
    result = report(ledger_of(the_call()), HEARD, 14, [])
    assert result["problems"] == []
    assert result["ok"] is True
    assert (result["superseded"], result["late_results"], result["withheld"]) == (1, 1, 1)
    assert result["stale_results_spoken"] == 0
    assert [(each["order"], each["operation"]) for each in result["answers"]] == list(EXPECTED)


@pytest.mark.parametrize(
    ("missing", "problem"),
    [
        ("superseded", "was not superseded"),
        ("done 124", "did not arrive after the correction"),
        ("withheld 124", "was not withheld"),
        ("interrupted", "0 interruptions"),
    ],
)
def test_a_call_that_lacks_something_is_not_ok_and_says_what(missing: str, problem: str) -> None:
    events = the_call()
    del events[missing]
    result = report(ledger_of(events), HEARD[::2], 14, [])
    assert result["ok"] is False
    assert any(problem in each for each in result["problems"])


@pytest.mark.parametrize(
    ("heard", "problem"),
    [
        (HEARD[:1], "items of order 123 was not heard"),
        (HEARD[1:], "status of order 123 was not heard"),
        ([*HEARD, Heard(6, 7, said(sentence("124", Operation.STATUS)))], "should not have been said"),
        ([*HEARD, Heard(6, 7, "order one two four")], "should not have been said"),
        ([*HEARD, Heard(6, 7, "order one two three was cancelled on monday")], "should not have been said"),
        ([*HEARD, Heard(6, 7, "")], "2 utterances were not recognized"),
        ([], "status of order 123 was not heard"),
    ],
)
def test_what_was_heard_decides(heard: list[Heard], problem: str) -> None:
    result = report(ledger_of(the_call()), heard, 14, [])
    assert result["ok"] is False
    assert any(problem in each for each in result["problems"])


def test_a_result_before_the_correction_is_not_late() -> None:
    events = the_call()
    early = {"ready": events["ready"], "asked 124": events["asked 124"], "done 124": event("backend", "x")}
    ledger = ledger_of(early)
    ledger.observe(event("backend", "request_completed", "r1"))
    ledger.observe(event("session", "task_superseded", "r2", obsolete_request_ids=["r1"]))
    assert report(ledger, HEARD, 14, [])["late_results"] == 0


def test_something_left_behind_is_not_ok() -> None:
    result = report(ledger_of(the_call()), HEARD, 14, ["process 7"])
    assert result["ok"] is False
    assert result["leftovers"] == ["process 7"]


def test_the_call_is_over_when_all_is_answered_and_it_is_quiet() -> None:
    events = the_call()
    idle = events["idle"].at_us
    ledger = ledger_of(events)
    assert not ledger.is_over(idle)
    assert ledger.is_over(idle + QUIET_US)
    ledger.observe(event("provider", "provider_speech", status="speaking"))
    assert not ledger.is_over(idle + 10 * QUIET_US)


@pytest.mark.parametrize("missing", ["caption 1", "caption 2", "done 124", "idle"])
def test_the_call_goes_on_while_something_is_missing(missing: str) -> None:
    events = the_call()
    del events[missing]
    assert not ledger_of(events).is_over(10**12)
