"""How a session ends in order, and what it says about what did not."""

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parlora.errors import Closed
from parlora_actors import procfs
from tests.sessions import MISBEHAVING, Call, wait_for

Start = Callable[..., Call]


def stubborn(call: Start, **options: Any) -> Call:
    """A session with one request that never ends by itself."""
    session = call(
        provider=f"{MISBEHAVING}:Delegating",
        backend=(f"{MISBEHAVING}:StubbornBackend", options),
        context_policy=f"{MISBEHAVING}:start_everything",
        limits={"shutdown_timeout_ms": 1_500},
    ).ready()
    session.event("request_started", "backend")
    return session


@pytest.mark.row("SD-12")
def test_a_close_with_nothing_to_wait_for_ends_long_before_its_deadline(call: Start) -> None:
    session = call(limits={"shutdown_timeout_ms": 30_000}).ready()
    began = time.monotonic()
    payload = session.end()
    assert time.monotonic() - began < 4
    assert (payload["reason"], payload["killed"], payload["left"]) == ("requested", 0, [])
    assert payload["finalization_observed"] is True
    for role in ("channel", "provider", "backend"):
        assert len(session.of("closed", role)) == 1


@pytest.mark.row("SD-01", "SD-05")
@pytest.mark.parametrize("policy", ["finish", "cancel"])
def test_the_backend_closes_by_the_sessions_policy(call: Start, policy: str) -> None:
    session = stubborn(call)
    session.session.close(policy)
    payload = session.closed()
    assert payload["job_policy"] == policy
    assert session.event("closed", "backend").payload["policy"] == policy


@pytest.mark.row("SD-13", "SD-16")
def test_unfinished_work_is_uncertain_and_nothing_else(call: Start) -> None:
    session = stubborn(call)
    request_id = session.event("request_started", "backend").request_id
    payload = session.end()
    assert list(payload["jobs"]) == [request_id]
    assert payload["jobs"][request_id]["status"] == "uncertain"
    told = {event.type for event in session.events}
    assert not told & {"request_completed", "request_cancelled", "request_failed"}


@pytest.mark.row("SD-02", "SD-07")
def test_closing_again_from_anywhere_changes_nothing(call: Start) -> None:
    session = call(
        provider=f"{MISBEHAVING}:Delegating",
        backend=(f"{MISBEHAVING}:StubbornBackend", {"hang_in_close": True}),
        context_policy=f"{MISBEHAVING}:start_everything",
        limits={"shutdown_timeout_ms": 1_500},
    ).ready()
    began = time.monotonic()
    session.session.close("finish")
    closers = [threading.Thread(target=session.session.close, args=("cancel",)) for _ in range(2)]
    for closer in closers:
        closer.start()
    while session.session._life._closed is None and time.monotonic() - began < 10:
        session.session.close("cancel")
        time.sleep(0.1)
    for closer in closers:
        closer.join()
    payload = session.closed()
    # A deadline that every close restarted would never have come.
    assert time.monotonic() - began < 6
    assert payload["job_policy"] == "finish"


@pytest.mark.row("SD-06", "SD-09", "SD-14")
def test_at_the_deadline_everything_is_killed_wherever_it_hides(call: Start) -> None:
    session = stubborn(call, hang_in_close=True)
    wait_for("the daemon", lambda: len(session.below()) == 8)
    everything = session.below()
    began = time.monotonic()
    payload = session.end()
    assert 1.0 < time.monotonic() - began < 6
    assert payload["killed"] >= 1
    assert payload["left"] == []
    assert not any(procfs.is_alive(pid) for pid in everything)


@pytest.mark.row("SD-08", "SD-11")
def test_a_stalled_role_holds_up_nobody_else(call: Start) -> None:
    session = call(channel=f"{MISBEHAVING}:StalledChannel", limits={"shutdown_timeout_ms": 1_500}).ready()
    pids = session.processes()
    session.session.control(("suppress_output", True), "stalls")
    began = time.monotonic()
    session.session.close()
    session.event("closed", "provider")
    session.event("closed", "backend")
    wait_for(
        "the pipelines to stop",
        lambda: not any(procfs.is_alive(pids[role]) for role in ("input_pipeline", "output_pipeline")),
    )
    if procfs.is_alive(pids["channel"]):  # the rest did not wait for it
        assert session.session.status()["status"] == "closing"
    session.closed()
    assert time.monotonic() - began < 6


def test_an_adapter_that_never_says_closed_is_ended_at_the_deadline(call: Start) -> None:
    session = call(channel=f"{MISBEHAVING}:IgnoresClose", limits={"shutdown_timeout_ms": 700}).ready()
    began = time.monotonic()
    session.end()
    assert 0.5 < time.monotonic() - began < 3


@pytest.mark.row("SD-26")
def test_a_request_that_was_never_submitted_is_reported_so(call: Start) -> None:
    session = call(
        provider=(
            "parlora.providers.trivial:TrivialProvider",
            {
                "script": [
                    {
                        "at_ms": 20,
                        "emit": "delegation_requested",
                        "payload": {"delegation_id": f"d{n}", "target": "client", "offset_ms": 0},
                    }
                    for n in range(2)
                ]
            },
        ),
        backend=f"{MISBEHAVING}:StubbornBackend",
        context_policy=f"{MISBEHAVING}:start_everything",
        limits={"max_jobs": 1, "shutdown_timeout_ms": 1_500},
    ).ready()
    first = session.event("request_started", "backend").request_id
    wait_for("both tasks", lambda: len(session.session.snapshot().tasks) == 2)
    requests = {request for task in session.session.snapshot().tasks.values() for request in task["request_ids"]}
    payload = session.end()
    assert list(payload["jobs"]) == [first]
    never = requests - {first}
    assert len(never) == 1
    told = [event.payload for event in session.events if event.request_id in never]
    assert any("never_submitted" in repr(each) for each in told) or "never_submitted" in repr(payload)


@pytest.mark.row("SL-24")
@pytest.mark.parametrize("after_ms", [0, 5, 15, 30, 45, 60, 80, 110, 150])
def test_a_close_at_any_moment_ends_with_one_closed(call: Start, after_ms: int) -> None:
    session = call(event_sink=lambda event: None) if after_ms == 0 else call()
    time.sleep(after_ms / 1_000)
    session.session.close()
    payload = session.session.wait_closed(20)
    assert payload["reason"] == "requested"
    assert len(session.of("closed", "session")) <= 1


@pytest.mark.row("SL-41")
def test_a_request_is_submitted_once_whatever_dies(call: Start, tmp_path: Path) -> None:
    log = tmp_path / "submitted"
    session = stubborn(call, log=str(log))
    request_id = session.event("request_started", "backend").request_id
    os.kill(session.pid("backend"), signal.SIGKILL)
    payload = session.closed()
    assert log.read_text().split() == [request_id]
    assert payload["jobs"] == {} or payload["jobs"][request_id]["status"] == "uncertain"
    with pytest.raises(Closed):
        session.session.snapshot()
