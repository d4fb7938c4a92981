"""Every delegation becomes work once, with the caller's words, whatever order things come in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.contract.policy import ContextPolicy
from parlora.errors import InvalidArgument
from parlora.policies import Delegate
from tests.unit.policies.snapshots import Desk


def desk(times: bool = True, **options: Any) -> Desk:
    return Desk(Delegate(), options, times)


def kinds(decisions: list[ContextDecision]) -> list[str]:
    return [str(decision.kind) for decision in decisions]


def test_it_is_a_context_policy() -> None:
    assert isinstance(Delegate(), ContextPolicy)


def test_a_delegation_becomes_a_task_with_the_words_in_the_order_of_their_arrival() -> None:
    call = desk()
    call.says("when do you")
    call.says("good morning", speaker="assistant")
    call.asks("open?")

    assert call.tasks["t1"]["input"] == {"text": "when do you open?", "heard_through": 3}
    assert call.delegations["d1"]["task_id"] == "t1"


def test_words_alone_start_nothing() -> None:
    call = desk()
    call.says("hello")

    assert call.decide() == []


@pytest.mark.parametrize("times", [True, False])
def test_a_follow_up_gets_only_the_words_since_the_last_delegation(times: bool) -> None:
    call = desk(times)
    call.asks("when do you open")
    call.finish("t1")
    call.asks("and on sunday")

    assert [task["input"]["text"] for task in call.tasks.values()] == ["when do you open", "and on sunday"]


def test_while_the_task_runs_a_follow_up_replaces_its_request_and_keeps_what_it_replaced() -> None:
    call = desk()
    call.asks("when do you open")
    decisions = call.asks("no, when do you close")

    assert kinds(decisions) == ["supersede_task"]
    assert call.tasks["t1"]["input"]["text"] == "no, when do you close"
    assert call.tasks["t1"]["input"]["earlier"] == "when do you open"
    assert (call.delegations["d2"]["task_id"], call.delegations["d2"]["task_revision"]) == ("t1", 2)


def test_with_the_option_new_a_follow_up_runs_beside_the_first() -> None:
    call = desk(follow_up="new")
    call.asks("when do you open")
    call.asks("and where are you")

    assert [task["status"] for task in call.tasks.values()] == ["submitted", "submitted"]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled", "uncertain"])
def test_a_task_that_runs_no_more_is_never_replaced(status: str) -> None:
    call = desk()
    call.asks("when do you open")
    call.finish("t1", status)

    assert kinds(call.asks("and on sunday")) == ["start_task"]


def test_a_repeated_call_whose_words_are_known_to_be_here_is_associated_at_once() -> None:
    call = desk()
    call.asks("when do you open")
    call.delegates()

    assert kinds(call.decide()) == ["associate_delegation"]


def test_a_repeated_call_without_new_words_waits_and_is_then_associated() -> None:
    call = desk(times=False)
    call.asks("when do you open")
    call.delegates()

    assert kinds(call.decide()) == ["wait_for_context"]
    assert call.decide() == []
    assert kinds(call.settle()) == ["associate_delegation"]
    assert len(call.tasks) == 1


def test_words_that_come_after_the_call_are_waited_for() -> None:
    call = desk(times=False)
    call.delegates()
    assert kinds(call.decide()) == ["wait_for_context"]
    call.says("when do you open")

    assert kinds(call.decide()) == ["start_task"]
    assert call.tasks["t1"]["input"]["text"] == "when do you open"


def test_without_any_captions_each_call_is_work_with_an_empty_text() -> None:
    call = desk()
    for _ in range(2):
        call.delegates()
        call.settle()
        call.finish(f"t{len(call.tasks)}")

    assert [task["input"]["text"] for task in call.tasks.values()] == ["", ""]


def test_one_of_two_waiting_calls_gets_the_words_and_the_other_is_associated() -> None:
    call = desk()
    call.says("when do you open")
    call.delegates()
    call.delegates()

    assert kinds(call.decide()) == ["start_task", "wait_for_context"]
    assert kinds(call.settle()) == ["associate_delegation"]
    assert {each["task_id"] for each in call.delegations.values()} == {"t1"}


def test_a_cancelled_call_starts_nothing() -> None:
    call = desk()
    call.says("when do you open")
    call.delegations[call.delegates()]["status"] = "cancelled"

    assert call.decide() == []


@pytest.mark.parametrize(
    ("options", "field"),
    [({"follow_up": "later"}, "follow_up"), ({"wait_ms": 0}, "wait_ms"), ({"wiat_ms": 1}, "wiat_ms")],
)
def test_a_bad_option_names_its_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        desk(**options).decide()

    assert caught.value.details["field"] == field


steps = st.lists(st.sampled_from(["say", "delegate", "decide", "finish", "expire"]), max_size=30)


@given(steps, st.sampled_from(["supersede", "new"]), st.booleans())
def test_every_word_is_handed_on_at_most_once_and_no_call_is_left_open(
    script: list[str], follow_up: str, times: bool
) -> None:
    call = desk(times, follow_up=follow_up)
    handed: list[str] = []

    def decided(decisions: list[ContextDecision]) -> None:
        for decision in decisions:
            if decision.kind in (DecisionKind.START_TASK, DecisionKind.SUPERSEDE_TASK):
                handed.extend((decision.input or {})["text"].split())

    for step in script:
        if step == "say":
            call.says(f"word{call.revision}")
        elif step == "delegate":
            call.delegates()
        elif step == "decide":
            decided(call.decide())
        elif step == "finish":
            for task in call.tasks:
                call.finish(task)
        else:
            decided(call.settle())
    decided(call.settle())

    said = [caption["delta"] for caption in reversed(call.transcripts)]
    assert handed == [word for word in said if word in handed]
    assert len(handed) == len(set(handed))
    assert all(each["status"] == "claimed" for each in call.delegations.values())
