"""A node that stops takes its sessions with it, in order where there is time."""

import os
import signal
import time

import pytest

from parlora_actors import procfs
from parlora_actors.host import ActorHost
from tests.sessions import MISBEHAVING, Call, wait_for


def test_a_stopping_node_closes_its_sessions_in_order() -> None:
    with ActorHost() as node:
        calls = [Call(node).ready() for _ in range(2)]
        everything = [pid for each in calls for pid in (each.supervisor, *each.below())]
    for each in calls:
        payload = each.closed()
        assert payload["reason"] == "requested"
        assert payload["finalization_observed"] is True
        assert len(each.of("closed", "provider")) == 1
    assert not any(procfs.is_alive(pid) for pid in everything)


@pytest.mark.parametrize(
    "part", [{"provider": "HangsInStart"}, {"channel": "IgnoresClose"}, {"backend": "WithDescendants"}]
)
def test_a_stopping_node_does_not_wait_for_who_does_not_stop(part: dict[str, str]) -> None:
    with ActorHost() as node:
        call = Call(node, **{role: f"{MISBEHAVING}:{adapter}" for role, adapter in part.items()})
        if "provider" in part:
            call.event("extension", "provider")
        else:
            call.ready()
        everything = [call.supervisor, *call.below()]
        began = time.monotonic()
    assert time.monotonic() - began < 10
    call.closed()
    assert not any(procfs.is_alive(pid) for pid in everything)


def test_a_killed_launcher_leaves_nothing_of_its_sessions() -> None:
    with ActorHost() as node:
        call = Call(node).ready()
        everything = [call.supervisor, *call.below()]
        assert node.pid is not None
        os.kill(node.pid, signal.SIGKILL)
        payload = call.session.wait_closed(20)
        assert payload["cause"] == "node_lost"
    call.event("closed", "session")
    assert len(call.of("closed", "session")) == 1
    wait_for("the end of its processes", lambda: not any(procfs.is_alive(pid) for pid in everything), 5)
