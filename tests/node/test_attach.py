"""A host attaches to a node that is not its own: it starts and finds sessions there, and its end changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import parlora
from parlora import ActorHost, Closed, Conflict, NotFound, Subscriber, Unsubscribed
from parlora_actors import procfs
from tests.sessions import TRIVIAL, wait_for

WAIT_S = 20.0


def test_sessions_of_an_attached_host_survive_its_end(node: ActorHost, run_dir: Path) -> None:
    with parlora.attach(run_dir) as first:
        session = first.start_session(**TRIVIAL)
        session.wait_ready(WAIT_S)
    with pytest.raises(Closed):
        session.status()
    with pytest.raises(Closed):
        session.wait_closed(WAIT_S)
    with parlora.attach(run_dir) as second:
        assert [each.session_id for each in second.sessions()] == [session.id]
        found = second.session(session.id)
        found.wait_ready(WAIT_S)
        assert found.status()["status"] == "ready"
        found.close()
        assert found.wait_closed(WAIT_S)["reason"] == "requested"
        assert second.sessions() == []


def test_the_end_of_one_host_leaves_the_sessions_of_others_alone(node: ActorHost, run_dir: Path) -> None:
    own = node.start_session(**TRIVIAL)
    own.wait_ready(WAIT_S)
    with parlora.attach(run_dir) as other:
        theirs = other.start_session(**TRIVIAL)
        theirs.wait_ready(WAIT_S)
        events = Subscriber()
        other.session(own.id).subscribe(events)
    last = events.get(WAIT_S)
    assert isinstance(last, Unsubscribed)
    assert last.reason == "detached"
    assert own.status()["status"] == "ready"
    own.close()
    assert own.wait_closed(WAIT_S)["reason"] == "requested"


def test_every_host_hears_of_the_end_of_a_session_that_another_closed(node: ActorHost, run_dir: Path) -> None:
    with parlora.attach(run_dir) as first, ActorHost.attach(run_dir) as second:
        session = first.start_session(**TRIVIAL)
        session.wait_ready(WAIT_S)
        seen = second.session(session.id)
        subscription = seen.subscribe()
        session.close()
        assert [event.type for event in subscription][-1] == "closed"
        assert seen.wait_closed(WAIT_S) == session.wait_closed(WAIT_S)
        with pytest.raises(NotFound):
            second.session(session.id)


def test_nothing_to_attach_to_is_not_found(run_dir: Path) -> None:
    with pytest.raises(NotFound, match="no node runs"):
        parlora.attach(run_dir)
    assert not run_dir.exists()


def test_a_second_node_in_the_same_directory_is_a_conflict(node: ActorHost, run_dir: Path) -> None:
    with pytest.raises(Conflict, match="a node runs in"):
        ActorHost(run_dir=run_dir).start()
    with parlora.attach(run_dir) as attached:
        assert attached.sessions() == []


def test_a_directory_with_other_files_is_refused_and_left_alone(run_dir: Path) -> None:
    run_dir.mkdir(mode=0o700)
    precious = run_dir / "letter.txt"
    precious.write_text("mine")
    with pytest.raises(parlora.InvalidArgument, match=r"letter\.txt"):
        ActorHost(run_dir=run_dir).start()
    assert precious.read_text() == "mine"
    precious.unlink()
    run_dir.rmdir()


def test_what_a_killed_node_left_is_cleaned_by_the_next(run_dir: Path) -> None:
    run_dir.mkdir(mode=0o700)
    (run_dir / "lock").touch()
    (run_dir / "node.log").write_text("{}\n")
    os.mkfifo(run_dir / "node.log.1")  # no file of a node's: it is refused by its kind
    with pytest.raises(parlora.InvalidArgument):
        ActorHost(run_dir=run_dir).start()
    (run_dir / "node.log.1").unlink()
    with ActorHost(run_dir=run_dir) as host:
        assert host.run_dir == str(run_dir)
    assert not run_dir.exists()


def test_stop_closes_what_runs_and_every_host_hears_it(node: ActorHost, run_dir: Path) -> None:
    own = node.start_session(**TRIVIAL)
    own.wait_ready(WAIT_S)
    pid = node.pid
    assert pid is not None
    with parlora.attach(run_dir) as other:
        seen = other.session(own.id)
        assert other.stop_node() == 1
        assert seen.wait_closed(WAIT_S)["reason"] == "requested"
        assert own.wait_closed(WAIT_S)["reason"] == "requested"
        assert other.wait_node_ended(WAIT_S)
        assert node.wait_node_ended(WAIT_S)
        assert node.node_end_cause == "stopped"
        with pytest.raises(Closed):
            other.start_session(**TRIVIAL)
    wait_for("the launcher's end", lambda: not procfs.is_alive(pid))
    assert not run_dir.exists()


def test_a_draining_node_refuses_new_sessions_and_lets_others_finish(node: ActorHost, run_dir: Path) -> None:
    with parlora.attach(run_dir) as other:
        session = other.start_session(**TRIVIAL)
        session.wait_ready(WAIT_S)
        assert other.stop_node(drain=WAIT_S) == 1
        with pytest.raises(Closed, match="draining") as refused:
            other.start_session(**TRIVIAL)
        assert refused.value.details["cause"] == "draining"
        assert session.status()["status"] == "ready"
        session.close()
        assert session.wait_closed(WAIT_S)["reason"] == "requested"
        assert other.wait_node_ended(WAIT_S)
    assert node.wait_node_ended(WAIT_S)


def test_a_host_drains_its_own_node_and_closes_what_runs_at_the_deadline(run_dir: Path) -> None:
    host = ActorHost(run_dir=run_dir)
    host.start()
    session = host.start_session(**TRIVIAL)
    session.wait_ready(WAIT_S)
    host.drain(0.2)
    assert session.wait_closed(WAIT_S)["reason"] == "requested"
    with pytest.raises(Closed):
        host.start_session(**TRIVIAL)
    assert not run_dir.exists()
