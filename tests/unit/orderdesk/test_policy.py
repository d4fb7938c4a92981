"""The desk's decisions in whole conversations."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.context.decision import ContextDecision
from parlora.contract.policy import ContextPolicy
from parlora.errors import InvalidArgument
from parlora.orderdesk.grammar import QUESTION
from parlora.orderdesk.policy import OrderDeskPolicy
from tests.unit.policies.snapshots import Desk


def desk(times: bool = True, **options: Any) -> Desk:
    return Desk(OrderDeskPolicy(), options, times)


def kinds(decisions: list[ContextDecision]) -> list[str]:
    return [str(decision.kind) for decision in decisions]


def asked_for(call: Desk, task_id: str) -> tuple[str, str]:
    input = call.tasks[task_id]["input"]
    return input["order"], input["operation"]


def test_it_is_a_context_policy() -> None:
    assert isinstance(OrderDeskPolicy(), ContextPolicy)


@pytest.mark.row("OD-08")
def test_a_question_starts_its_lookup_at_once() -> None:
    call = desk()

    assert kinds(call.asks("what is the status of order one two four")) == ["start_task"]
    assert asked_for(call, "t1") == ("124", "status")


def test_words_without_a_delegation_start_nothing() -> None:
    call = desk()
    call.says("what is the status of order one two four")

    assert call.decide() == []


def test_a_correction_replaces_the_running_lookup_before_it_is_delegated() -> None:
    call = desk()
    call.asks("what is the status of order one two four")
    call.says("actually check order one two three")

    assert kinds(call.decide()) == ["supersede_task"]
    assert (call.tasks["t1"]["revision"], asked_for(call, "t1")) == (2, ("123", "status"))


@pytest.mark.parametrize("times", [True, False])
def test_the_delegation_of_a_correction_is_associated_and_starts_nothing(times: bool) -> None:
    call = desk(times)
    call.asks("what is the status of order one two four")
    call.says("actually check order one two three")
    call.decide()
    call.delegates()

    waits = [] if times else ["wait_for_context"]
    assert kinds(call.settle()) == [*waits, "associate_delegation"]
    assert len(call.tasks) == 1


def test_a_correction_delegated_with_its_words_replaces_too() -> None:
    call = desk()
    call.asks("what is the status of order one two four")

    assert kinds(call.asks("no i meant order one two three")) == ["supersede_task"]
    assert asked_for(call, "t1") == ("123", "status")
    assert call.delegations["d2"]["task_revision"] == 2


def test_that_order_is_the_order_of_the_latest_task() -> None:
    call = desk()
    call.asks("what is the status of order one two four")
    call.asks("actually check order one two three")
    call.settle()
    call.finish("t1")

    assert kinds(call.asks("what items are in that order")) == ["start_task"]
    assert asked_for(call, "t2") == ("123", "items")


def test_another_question_while_a_lookup_runs_runs_beside_it() -> None:
    call = desk()
    call.asks("what is the status of order one two four")
    call.asks("what items are in that order")

    assert [asked_for(call, name) for name in call.tasks] == [("124", "status"), ("124", "items")]
    assert call.tasks["t1"]["revision"] == 1


@pytest.mark.row("OD-03")
@pytest.mark.parametrize("follow_up", ["what is the status", "where is my order", "are you there", "thank you"])
def test_a_status_follow_up_keeps_the_order_and_its_lookup(follow_up: str) -> None:
    call = desk()
    call.asks("what is the status of order one two four")

    assert kinds(call.asks(follow_up)) == ["associate_delegation"]
    assert (call.tasks["t1"]["revision"], asked_for(call, "t1")) == (1, ("124", "status"))
    call.finish("t1")
    assert call.settle() == []


def test_the_same_question_after_its_answer_is_answered_again() -> None:
    call = desk()
    call.asks("check order one two four")
    call.finish("t1")

    assert kinds(call.asks("check order one two four")) == ["start_task"]


@pytest.mark.row("OD-01")
def test_without_a_number_it_waits_two_seconds_and_then_asks_once() -> None:
    call = desk()
    (wait,) = call.asks("what is the status")
    assert (str(wait.kind), wait.delegation_id, wait.recheck_after_ms) == ("wait_for_context", "d1", 2_000)
    call.expire(call.delegations["d1"])
    (question,) = call.decide()

    assert (str(question.kind), question.delegation_id, question.message) == ("request_clarification", "d1", QUESTION)
    assert question.input == {"missing": ["order"], "known_operation": "status"}
    assert call.settle() == []
    assert len(call.questions) == 1


@pytest.mark.row("OD-02", "OD-09")
def test_a_reply_that_is_only_a_number_answers_the_question() -> None:
    call = desk()
    call.asks("what items are in that order")
    call.settle()
    decisions = call.asks("one two four")

    assert kinds(decisions) == ["start_task", "wait_for_context"]
    assert asked_for(call, "t1") == ("124", "items")
    assert kinds(call.settle()) == ["associate_delegation"]


@pytest.mark.row("OD-10")
def test_each_unclear_reply_gets_one_question_more() -> None:
    call = desk()
    call.asks("what is the status")
    call.settle()
    call.asks("thank you")
    call.settle()

    assert [message for message, _ in call.questions] == [QUESTION, QUESTION]
    assert "clarification" not in call.delegations["d2"], "a new call does not displace the open question"


@pytest.mark.row("OD-07")
def test_new_words_of_the_caller_restart_the_wait_and_the_assistants_do_not() -> None:
    call = desk()
    (first,) = call.asks("what is the status")
    call.says("one moment please", speaker="assistant")
    (same,) = call.decide()
    call.says("hello")
    (fresh,) = call.decide()

    assert first.recheck_key == same.recheck_key != fresh.recheck_key


@pytest.mark.row("OD-04")
@pytest.mark.parametrize("times", [True, False])
def test_an_unresolved_correction_holds_the_task_and_stays_unresolved_through_a_status_question(times: bool) -> None:
    call = desk(times)
    call.asks("what is the status of order one two four")
    (wait,) = call.asks("no i meant another order")
    assert (str(wait.kind), wait.task_id) == ("wait_for_context", "t1")
    (wait,) = call.asks("what is the status")
    assert (str(wait.kind), wait.task_id) == ("wait_for_context", "t1")
    assert kinds(call.settle()) == ["request_clarification"]
    call.finish("t1")
    call.says("which order is it", speaker="assistant")
    (held,) = call.decide()
    assert (str(held.kind), held.task_id, held.recheck_after_ms) == ("wait_for_context", "t1", None)
    decisions = call.asks("one two three")

    assert kinds(decisions)[0] == "supersede_task"
    assert (call.tasks["t1"]["revision"], asked_for(call, "t1")) == (2, ("123", "status"))
    call.settle()
    assert {each["task_id"] for each in call.delegations.values()} == {"t1"}


def test_a_call_without_words_and_without_a_task_leads_to_the_question() -> None:
    call = desk()
    call.delegates()

    assert kinds(call.settle()) == ["wait_for_context", "request_clarification"]


def test_a_repeated_call_without_words_is_associated() -> None:
    call = desk(times=False)
    call.asks("check order one two four")
    call.delegates()

    assert kinds(call.settle()) == ["wait_for_context", "associate_delegation"]


@pytest.mark.parametrize(("options", "field"), [({"wait_ms": 0}, "wait_ms"), ({"wait": 1}, "wait")])
def test_a_bad_option_names_its_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        desk(**options).decide()

    assert caught.value.details["field"] == field


sentences = st.sampled_from(
    [
        "check order one two four",
        "what items are in that order",
        "actually check order one two three",
        "actually eight two five",
        "no i meant another order",
        "one two three",
        "thank you",
        "what is the status",
    ]
)
steps = st.lists(sentences.map(lambda text: ("say", text)) | st.sampled_from([("delegate",), ("finish",), ("settle",)]))


@given(steps, st.booleans())
def test_it_always_comes_to_rest_and_names_only_orders_that_were_said(
    script: list[tuple[str, ...]], times: bool
) -> None:
    call = desk(times)
    said: set[str] = set()
    for step in script:
        if step[0] == "say":
            call.says(step[1])
            said |= {n for n, words in NUMBERS.items() if words in step[1]}
        elif step[0] == "delegate":
            call.delegates()
        elif step[0] == "finish":
            for task in call.tasks:
                call.finish(task)
        call.decide()
        if step[0] == "settle":
            call.settle(40)
    call.settle(40)

    assert {task["input"]["order"] for task in call.tasks.values()} <= said
    assert len(call.questions) <= 1 + len(script)


NUMBERS = {"123": "one two three", "124": "one two four", "825": "eight two five"}
