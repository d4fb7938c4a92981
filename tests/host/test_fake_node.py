"""The host library against a node that answers as scripted: what it delivers, refuses and cleans up."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from parlora import (
    ActorHost,
    Backpressure,
    Closed,
    Event,
    InvalidArgument,
    NotFound,
    Session,
    Subscriber,
    Timeout,
    Unsubscribed,
    Unsupported,
)
from parlora.testing import leftovers

Start = Callable[..., Session]


def types(events: list[Event]) -> list[str]:
    return [event.type for event in events]


def test_the_sink_gets_every_event_from_the_first_to_one_closed(start: Start) -> None:
    seen: list[object] = []
    session = start({"event_sink": seen.append}, script=["extension", "ready"])
    session.wait_ready()
    session.close()
    session.wait_closed()
    deadline = threading.Event()
    for _ in range(500):
        if seen and isinstance(seen[-1], Event) and seen[-1].type == "closed":
            break
        deadline.wait(0.01)
    assert types([event for event in seen if isinstance(event, Event)]) == ["extension", "ready", "closed"]


def test_a_sink_that_raises_gets_the_later_events_too(start: Start) -> None:
    closed = threading.Event()

    def sink(event: object) -> None:
        if isinstance(event, Event) and event.type == "closed":
            closed.set()
        raise ValueError("of the application")

    session = start({"event_sink": sink})
    session.close()
    session.wait_closed()
    assert closed.wait(5)


def test_failed_is_raised_by_wait_ready_with_its_field(start: Start) -> None:
    error = {"code": "invalid_argument", "message": "cannot import x:Y", "details": {"field": "channel"}}
    session = start({"event_sink": Subscriber()}, script=[["failed", {"cause": "start", "error": error}]])
    with pytest.raises(InvalidArgument, match="cannot import") as caught:
        session.wait_ready()
    assert caught.value.details["field"] == "channel"


def test_wait_ready_has_a_deadline(start: Start) -> None:
    session = start({"event_sink": Subscriber()}, script=[])
    with pytest.raises(Timeout):
        session.wait_ready(0.05)


def test_calls_carry_their_arguments_and_bring_their_answers(start: Start) -> None:
    session = start()
    assert session.status() == {"status": "ready", "session_id": session.id}
    assert session.append_context({"kind": "speakable", "text": "hello"}, "c1") == "c1"
    session.control(("clear_output", "next"), "c2")
    session.update_context({"customer": 7})
    with pytest.raises(NotFound, match="no such request"):
        session.cancel("r1", 1, "c3")


@pytest.mark.row("SL-44")
def test_a_stopped_session_answers_status_with_an_error(start: Start) -> None:
    session = start()
    session.close()
    session.wait_closed()
    with pytest.raises(Closed):
        session.status()


def test_closing_twice_and_from_two_threads_gives_one_closed(start: Start) -> None:
    session = start()
    subscription = session.subscribe()
    threads = [threading.Thread(target=session.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    session.close()
    assert types(list(subscription)).count("closed") == 1
    assert session.wait_closed()["reason"] == "finish"


def test_a_dead_coordinator_still_gives_one_closed_with_its_cause(start: Start) -> None:
    session = start(mood="dies")
    first, second = session.subscribe(), session.subscribe()
    with pytest.raises(Closed) as caught:
        session.snapshot()
    assert caught.value.details["execution"] == "unknown"
    assert session.wait_closed()["cause"] == "coordinator_down"
    for subscription in (first, second):
        closed = [event for event in subscription if event.type == "closed"]
        assert [event.payload["cause"] for event in closed] == ["coordinator_down"]


def test_a_dead_node_gives_each_session_one_closed_with_cause_node_lost(host: ActorHost, start: Start) -> None:
    session = start()
    subscription = session.subscribe()
    with pytest.raises(Closed):
        start(node_dies=True)
    assert session.wait_closed(10)["cause"] == "node_lost"
    assert types(list(subscription))[-1] == "closed"
    with pytest.raises(Closed):
        start()


def test_a_replaced_gateway_is_found_again_and_running_sessions_go_on(host: ActorHost, start: Start) -> None:
    session = start()
    with pytest.raises(Closed):
        start(gateway_dies=True)
    assert session.status()["status"] == "ready"
    for _ in range(100):  # it is found again on a thread of the library's
        try:
            start().wait_closed(0)
        except Timeout:
            break
        except Closed:
            threading.Event().wait(0.05)
    assert session in host.sessions()
    assert len(host.sessions()) == 2


def test_a_session_that_ended_while_the_gateway_was_away_gets_its_closed(start: Start) -> None:
    session = start(mood="forgotten")
    subscription = session.subscribe()
    with pytest.raises(Closed):
        session.snapshot()
    assert session.wait_closed(10)["cause"] == "coordinator_down"
    assert types(list(subscription))[-1] == "closed"


def test_a_refused_session_raises_and_is_forgotten(host: ActorHost, start: Start) -> None:
    with pytest.raises(Backpressure) as caught:
        start(refuse=True)
    assert caught.value.details["max_sessions"] == 0
    assert host.sessions() == []


def test_a_slow_subscriber_is_detached_with_a_notice_and_the_session_goes_on(start: Start) -> None:
    subscriber = Subscriber()
    session = start({"event_sink": subscriber, "limits": {"subscriber_mailbox_threshold": 16}}, flood=100)
    session.status()  # its answer comes behind the flood
    items: list[Event | Unsubscribed] = []
    while not items or isinstance(items[-1], Event):
        items.append(subscriber.get(5))
    assert items[-1] == Unsubscribed("parlora_unsubscribed", session.id, "slow_consumer")
    assert len(items) == 17
    assert session.status()["status"] == "ready"


def test_one_subscriber_serves_several_sessions_and_all_that_waits_counts(start: Start) -> None:
    subscriber = Subscriber()
    limits = {"subscriber_mailbox_threshold": 16}
    first = start({"event_sink": subscriber, "limits": limits}, flood=10)
    first.status()
    second = start({"event_sink": subscriber, "limits": limits}, flood=10)
    second.status()
    items = [subscriber.get(5) for _ in range(17)]
    assert {item.session_id for item in items} == {first.id, second.id}
    assert [item for item in items if isinstance(item, Unsubscribed)] == [
        Unsubscribed("parlora_unsubscribed", second.id, "slow_consumer")
    ]


def test_unsubscribing_ends_the_events_and_iteration(start: Start) -> None:
    session = start()
    subscription = session.subscribe()
    assert subscription.get(5).session_id == session.id
    subscription.unsubscribe()
    assert list(subscription) == []
    assert subscription.detached == "unsubscribed"


def test_another_major_version_is_unsupported_naming_both(fake_node: None) -> None:
    host = ActorHost(env_drop=["major-9"])
    with pytest.raises(Unsupported, match=r"protocol 9\.0 .* speaks 1\.0"):
        host.start()


def test_a_session_of_another_major_version_is_unsupported(start: Start) -> None:
    with pytest.raises(Unsupported, match=r"protocol 2\.0"):
        start(major=2)


def test_the_nodes_own_error_is_raised_by_start(fake_node: None) -> None:
    with pytest.raises(Unsupported, match="too old"):
        ActorHost(env_drop=["refuse-config"]).start()


def test_a_node_that_ignores_stop_is_killed_and_that_is_said(fake_node: None) -> None:
    host = ActorHost(env_drop=["ignore-stop"])
    host.start()
    with pytest.raises(Timeout, match="was killed"):
        host.close(timeout=0.3)


def test_closing_the_host_closes_its_sessions_with_cancel(host: ActorHost, start: Start) -> None:
    session = start()
    host.close()
    assert session.wait_closed()["reason"] == "cancel"
    host.close()
    with pytest.raises(Closed):
        host.start()


def test_a_handle_in_a_forked_child_raises_closed_and_disturbs_nobody(host: ActorHost, start: Start) -> None:
    session = start()
    pid = os.fork()
    if pid == 0:
        outcome = 0
        for use in (session.status, session.close, host.sessions, host.close):
            try:
                use()
            except Closed:
                outcome += 1
        os._exit(outcome)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 4
    assert session.status()["status"] == "ready"


def test_a_silent_coordinator_is_a_timeout_with_unknown_outcome(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from parlora_actors import session_handle

    monkeypatch.setattr(session_handle, "SESSION_CALL_TIMEOUT_MS", 100)
    session = start({"limits": {"shutdown_timeout_ms": 50}}, mood="silent")
    with pytest.raises(Timeout) as caught:
        session.update_context({})
    assert caught.value.details["execution"] == "unknown"


def test_a_host_leaves_nothing_and_touches_no_signal_handler(fake_node: None) -> None:
    import signal

    before = {number: signal.getsignal(number) for number in signal.valid_signals()}
    with leftovers.none_left(), ActorHost() as host:
        host.start_session(
            channel="tests.nowhere:C", provider="tests.nowhere:P", backend="tests.nowhere:B", context_policy="t:D"
        )
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == before
