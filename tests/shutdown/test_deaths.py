"""Whichever process of a session dies, the session ends once, in time, and leaves nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from parlora_actors import procfs
from tests.sessions import MISBEHAVING, ROLES, Call, name_of, wait_for

Start = Callable[..., Call]

IN_TIME_S = 8.0
"""The default shutdown deadline is 5 s; a death needs milliseconds."""


@pytest.mark.parametrize("role", [role for role in ROLES if role not in ("policy", "coordinator")])
def test_the_death_of_an_owner_or_pipeline_ends_the_session(call: Start, role: str) -> None:
    session = call(backend=f"{MISBEHAVING}:WithDescendants").ready()
    everything = session.below()
    began = time.monotonic()
    os.kill(session.pid(role), signal.SIGKILL)
    failed = session.event("failed", "session")
    payload = session.closed()
    assert time.monotonic() - began < IN_TIME_S
    assert failed.payload["process_cause"] == f"signal {int(signal.SIGKILL)}"
    assert failed.payload["role"] == role
    assert payload["reason"] == "failed"
    assert not any(procfs.is_alive(pid) for pid in everything)


@pytest.mark.row("SL-40")
def test_what_a_dead_backend_had_started_dies_with_it(call: Start) -> None:
    session = call(backend=f"{MISBEHAVING}:WithDescendants", channel=f"{MISBEHAVING}:IgnoresClose").ready()
    backend = session.pid("backend")
    owners = set(session.processes().values())
    observers = wait_for("child and daemon", lambda: [p for p in session.below() if p not in owners][:2])
    os.kill(backend, signal.SIGKILL)
    # The channel keeps the session alive up to its deadline, so it is not the session's end that kills them.
    wait_for("the end of what it started", lambda: not any(procfs.is_alive(pid) for pid in observers), 3)
    assert procfs.is_alive(session.supervisor)
    session.closed()


@pytest.mark.row("SL-39", "SL-46", "SD-10")
@pytest.mark.parametrize("phase", ["starting", "ready", "closing"])
def test_a_killed_coordinator_leaves_nothing_and_closed_is_told_all_the_same(call: Start, phase: str) -> None:
    parts = {"backend": f"{MISBEHAVING}:WithDescendants", "channel": f"{MISBEHAVING}:IgnoresClose"}
    if phase == "starting":
        parts["provider"] = f"{MISBEHAVING}:HangsInStart"
    session = call(**parts)
    if phase == "starting":
        session.event("extension", "provider")
    else:
        session.ready()
    if phase == "closing":
        session.session.close()
        session.event("closed", "backend")
    everything = session.below()
    assert len(everything) >= 5
    began = time.monotonic()
    os.kill(session.pid("coordinator"), signal.SIGKILL)
    payload = session.closed()
    assert time.monotonic() - began < 4
    assert payload["cause"] == "coordinator_down"
    assert not any(procfs.is_alive(pid) for pid in everything)


def test_audio_that_nobody_will_read_any_more_is_counted(call: Start) -> None:
    session = call(
        channel=("parlora.channels.trivial:TrivialChannel", {"send": "silence"}),
        provider=("parlora.providers.trivial:TrivialProvider", {"echo": True}),
    ).ready()
    os.kill(session.pid("output_pipeline"), signal.SIGSTOP)
    time.sleep(0.3)
    os.kill(session.pid("coordinator"), signal.SIGKILL)
    lost = session.closed()["audio_discontinuity"]
    assert lost["dropped_frames"] >= 10
    assert lost["dropped_duration_us"] == lost["dropped_frames"] * 20_000


def test_a_dead_coordinators_unfinished_requests_are_uncertain(call: Start) -> None:
    session = call(
        provider=f"{MISBEHAVING}:Delegating",
        backend=f"{MISBEHAVING}:StubbornBackend",
        context_policy=f"{MISBEHAVING}:start_everything",
    ).ready()
    request_id = session.event("request_started", "backend").request_id
    os.kill(session.pid("coordinator"), signal.SIGKILL)
    payload = session.closed()
    assert payload["jobs"][request_id]["status"] == "uncertain"


def test_a_killed_supervisor_leaves_nothing(call: Start) -> None:
    session = call(backend=f"{MISBEHAVING}:WithDescendants").ready()
    everything = session.below()
    began = time.monotonic()
    os.kill(session.supervisor, signal.SIGKILL)
    payload = session.closed()
    assert time.monotonic() - began < 4
    assert payload["cause"] == "supervisor_down"
    assert not any(procfs.is_alive(pid) for pid in everything)


def test_a_dead_policy_worker_is_replaced_and_the_session_goes_on(call: Start, tmp_path: Path) -> None:
    session = call(
        provider=f"{MISBEHAVING}:Delegating",
        context_policy=(f"{MISBEHAVING}:deadly_policy", {"mark": str(tmp_path / "died")}),
    ).ready()
    session.event("request_completed", "backend")
    assert (tmp_path / "died").exists()
    assert session.session.status()["status"] == "ready"
    session.end()


def test_a_policy_worker_that_keeps_dying_ends_the_session(call: Start) -> None:
    session = call().ready()
    died: set[int] = set()
    while session.session._life.closed is None and len(died) < 50:
        pid = session.live_pid("policy")
        if pid is not None and pid not in died:
            os.kill(pid, signal.SIGKILL)
            died.add(pid)
        time.sleep(0.002)
    payload = session.closed()
    assert 1 < len(died) <= 12
    assert (payload["reason"], payload["cause"]) == ("failed", "policy_down")


def test_a_policy_that_never_comes_back_is_killed_with_its_children_and_replaced(call: Start) -> None:
    session = call(
        provider=f"{MISBEHAVING}:Delegating",
        context_policy=f"{MISBEHAVING}:deaf_policy",
        limits={"policy_timeout_ms": 400},
    ).ready()
    first = session.pid("policy")
    child = wait_for("its child", lambda: procfs.children(first))[0]
    session.event("policy_failed", "session")
    wait_for("the end of the first worker", lambda: not procfs.is_alive(first))
    wait_for("the end of its child", lambda: not procfs.is_alive(child))
    assert session.pid("policy") != first
    assert session.session.status()["status"] == "ready"
    session.end()


@pytest.mark.row("SL-09")
def test_a_policy_that_thinks_for_long_delays_neither_status_nor_captions(call: Start) -> None:
    script = [
        {"at_ms": 20, "emit": "delegation_requested", "payload": {"delegation_id": "d", "target": "client"}},
        {
            "at_ms": 300,
            "emit": "transcript_delta",
            "payload": {"speaker": "user", "delta": "hello", "start_ms": 0, "end_ms": 1},
        },
    ]
    session = call(
        channel=("parlora.channels.trivial:TrivialChannel", {"send": "silence"}),
        provider=("parlora.providers.trivial:TrivialProvider", {"script": script}),
        context_policy=(f"{MISBEHAVING}:slow_policy", {"seconds": 3}),
    ).ready()
    caption = session.event("transcript_delta", "provider")
    before = session.session.status()
    assert before["interpretation"] == "running"
    assert caption.payload["delta"] == "hello"
    forwarded = before["health"]["input_forwarded"]["frames"]
    wait_for(
        "audio to flow on", lambda: session.session.status()["health"]["input_forwarded"]["frames"] > forwarded + 5
    )
    assert session.session.status()["interpretation"] == "running"
    session.end()


@pytest.mark.row("SD-15")
def test_nobody_outside_a_sessions_ancestry_is_touched(call: Start) -> None:
    bystander = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    other = call(backend=f"{MISBEHAVING}:WithDescendants").ready()
    others = other.below()
    try:
        session = call(backend=f"{MISBEHAVING}:WithDescendants").ready()
        os.kill(session.pid("coordinator"), signal.SIGKILL)
        session.closed()
        assert bystander.poll() is None
        assert all(procfs.is_alive(pid) for pid in others)
        assert name_of(other.supervisor).startswith("session_superv")
        other.end()
    finally:
        bystander.kill()
        bystander.wait()
