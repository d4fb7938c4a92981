"""Overload and the ends of sessions and nodes, however much a session resists."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import parlora
from parlora import ActorHost, Backpressure, Closed
from tests.node.conftest import WAIT_S
from tests.sessions import MISBEHAVING, TRIVIAL

STUBBORN = {**TRIVIAL, "backend": f"{MISBEHAVING}:WithDescendants", "channel": f"{MISBEHAVING}:IgnoresClose"}


def test_a_session_beyond_the_limit_is_refused_with_both_numbers_whoever_asks(node: ActorHost, run_dir: Path) -> None:
    sessions = []
    for _ in range(4):
        sessions.append(node.start_session(**TRIVIAL))
        sessions[-1].wait_ready(WAIT_S)
    with parlora.attach(run_dir) as other:
        with pytest.raises(Backpressure, match="4 of 4 sessions") as refused:
            other.start_session(**TRIVIAL)
        assert (refused.value.details["sessions"], refused.value.details["max_sessions"]) == (4, 4)
        sessions[0].close()
        sessions[0].wait_closed(WAIT_S)
        assert len(other.sessions()) == 3
        other.start_session(**TRIVIAL).wait_ready(WAIT_S)


def test_a_session_that_lasts_too_long_ends_in_order_and_leaves_others_alone(node: ActorHost) -> None:
    other = node.start_session(**TRIVIAL)
    other.wait_ready(WAIT_S)
    session = node.start_session(**TRIVIAL, limits={"max_session_ms": 1_000})
    session.wait_ready(WAIT_S)
    closed = session.wait_closed(WAIT_S)
    assert (closed["reason"], closed["cause"]) == ("expired", "max_session_ms")
    assert other.status()["status"] == "ready"


def test_a_node_is_gone_by_its_deadline_whatever_its_sessions_do(node: ActorHost, run_dir: Path) -> None:
    stubborn = node.start_session(**STUBBORN, limits={"shutdown_timeout_ms": 60_000})
    stubborn.wait_ready(WAIT_S)
    with parlora.attach(run_dir) as other:
        begun = time.monotonic()
        other.stop_node()
        assert stubborn.wait_closed(WAIT_S)["reason"] == "requested"
        assert other.wait_node_ended(WAIT_S)
        assert time.monotonic() - begun < 4 * 6.0  # the deadline is 6 s
    assert node.wait_node_ended(WAIT_S)
    assert not run_dir.exists()


def test_a_forked_copy_of_an_attached_host_is_closed_and_the_original_goes_on(node: ActorHost, run_dir: Path) -> None:
    with parlora.attach(run_dir) as host:
        session = host.start_session(**TRIVIAL)
        session.wait_ready(WAIT_S)
        child = os.fork()
        if child == 0:
            failures = 0
            for use in (host.sessions, session.status, host.close):
                try:
                    use()
                except Closed:
                    failures += 1
            os._exit(failures)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert session.status()["status"] == "ready"
        session.close()
        assert session.wait_closed(WAIT_S)["reason"] == "requested"
