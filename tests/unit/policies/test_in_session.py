"""The policies against the session's real brain: every batch is admitted, every call is answered, answers come out."""

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parlora.backends.job import Job
from parlora.contract.policy import ContextPolicy
from parlora.orderdesk.backend import lookup
from parlora.orderdesk.grammar import QUESTION
from parlora.orderdesk.orders import ORDERS, Operation
from parlora.orderdesk.policy import OrderDeskPolicy
from parlora.policies import Delegate
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.session.state import Phase
from parlora.testing.adapters import backend_request
from parlora.testing.session_model import SessionModel


class Conversation(SessionModel):
    """A ready session with a policy; the caller's words come with times, as from the offline provider, or without."""

    def __init__(self, policy: ContextPolicy, options: dict[str, Any] | None = None, times: bool = True) -> None:
        super().__init__(policy=lambda snapshot, trigger: policy.interpret(snapshot, trigger, options or {}))
        self.ready()
        self._times = times
        self._offset_ms = 0
        self._calls = 0

    def caller_says(self, text: str) -> None:
        self._offset_ms += 1_000
        at = (self._offset_ms - 600, self._offset_ms) if self._times else (None, None)
        caption = {"speaker": "user", "delta": text, "start_ms": at[0], "end_ms": at[1]}
        self.event(Role.PROVIDER, "transcript_delta", caption)

    def provider_delegates(self) -> None:
        self._calls += 1
        offset = self._offset_ms if self._times else None
        payload = {"delegation_id": f"d{self._calls}", "target": "client", "offset_ms": offset}
        self.event(Role.PROVIDER, "delegation_requested", payload)

    def asks(self, text: str) -> None:
        """Words and the call they lead to. Without times a policy that acted on the words waits a second for others."""
        self.caller_says(text)
        self.provider_delegates()
        self.advance(5 if self._times else 1_100)

    def look_up(self, position: int = -1) -> None:
        """The desk's real lookup answers a request."""
        request = self.request(position)
        plain = backend_request(request["id"], request["input"])
        self.complete(request, summary=lookup(plain, Job(plain, {}, lambda *told: None)).summary)

    def statuses(self) -> list[str]:
        return [each["status"] for each in self.snapshot()["pending_delegations"].values()]

    def spoken(self) -> list[str]:
        appended = [invoke.arguments["update"] for invoke in self.invoked(Call.APPEND_CONTEXT)]
        return [update["text"] for update in appended if update["kind"] == "speakable"]


def answer(number: str, operation: Operation) -> str:
    return ORDERS[number].sentence(operation)


@pytest.mark.parametrize("times", [True, False])
def test_the_demonstration_says_what_was_asked_last_and_never_what_was_taken_back(times: bool) -> None:
    call = Conversation(OrderDeskPolicy(), times=times)
    call.asks("what is the status of order one two four")
    call.asks("actually check order one two three")
    call.look_up()
    call.look_up(0)
    call.asks("what are the delivery instructions for that order")
    call.look_up()
    call.asks("what items are in that order")
    call.look_up()

    assert call.spoken() == [
        answer("123", Operation.STATUS),
        answer("123", Operation.DELIVERY),
        answer("123", Operation.ITEMS),
    ]
    assert call.stages(call.request(0)["id"]) == ["stale"]
    assert call.statuses() == ["claimed"] * 4
    assert call.events("policy_rejected") == []


@pytest.mark.parametrize("times", [True, False])
def test_a_correction_in_words_alone_withholds_the_answer_at_once(times: bool) -> None:
    call = Conversation(OrderDeskPolicy(), times=times)
    call.asks("what is the status of order one two four")
    call.caller_says("actually check order one two three")
    call.look_up(0)
    call.provider_delegates()
    call.advance(5 if times else 1_100)
    call.look_up()

    assert call.spoken() == [answer("123", Operation.STATUS)]
    assert call.statuses() == ["claimed", "claimed"]


@pytest.mark.row("OD-01", "OD-02")
def test_without_a_number_the_desk_asks_after_two_seconds_and_takes_a_bare_number() -> None:
    call = Conversation(OrderDeskPolicy())
    call.asks("what is the status")
    call.advance(1_900)
    assert call.spoken() == []
    call.advance(200)
    call.asks("one two three")
    call.look_up()

    assert call.spoken() == [QUESTION, answer("123", Operation.STATUS)]


@pytest.mark.row("OD-04")
def test_while_a_correction_is_open_the_finished_lookup_is_held() -> None:
    call = Conversation(OrderDeskPolicy())
    call.asks("what is the status of order one two four")
    call.asks("no i meant another order")
    call.look_up()
    call.advance(2_100)
    call.say("which order is it", speaker="assistant")
    call.asks("what is the status")
    call.advance(2_100)
    assert call.spoken() == [QUESTION, QUESTION]
    call.asks("one two three")
    call.look_up()

    assert call.spoken()[2:] == [answer("123", Operation.STATUS)]


@pytest.mark.row("OD-03")
def test_a_status_follow_up_neither_repeats_nor_delays_the_answer() -> None:
    call = Conversation(OrderDeskPolicy())
    call.asks("what is the status of order one two four")
    call.asks("are you there")
    call.asks("what is the status")
    call.look_up()

    assert call.spoken() == [answer("124", Operation.STATUS)]
    assert len(call.snapshot()["tasks"]) == 1


def test_delegate_answers_the_last_words_and_drops_what_they_replaced() -> None:
    call = Conversation(Delegate())
    call.asks("when do you open")
    call.asks("no when do you close")
    call.complete(call.request(), summary="at five")
    call.complete(call.request(0), summary="at nine")
    call.asks("thank you")
    call.complete(call.request(), summary="you are welcome")

    assert call.spoken() == ["at five", "you are welcome"]
    assert call.request(1)["input"]["earlier"] == "when do you open"


def test_delegate_with_new_answers_both() -> None:
    call = Conversation(Delegate(), {"follow_up": "new"})
    call.asks("when do you open")
    call.asks("and where are you")
    call.complete(call.request(1), summary="in the old town")
    call.complete(call.request(0), summary="at nine")

    assert call.spoken() == ["in the old town", "at nine"]


sentences = st.sampled_from(
    [
        "check order one two four",
        "what items are in that order",
        "actually check order one two three",
        "no i meant another order",
        "one two three",
        "thank you",
        "what is the status",
    ]
)
step = (
    sentences.map(lambda text: partial(Conversation.caller_says, text=text))
    | sentences.map(lambda text: partial(Conversation.asks, text=text))
    | st.just(Conversation.provider_delegates)
    | st.sampled_from([1, 500, 3_000]).map(lambda ms: partial(Conversation.advance, ms=ms))
    | st.integers(0, 7).map(lambda position: partial(finish, position=position))
    | st.sampled_from(["speaking", "idle"]).map(lambda status: partial(speech, status=status))
)


def finish(call: Conversation, position: int) -> None:
    open_requests = [
        (job["task_id"], request_id)
        for request_id, job in call.status()["jobs"].items()
        if job["status"] == "submitted" and job.get("admission") == "settled"
    ]
    if open_requests:
        task_id, request_id = open_requests[position % len(open_requests)]
        revision = call.status()["jobs"][request_id]["task_revision"]
        call.complete({"id": request_id, "task_id": task_id, "task_revision": revision}, summary=f"of {request_id}")


def speech(call: Conversation, status: str) -> None:
    call.event(Role.PROVIDER, "provider_speech", {"status": status})


@settings(max_examples=60, deadline=None)
@given(st.lists(step, max_size=14), st.sampled_from(["desk", "supersede", "new"]), st.booleans())
def test_no_batch_is_ever_rejected_and_no_call_stays_open(script: list[Any], which: str, times: bool) -> None:
    if which == "desk":
        call = Conversation(OrderDeskPolicy(), times=times)
    else:
        call = Conversation(Delegate(), {"follow_up": which}, times=times)
    for each in script:
        each(call)
    call.advance(10_000)

    assert call.events("policy_rejected") == [], call.story()
    assert call.events("policy_failed") == [], call.story()
    assert call.state.lifecycle.phase is Phase.READY, call.story()
    if which != "desk":
        assert "pending" not in call.statuses(), call.story()
    elif "pending" in call.statuses():
        # Only an open question of the desk's may keep calls, and with them answers, waiting.
        assert QUESTION in call.spoken(), call.story()
