from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parlora.component import Component
from parlora.context.decision import ContextDecision, DecisionKind
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.wire import to_data
from parlora_actors.loop import Loop
from parlora_actors.messages.policy import FROM_POLICY, TO_POLICY, BuildFailed, Decided, Run, Up
from parlora_actors.policy_worker import PolicyInit, PolicyWorker
from tests.unit.actors.shells import Peer, run_until

POLICIES = "tests.unit.actors.policies_under_test"
SNAPSHOT = ContextSnapshot("s", 9, 0, "unknown", {}, [], {}, {})
TRIGGER = ContextTrigger(TriggerKind.DELEGATION, delegation_id="d")

Start = Callable[..., tuple[Peer, Loop]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setattr("parlora_actors.policy_worker.set_batch_scheduling", lambda: None)
    ends: list[Callable[[], None]] = []

    def begin(policy: str, **options: Any) -> tuple[Peer, Loop]:
        loop = Loop()
        peer = Peer(loop, FROM_POLICY, TO_POLICY)
        init = PolicyInit("s", Component(f"{POLICIES}:{policy}", options), peer.descriptor)
        worker = PolicyWorker(to_data(init), loop)
        ends.extend((peer.close, worker._link.close, loop.close))
        return peer, loop

    yield begin
    for end in ends:
        end()


def decided(peer: Peer) -> Decided:
    peer.wait_for(Up)
    peer.send(Run("r", SNAPSHOT, TRIGGER))
    message: Decided = peer.wait_for(Decided, run_id="r")
    return message


def test_a_function_is_called_with_its_options(start: Start) -> None:
    peer, _ = start("plain", task="t7")
    answer = decided(peer)
    assert answer.error is None
    assert answer.decisions == [
        ContextDecision(DecisionKind.WAIT_FOR_CONTEXT, task_id="t7", recheck_after_ms=SNAPSHOT.revision)
    ]


@pytest.mark.parametrize("policy", ["WithInterpret", "factory", "instance"])
def test_a_class_a_factory_and_an_object_with_interpret_are_policies_too(start: Start, policy: str) -> None:
    peer, _ = start(policy)
    assert decided(peer).decisions == [ContextDecision(DecisionKind.CANCEL_TASK, task_id="t", expected_task_revision=1)]


def test_an_exception_is_answered_with_its_type_and_place_and_none_of_its_text(start: Start) -> None:
    peer, _ = start("raises")
    error = decided(peer).error
    assert error is not None
    assert (error["code"], error["message"]) == ("adapter_failed", "context_policy raised KeyError")
    assert "hunter2" not in repr(error)


def test_an_error_of_ours_keeps_its_code(start: Start) -> None:
    peer, _ = start("conflicts")
    assert decided(peer).error == {"code": "conflict", "message": "not now", "details": {"task_id": "t"}}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "list of decisions"),
        ("text", "list of decisions"),
        ({"kind": "cancel_task"}, "list of decisions"),
        ([3], "must be a ContextDecision"),
        ([{"kind": "dance"}], "kind must be one of"),
        ([{"task_id": "t"}], "kind must be one of"),
        ([{"kind": "cancel_task", "wrong": 1}], "no field 'wrong'"),
        ([{"kind": "cancel_task", "task_id": 5}], "task_id must be str"),
        ([{"kind": "cancel_task", "expected_task_revision": True}], "expected_task_revision must be int"),
        ([{"kind": "start_task", "input": []}], "input must be dict"),
    ],
)
def test_what_is_no_list_of_decisions_is_an_error(start: Start, value: Any, says: str) -> None:
    peer, _ = start("returns", value=value)
    answer = decided(peer)
    assert answer.error is not None
    assert says in answer.error["message"]
    assert answer.decisions == []


def test_a_reply_beyond_its_bound_is_an_error(start: Start) -> None:
    peer, _ = start("too_much")
    error = decided(peer).error
    assert error is not None
    assert "at most" in error["message"]


@pytest.mark.parametrize("policy", ["missing", "nothing"])
def test_a_policy_that_cannot_be_built_names_the_field(start: Start, policy: str) -> None:
    peer, _ = start(policy)
    error = peer.wait_for(BuildFailed).error
    assert error["details"]["field"] == "context_policy"


def test_the_worker_ends_with_its_coordinator(start: Start) -> None:
    peer, loop = start("plain")
    peer.wait_for(Up)
    peer.close()
    run_until(loop, lambda: loop.exit_code is not None)
