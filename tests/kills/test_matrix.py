"""Every way to die, in every kind of process, eight of them at the same moment: each session ends once and says who.

Nothing is left of any, and the session beside them does not miss a frame.
"""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parlora_actors import procfs
from tests.kills.faults import SIGNALS, WITHIN
from tests.kills.neighbour import Neighbour
from tests.sessions import MISBEHAVING, ROLES, Call, wait_for

Start = Callable[..., Call]

IN_TIME_S = 8.0
"""Promised: 1.0 s of silence, half a second between looks, 1.0 s of shutdown deadline. The rest is for the machine."""

QUICK = {"unresponsive_timeout_ms": 1_000, "shutdown_timeout_ms": 1_000}
SUPERVISOR = "supervisor"
VICTIMS = (*ROLES, SUPERVISOR)
OWNERS = ("channel", "provider", "backend")
SAID = {signal.SIGKILL: "signal 9", signal.SIGSTOP: "unresponsive", signal.SIGSEGV: "signal 11"}


def doom(calls: dict[str, Call], fault: Callable[[], None]) -> dict[str, dict[str, Any]]:
    """Let it happen; returns what each session told at its end, after checking that nothing of it is left."""
    everything = [pid for each in calls.values() for pid in (each.supervisor, *each.below())]
    began = time.monotonic()
    fault()
    told = {role: each.closed() for role, each in calls.items()}
    assert time.monotonic() - began < IN_TIME_S
    assert [pid for pid in everything if procfs.is_alive(pid)] == []
    return told


def check_blame(role: str, payload: dict[str, Any]) -> None:
    """A provider that hangs is found by the audio that it does not take, before its silence is long enough."""
    if payload["cause"] == "pipeline_stalled":
        assert payload["role"] == role
    else:
        assert payload["cause"] == f"{role}_down"


@pytest.mark.row("SL-46", "SD-09", "SD-10", "SD-14")
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_one_process_of_each_kind_at_the_same_moment(call: Start, number: signal.Signals) -> None:
    neighbour = Neighbour(call)
    calls = {role: call(backend=f"{MISBEHAVING}:WithDescendants", limits=QUICK).ready() for role in VICTIMS}
    pids = {role: each.supervisor if role == SUPERVISOR else each.pid(role) for role, each in calls.items()}
    survivor = calls.pop("policy")

    def strike() -> None:
        for pid in pids.values():
            os.kill(pid, number)

    told = doom(calls, strike)
    for role, payload in told.items():
        check_blame(role, payload)
        if payload["cause"] == f"{role}_down" and role not in ("coordinator", SUPERVISOR):
            assert calls[role].event("failed", "session").payload["process_cause"] == SAID[number]
    wait_for("another policy worker", lambda: survivor.live_pid("policy") not in (None, pids["policy"]), IN_TIME_S)
    assert survivor.session.status()["status"] == "ready"
    survivor.end()
    neighbour.heard_everything()


@pytest.mark.row("SD-09", "SD-14")
@pytest.mark.parametrize("fault", sorted(WITHIN))
def test_an_adapter_ruins_its_own_process(call: Start, fault: str, tmp_path: Path) -> None:
    neighbour = Neighbour(call)
    fuse = tmp_path / "fuse"
    calls = {
        role: call(
            **{role: (f"tests.kills.faults:Doomed{role.title()}", {"fault": fault, "fuse": str(fuse)})}, limits=QUICK
        ).ready()
        for role in OWNERS
    }
    for each in calls.values():
        wait_for("child and daemon", lambda each=each: len(each.below()) >= len(ROLES) + 2)
    told = doom(calls, fuse.touch)
    for role, payload in told.items():
        check_blame(role, payload)
    neighbour.heard_everything()


@pytest.mark.row("SD-09")
def test_all_processes_of_a_session_at_the_same_moment(call: Start) -> None:
    neighbour = Neighbour(call)
    session = call(backend=f"{MISBEHAVING}:WithDescendants", limits=QUICK).ready()
    pids = session.processes()

    def strike() -> None:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)

    (payload,) = doom({"all": session}, strike).values()
    assert payload["cause"] == "coordinator_down"
    neighbour.heard_everything()
