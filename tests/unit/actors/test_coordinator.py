import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parlora.audio.port import Loss
from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.contract.channel import OutputPacing
from parlora.events import Event
from parlora.session import effects, inputs
from parlora.session.roles import Role
from parlora_actors.coordinator import EXIT_ABANDONED
from parlora_actors.coordinator_callers import MAX_UNSENT
from parlora_actors.door import MAX_AWAITING
from parlora_actors.messages import host, owner, pipeline, policy, supervision
from parlora_actors.timing import now_us
from tests.unit.actors.coordinating import SNAPSHOT, SPEC, Subject, event
from tests.unit.actors.shells import run_until


@pytest.fixture
def start() -> Iterator[Callable[..., Subject]]:
    subjects: list[Subject] = []
    with tempfile.TemporaryDirectory(prefix="parlora-") as directory:

        def begin(**options: Any) -> Subject:
            subjects.append(Subject(directory, **options))
            return subjects[-1]

        yield begin
        for subject in subjects:
            subject.close()


Start = Callable[..., Subject]


def test_the_first_input_is_begin_and_every_input_has_a_fresh_seed(start: Start) -> None:
    subject = start()
    subject.wait(inputs.Begin)
    client = subject.client()
    client.call("status")
    subject.wait(inputs.Called)
    assert isinstance(subject.brain.inputs[0], inputs.Begin)
    assert len({given.fresh for given in subject.brain.inputs}) == len(subject.brain.inputs)


def test_what_is_sent_before_a_process_is_there_waits_for_it(start: Start) -> None:
    subject = start()
    subject.answer(inputs.Begin, effects.StartAdapter(Role.CHANNEL, "a", 0))
    subject.wait(inputs.Begin)
    channel = subject.role(Role.CHANNEL, 1, owner.TO_OWNER, owner.FROM_OWNER)
    assert channel.wait_for(owner.Start) == owner.Start("a", 0, SPEC.deadline_us)


def test_messages_of_every_role_become_inputs(start: Start) -> None:
    subject = start()
    loss = Loss(1, 2, 3)
    backend = subject.role(Role.BACKEND, 1, owner.TO_OWNER, owner.FROM_OWNER)
    pipe = subject.role(Role.OUTPUT_PIPELINE, 1, pipeline.TO_PIPELINE, pipeline.FROM_PIPELINE)
    worker = subject.role(Role.POLICY, 1, policy.TO_POLICY, policy.FROM_POLICY)
    backend.send(owner.Observed(event("ready", "backend")))
    backend.send(owner.Replied("c", {"code": "x"}))
    for message in (
        pipeline.Drained(loss),
        pipeline.Done("c", 2, loss),
        pipeline.Lost("output", "why", loss),
        pipeline.Stalled(2, 9),
    ):
        pipe.send(message)
    worker.send(policy.Up())
    worker.send(policy.Decided("r", []))
    worker.send(policy.BuildFailed({"code": "invalid_argument"}))
    assert subject.wait(inputs.AdapterEvent).role is Role.BACKEND
    assert subject.wait(inputs.CommandReplied).error == {"code": "x"}
    assert subject.wait(inputs.PipelineDrained).loss == loss
    assert subject.wait(inputs.PipelineReplied).epoch == 2
    assert subject.wait(inputs.PipelineLost).cause == "why"
    assert subject.wait(inputs.PipelineStalled).blocked_us == 9
    assert subject.wait(inputs.PolicyUp)
    assert subject.wait(inputs.PolicyReplied).run_id == "r"
    assert subject.wait(inputs.ProcessDown).error == {"code": "invalid_argument"}


def test_effects_for_processes_reach_them(start: Start) -> None:
    subject = start()
    backend = subject.role(Role.BACKEND, 1, owner.TO_OWNER, owner.FROM_OWNER)
    captured = subject.role(Role.INPUT_PIPELINE, 1, pipeline.TO_PIPELINE, pipeline.FROM_PIPELINE)
    output = subject.role(Role.OUTPUT_PIPELINE, 1, pipeline.TO_PIPELINE, pipeline.FROM_PIPELINE)
    worker = subject.role(Role.POLICY, 1, policy.TO_POLICY, policy.FROM_POLICY)
    subject.act(
        effects.Invoke(Role.BACKEND, "c", effects.Call.CLOSE, {"policy": "finish"}, 7),
        effects.DrainCapture(),
        effects.OpenAudio(OutputPacing.CHANNEL),
        effects.ControlPipeline(Role.OUTPUT_PIPELINE, "k", epoch=3),
        effects.StopPipelines(),
        effects.RunPolicy("r", SNAPSHOT, ContextTrigger(TriggerKind.DELEGATION, "d")),
        effects.ReplacePolicy("late"),
        effects.Mirror("q", False, {"task_id": "t"}),
        effects.BeginTeardown(99, "asked"),
        effects.ReapChildren(True),
    )
    assert backend.wait_for(owner.Invoke) == owner.Invoke("c", effects.Call.CLOSE, {"policy": "finish"}, 7)
    captured.wait_for(pipeline.Stop)
    assert captured.received == [pipeline.Drain(), pipeline.Open(OutputPacing.CHANNEL), pipeline.Stop()]
    assert output.wait_for(pipeline.Control) == pipeline.Control("k", 3, None)
    assert worker.wait_for(policy.Run).snapshot == SNAPSHOT
    subject.supervisor.wait_for(supervision.Reap)
    assert subject.supervisor.received == [
        supervision.ReplacePolicy("late"),
        supervision.RequestMirror("q", False, {"task_id": "t"}),
        supervision.Teardown(99, "asked"),
        supervision.Reap(True),
    ]


def test_what_a_dead_process_still_said_comes_before_its_death(start: Start) -> None:
    subject = start()
    subject.loop.run_ready(0.01)
    channel = subject.role(Role.CHANNEL, 1, owner.TO_OWNER, owner.FROM_OWNER)
    run_until(subject.loop, lambda: Role.CHANNEL in subject.coordinator._roles._links)
    channel.send(owner.Observed(event("failed", "channel")))
    channel.close()
    subject.coordinator._on_supervisor(supervision.RoleDown(Role.CHANNEL, 1, "exit 1"))
    kinds = [type(given) for given in subject.brain.inputs]
    assert kinds[-2:] == [inputs.AdapterEvent, inputs.ProcessDown]


def test_the_death_of_a_replaced_incarnation_is_no_news(start: Start) -> None:
    subject = start()
    subject.role(Role.POLICY, 2, policy.TO_POLICY, policy.FROM_POLICY)
    run_until(subject.loop, lambda: Role.POLICY in subject.coordinator._roles._links)
    subject.supervisor.send(supervision.RoleDown(Role.POLICY, 1, "signal 9"))
    subject.supervisor.send(supervision.RoleDown(Role.POLICY, 2, "signal 11"))
    assert subject.wait(inputs.ProcessDown).cause == "signal 11"
    assert len(subject.brain.seen(inputs.ProcessDown)) == 1


def test_a_timer_fires_once_and_a_cancelled_one_never(start: Start) -> None:
    subject = start()
    subject.act(
        effects.ArmTimer("a", now_us() + 5_000),
        effects.ArmTimer("b", now_us() + 5_000),
        effects.CancelTimer("b"),
        effects.CancelTimer("unknown"),
    )
    subject.wait(inputs.TimerFired)
    time.sleep(0.01)
    subject.loop.run_ready(0.01)
    assert [given.timer_id for given in subject.brain.seen(inputs.TimerFired)] == ["a"]


def test_a_call_carries_the_counters_of_both_rings_and_gets_its_answer(start: Start) -> None:
    subject = start()
    writer = subject.rings[0].writer()
    writer.write(bytes(960), duration_us=20_000)
    client = subject.client()
    subject.answer(inputs.Called, effects.Answer("caller-1", "1", {"status": "ready"}))
    client.call("status")
    assert client.wait_for(host.Answer) == host.Answer("1", {"status": "ready"}, None)
    called = subject.wait(inputs.Called)
    assert (called.caller, called.call_id, called.operation) == ("caller-1", "1", "status")
    assert (called.counters.input_forwarded.frames, called.counters.input_forwarded.bytes) == (1, 960)
    assert called.counters.input_forwarded.last_at_us is not None
    assert called.counters.output_forwarded == inputs.Forwarded()


@pytest.mark.row("HP-06")
def test_the_two_directions_are_sampled_one_after_the_other(start: Start) -> None:
    """Not as one transaction: what the second ring gets while the first has been read already is in the sample."""
    subject = start()
    uplink, playback = subject.coordinator._forwarded
    writer = subject.rings[1].writer()

    class WritesMeanwhile:
        def stats(self) -> Any:
            read = uplink.stats()
            writer.write(bytes(960), duration_us=20_000)
            return read

    subject.coordinator._forwarded = (WritesMeanwhile(), playback)  # type: ignore[assignment]
    client = subject.client()
    client.call("status")
    counters = subject.wait(inputs.Called).counters
    assert (counters.input_forwarded.frames, counters.output_forwarded.frames) == (0, 1)


def test_events_go_to_subscriptions_and_lifecycle_to_everybody(start: Start) -> None:
    subject = start()
    subscriber, other = subject.client(), subject.client()
    subject.act(
        effects.Attach("caller-1", "sub"),
        effects.Emit(event("task_submitted")),
        effects.Emit(event("ready")),
        effects.Detach("caller-1", "sub", "enough"),
        effects.Emit(event("task_submitted")),
    )
    subscriber.wait_for(host.Unsubscribed)
    other.wait_for(host.EventSent)
    sent = [(m.subscription_id, m.event.type) for m in subscriber.received if isinstance(m, host.EventSent)]
    assert sent == [("sub", "task_submitted"), (None, "ready"), ("sub", "ready")]
    assert [m.event.type for m in other.received if isinstance(m, host.EventSent)] == ["ready"]
    assert subscriber.wait_for(host.Unsubscribed) == host.Unsubscribed("s", "sub", "enough")


def test_a_late_connection_is_told_the_lifecycle_so_far(start: Start) -> None:
    subject = start()
    subject.act(effects.Emit(event("ready")))
    assert subject.client().wait_for(host.EventSent).event.type == "ready"


def test_a_caller_that_does_not_read_loses_its_subscription_and_nobody_else_does(start: Start) -> None:
    subject = start()
    slow, quick = subject.client(), subject.client()
    subject.act(effects.Attach("caller-1", "slow"), effects.Attach("caller-2", "quick"))
    big = Event("e", "session", "extension", "s", None, 0, None, None, 0, {"text": "x" * 1_000})
    for _ in range(MAX_UNSENT + 1_500):
        subject.act(effects.Emit(big))
        quick.received += quick.link.receive()
        quick.received.clear()
        subject.loop.run_ready(0)
    assert subject.coordinator._callers.subscriptions("caller-1") == ()
    assert subject.coordinator._callers.subscriptions("caller-2") == ("quick",)
    called = subject.brain.seen(inputs.Called)[-1]
    assert (called.caller, called.operation, called.arguments) == (
        "caller-1",
        "unsubscribe",
        {"subscription_id": "slow"},
    )
    assert slow.wait_for(host.Unsubscribed).reason == "slow_consumer"


def test_a_connection_that_says_no_hello_is_hung_up_on(start: Start) -> None:
    subject = start()
    silent = subject.client(greet=False)
    began = time.monotonic()
    silent.wait_end()
    assert 0.5 < time.monotonic() - began < 4
    assert not subject.brain.seen(inputs.CallerGone)


def test_a_call_before_the_hello_and_malformed_bytes_are_hung_up_on(start: Start) -> None:
    subject = start()
    hasty, garbled = subject.client(greet=False), subject.client(greet=False)
    hasty.call("status")
    garbled.socket.send(b"\xff" * 64)
    hasty.wait_end()
    garbled.wait_end()
    assert not subject.brain.seen(inputs.Called)


def test_another_major_protocol_gets_our_hello_and_no_more(start: Start) -> None:
    subject = start()
    client = subject.client(greet=False)
    client.link.send(host.Hello(host.PROTOCOL_MAJOR + 1, 0, "future"))
    assert client.wait_for(host.Hello).major == host.PROTOCOL_MAJOR
    client.wait_end()


def test_only_so_many_connections_may_await_their_handshake(start: Start) -> None:
    subject = start()
    waiting = [subject.client(greet=False) for _ in range(MAX_AWAITING)]
    run_until(subject.loop, lambda: len(subject.coordinator._callers.door._guests) == MAX_AWAITING)
    subject.client(greet=False).wait_end()
    assert not any(client.link.closed for client in waiting)


def test_the_end_of_a_connection_is_an_input(start: Start) -> None:
    subject = start()
    client = subject.client()
    client.link.close()
    assert subject.wait(inputs.CallerGone).caller == "caller-1"


@pytest.mark.row("SL-55")
def test_a_session_held_for_its_sink_begins_with_the_first_call(start: Start) -> None:
    subject = start(hold=True)
    client = subject.client()
    assert not subject.brain.inputs
    client.call("subscribe", subscription_id="sub")
    subject.wait(inputs.Called)
    assert [type(given) for given in subject.brain.inputs] == [inputs.Begin, inputs.Called]


def test_a_session_is_not_held_for_ever(start: Start) -> None:
    subject = start(hold=True)
    began = time.monotonic()
    subject.wait(inputs.Begin)
    assert 0.5 < time.monotonic() - began < 4


def test_the_end_flushes_tells_the_supervisor_and_leaves(start: Start) -> None:
    subject = start()
    client = subject.client()
    subject.act(effects.Attach("caller-1", "sub"), effects.Emit(event("closed")), effects.Exit())
    run_until(subject.loop, lambda: subject.loop.exit_code is not None)
    client.wait_for(host.EventSent)
    assert subject.supervisor.wait_for(supervision.Closed).payload == {"n": 1}


def test_a_caller_that_does_not_read_delays_the_end_by_a_moment_only(start: Start) -> None:
    subject = start()
    subject.client()
    subject.act(effects.Attach("caller-1", "sub"))
    big = Event("e", "session", "extension", "s", None, 0, None, None, 0, {"text": "x" * 100_000})
    subject.act(*[effects.Emit(big) for _ in range(30)], effects.Exit())
    began = time.monotonic()
    run_until(subject.loop, lambda: subject.loop.exit_code == 0)
    assert 0.1 < time.monotonic() - began < 2


def test_without_its_supervisor_it_ends_at_once(start: Start) -> None:
    subject = start()
    subject.supervisor.close()
    run_until(subject.loop, lambda: subject.loop.exit_code == EXIT_ABANDONED)


def test_the_last_words_of_all_roles_are_read_before_the_children_are_gone(start: Start) -> None:
    subject = start()
    backend = subject.role(Role.BACKEND, 1, owner.TO_OWNER, owner.FROM_OWNER)
    run_until(subject.loop, lambda: Role.BACKEND in subject.coordinator._roles._links)
    backend.send(owner.Observed(event("closed", "backend")))
    subject.coordinator._on_supervisor(supervision.Gone(2, ["left"]))
    kinds = [type(given) for given in subject.brain.inputs]
    assert kinds[-2:] == [inputs.AdapterEvent, inputs.ChildrenGone]
    assert subject.brain.seen(inputs.ChildrenGone)[0].left == ("left",)
