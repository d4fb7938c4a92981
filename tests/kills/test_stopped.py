"""A process that is there and does nothing is as good as dead: it is found by its silence, and nobody else notices."""

import functools
import os
import signal
import time
from collections.abc import Callable

import pytest

from parlora.errors import Closed
from parlora_actors import procfs
from parlora_actors.host import ActorHost
from tests.kills.neighbour import Neighbour
from tests.sessions import MISBEHAVING, Call, name_of, wait_for

Start = Callable[..., Call]

FOUND_S = 4.0
"""2.0 s of silence, half a second between two looks, and a busy machine."""

QUICK = {"unresponsive_timeout_ms": 1_000, "shutdown_timeout_ms": 1_000}


def node_process(host: ActorHost, name: str) -> int:
    assert host.pid is not None
    below = procfs.descendants(host.pid)
    return next(pid for pid in below if name_of(pid) == name and procfs.is_alive(pid))


def _can_start(host: ActorHost) -> bool:
    """Whether a whole session runs: until the host has found the next gateway, none is submitted."""
    try:
        Call(host).ready().end()
    except Closed:
        return False
    return True


@pytest.mark.parametrize("role", ["channel", "input_pipeline", "coordinator"])
def test_a_stopped_process_of_a_session_ends_it_and_is_named(call: Start, role: str) -> None:
    neighbour = Neighbour(call)
    session = call(backend=f"{MISBEHAVING}:WithDescendants", limits=QUICK).ready()
    everything = session.below()
    os.kill(session.pid(role), signal.SIGSTOP)
    began = time.monotonic()
    payload = session.closed()
    assert time.monotonic() - began < FOUND_S
    assert payload["cause"] == f"{role}_down"
    if role == "coordinator":
        assert payload["how"] == "unresponsive"
    else:
        assert session.event("failed", "session").payload["process_cause"] == "unresponsive"
    assert not any(procfs.is_alive(pid) for pid in everything)
    neighbour.heard_everything()


def test_a_stopped_policy_worker_is_replaced(call: Start) -> None:
    session = call(provider=f"{MISBEHAVING}:Delegating", limits=QUICK).ready()
    first = session.pid("policy")
    os.kill(first, signal.SIGSTOP)
    wait_for("another worker", lambda: session.live_pid("policy") not in (None, first), 10)
    assert session.session.status()["status"] == "ready"
    session.end()


def test_an_adapter_that_blocks_for_ever_is_no_dead_process(call: Start) -> None:
    session = call(provider=f"{MISBEHAVING}:HangsInStart", limits=QUICK | {"startup_timeout_ms": 2_500})
    assert session.closed()["cause"] == "startup_timeout"
    failed = session.event("failed", "session")
    assert failed.payload["error"]["code"] == "timeout"


def test_an_adapter_that_keeps_the_interpreters_lock_for_ever_is(call: Start) -> None:
    session = call(backend=f"{MISBEHAVING}:KeepsTheLock", provider=f"{MISBEHAVING}:Delegating", limits=QUICK,
                   context_policy=f"{MISBEHAVING}:start_everything").ready()  # fmt: skip
    began = time.monotonic()
    payload = session.closed()
    assert time.monotonic() - began < FOUND_S
    assert payload["cause"] == "backend_down"
    assert [job["status"] for job in payload["jobs"].values()] == ["uncertain"]


def test_a_stopped_supervisor_takes_only_its_session_with_it(call: Start) -> None:
    neighbour = Neighbour(call)
    session = call(backend=f"{MISBEHAVING}:WithDescendants").ready()
    everything = [session.supervisor, *session.below()]
    os.kill(session.supervisor, signal.SIGSTOP)
    began = time.monotonic()
    payload = session.closed()
    assert time.monotonic() - began < FOUND_S
    assert payload["cause"] == "supervisor_down"
    assert payload["error"]["details"]["how"] == "unresponsive"
    assert not any(procfs.is_alive(pid) for pid in everything)
    neighbour.heard_everything()


def test_a_stopped_gateway_is_replaced_and_sessions_go_on() -> None:
    with ActorHost() as node:
        neighbour = Neighbour(functools.partial(Call, node))
        first = node_process(node, "gateway")
        os.kill(first, signal.SIGSTOP)
        wait_for("the end of the stopped one", lambda: not procfs.is_alive(first), 10)
        wait_for("a session through the next gateway", lambda: _can_start(node), 10)
        neighbour.heard_everything()


def test_a_stopped_root_ends_the_node_and_every_session_hears_of_it() -> None:
    with ActorHost() as node:
        session = Call(node, backend=f"{MISBEHAVING}:WithDescendants").ready()
        everything = [session.supervisor, *session.below()]
        os.kill(node_process(node, "node_supervisor"[:15]), signal.SIGSTOP)
        began = time.monotonic()
        payload = session.session.wait_closed(20)
        assert time.monotonic() - began < FOUND_S + 1
        assert payload["cause"] == "node_lost"
        assert not any(procfs.is_alive(pid) for pid in everything)
