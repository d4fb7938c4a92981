"""The host library on a real node: sessions of trivial parts, in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parlora import (
    ActorHost,
    Backpressure,
    Closed,
    ContextSnapshot,
    Event,
    InvalidArgument,
    Subscriber,
    Timeout,
    Unsupported,
)
from parlora_actors import procfs
from parlora_actors.host_connection import Connection
from parlora_actors.host_gateway import GatewayClient
from parlora_actors.run_directory import run_root

from .real import TRIVIAL, start


@pytest.fixture
def host() -> Iterator[ActorHost]:
    with ActorHost() as host:
        yield host


@pytest.fixture(scope="module")
def shared() -> Iterator[ActorHost]:
    """One node for the tests that break nothing of it."""
    with ActorHost() as host:
        yield host


def drained(subscriber: Subscriber) -> list[Event]:
    events = []
    for item in subscriber:
        assert isinstance(item, Event)
        events.append(item)
    return events


@pytest.mark.row("SL-03")
def test_start_session_returns_before_readiness_which_arrives_as_an_event(shared: ActorHost) -> None:
    events = Subscriber()
    slow = ("tests.host.adapters:SlowBackend", {"wait_ms": 700})
    session = start(shared, backend=slow, event_sink=events)
    assert session.status()["status"] == "starting"
    with pytest.raises(Timeout):
        session.wait_ready(0)
    session.wait_ready()
    assert session.status()["status"] == "ready"
    seen = []
    while not seen or not seen[-1].is_a("session", "ready"):
        item = events.get(5)
        assert isinstance(item, Event)
        seen.append(item)
    session.close()
    session.wait_closed()


@pytest.mark.row("SL-01", "SL-45")
def test_a_session_is_one_channel_provider_backend_and_policy_and_goes_through_its_states(shared: ActorHost) -> None:
    events = Subscriber()
    session = start(shared, event_sink=events, context={"customer": 7})
    session.wait_ready()
    assert isinstance(session.snapshot(), ContextSnapshot)
    assert session.snapshot().application_context == {"customer": 7}
    session.update_context({"customer": 8})
    assert session.snapshot().application_context == {"customer": 8}
    session.close()
    closed = session.wait_closed()
    seen = drained(events)
    assert {event.source for event in seen if event.type == "ready"} == {"channel", "provider", "backend", "session"}
    assert [event.type for event in seen].count("closed") == 4
    assert seen[-1].is_a("session", "closed")
    assert seen[-1].payload == closed
    assert closed["reason"] == "requested"
    with pytest.raises(Closed):
        session.status()
    assert shared.sessions() == []


@pytest.mark.parametrize(
    ("options", "error", "field"),
    [
        ({"channel": "no.such.module:Channel"}, InvalidArgument, "channel"),
        ({"provider": "parlora.providers.trivial:Nothing"}, InvalidArgument, "provider"),
        ({"backend": ("parlora.backends.trivial:TrivialBackend", {"colour": 1})}, InvalidArgument, "backend.options"),
        ({"channel": (TRIVIAL["channel"], {"send": "noise"})}, InvalidArgument, "channel.options.send"),
        ({"context_policy": "parlora.policies.trivial:nothing"}, InvalidArgument, "context_policy"),
        ({"channel": (TRIVIAL["channel"], {"send": "tone"}), "audio_format": "pcmu"}, InvalidArgument,
         "channel.options.send"),
        ({"provider": ("parlora.providers.offline:Offline", {"grammar": "<user> = yes;"}), "audio_format": "pcmu"},
         Unsupported, "audio_format"),
    ],
)  # fmt: skip
def test_what_only_an_owner_can_know_is_raised_by_wait_ready_with_its_field(
    shared: ActorHost, options: dict[str, object], error: type[Exception], field: str
) -> None:
    session = start(shared, **options)
    with pytest.raises(error) as caught:
        session.wait_ready()
    assert caught.value.details["field"] == field  # type: ignore[attr-defined]
    assert session.wait_closed()["reason"] == "failed"


def test_an_adapter_that_raises_in_start_fails_the_session(shared: ActorHost) -> None:
    session = start(shared, backend="tests.host.adapters:FailingBackend")
    with pytest.raises(Exception, match="backend") as caught:
        session.wait_ready()
    assert caught.value.code == "adapter_failed"  # type: ignore[attr-defined]
    session.wait_closed()


def test_an_adapter_whose_process_dies_in_start_fails_the_session(shared: ActorHost) -> None:
    session = start(shared, backend="tests.host.adapters:CrashingBackend")
    with pytest.raises(Exception, match="backend"):
        session.wait_ready()
    session.wait_closed()


def test_sessions_run_side_by_side_and_end_one_by_one(shared: ActorHost) -> None:
    sessions = [start(shared) for _ in range(3)]
    for session in sessions:
        session.wait_ready()
    sessions[1].close()
    sessions[1].wait_closed()
    assert shared.sessions() == [sessions[0], sessions[2]]
    assert sessions[0].status()["status"] == "ready"
    for session in shared.sessions():
        session.close()
        session.wait_closed()


def test_closing_from_two_threads_before_readiness_gives_one_closed(shared: ActorHost) -> None:
    events = Subscriber()
    slow = ("tests.host.adapters:SlowBackend", {"wait_ms": 30_000})
    session = start(shared, backend=slow, event_sink=events)
    threads = [threading.Thread(target=session.close) for _ in range(2)]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    session.wait_closed()
    assert time.monotonic() - began < 5.0
    for thread in threads:
        thread.join()
    closed = [event for event in drained(events) if event.is_a("session", "closed")]
    assert len(closed) == 1
    assert closed[0].payload["cause"] == "close_requested"


def processes(host: ActorHost) -> list[int]:
    assert host.pid is not None
    return procfs.descendants(host.pid)


@pytest.mark.row("SL-39")
def test_a_killed_coordinator_gives_one_closed_and_takes_the_policy_worker_and_all_others_along(
    host: ActorHost,
) -> None:
    standing = set(processes(host))
    events = Subscriber()
    session = start(host, event_sink=events)
    session.wait_ready()
    coordinator = holder_of(session._connection, host)
    os.kill(coordinator, signal.SIGKILL)
    assert session.wait_closed()["cause"] == "coordinator_down"
    closed = [event for event in drained(events) if event.is_a("session", "closed")]
    assert [event.payload["cause"] for event in closed] == ["coordinator_down"]
    assert set(processes(host)) <= standing
    start(host).wait_ready()


def holder_of(connection: Connection | None, host: ActorHost) -> int:
    """Of the node's processes the one that holds the listening socket behind a connection of the library's."""
    assert connection is not None
    path = connection._link._sock.getpeername()
    inodes = [line.split()[6] for line in Path("/proc/net/unix").read_text().splitlines() if line.endswith(f" {path}")]
    targets = {f"socket:[{inode}]" for inode in inodes}
    holders = [pid for pid in processes(host) if targets & open_files(pid)]
    assert len(holders) == 1
    return holders[0]


def open_files(pid: int) -> set[str]:
    folder = Path(f"/proc/{pid}/fd")
    return {os.readlink(each) for each in folder.iterdir() if each.is_symlink()}


def test_a_killed_launcher_gives_every_session_one_closed_and_leaves_nothing(host: ActorHost) -> None:
    subscribers = [Subscriber(), Subscriber()]
    sessions = [start(host, event_sink=each) for each in subscribers]
    for session in sessions:
        session.wait_ready()
    everything = processes(host)
    assert host.pid is not None
    os.kill(host.pid, signal.SIGKILL)
    for session, subscriber in zip(sessions, subscribers, strict=True):
        assert session.wait_closed(10)["cause"] == "node_lost"
        assert [event.type for event in drained(subscriber) if event.source == "session"].count("closed") == 1
    deadline = time.monotonic() + 5
    while any(procfs.is_alive(pid) for pid in everything) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [pid for pid in everything if procfs.is_alive(pid)]


def test_a_killed_gateway_is_replaced_and_sessions_go_on(host: ActorHost) -> None:
    session = start(host)
    session.wait_ready()
    node = host._node
    assert node is not None
    os.kill(holder_of(node.gateway._connection, host), signal.SIGKILL)
    deadline = time.monotonic() + 10
    while True:
        try:
            another = start(host)
            break
        except Closed:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    another.wait_ready()
    session.close()
    assert session.wait_closed()["reason"] == "requested"


MAIN = """
import os, sys
from parlora import ActorHost
from parlora.backends.trivial import TrivialBackend

class Mine(TrivialBackend):
    pass

if __name__ == "__main__":
    with ActorHost() as host:
        session = host.start_session(
            channel="parlora.channels.trivial:TrivialChannel",
            provider="parlora.providers.trivial:TrivialProvider",
            backend=Mine,
            context_policy="parlora.policies.trivial:no_decisions",
        )
        session.wait_ready()
        print("ready", flush=True)
        if "wait" in sys.argv:
            sys.stdin.read()
        session.close()
        print(session.wait_closed()["reason"])
"""


def program(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    path = tmp_path / "app.py"
    path.write_text(MAIN)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'actors'}"}
    return subprocess.Popen(
        [sys.executable, str(path), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_a_class_of_the_main_file_runs_in_a_session(tmp_path: Path) -> None:
    with program(tmp_path) as running:
        assert running.communicate(timeout=60)[0].split() == ["ready", "requested"]
        assert running.returncode == 0


def test_a_host_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    with program(tmp_path, "wait") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        below = procfs.descendants(running.pid)
        assert len(below) > 8
        running.kill()
    deadline = time.monotonic() + 5
    while any(procfs.is_alive(pid) for pid in below) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [pid for pid in below if procfs.is_alive(pid)]


def test_a_host_that_closes_while_a_session_starts_closes_it_too(
    host: ActorHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    closer = threading.Thread(target=host.close)
    original = GatewayClient.start_session

    def start_session(*args: Any, **options: Any) -> str:
        path = original(*args, **options)
        closer.start()
        deadline = time.monotonic() + 10
        while host.sessions()[0]._life._end_deadline_us is None:  # until `close` has come to this session
            assert time.monotonic() < deadline
            time.sleep(0.005)
        return path

    monkeypatch.setattr(GatewayClient, "start_session", start_session)
    session = start(host)
    closed = session.wait_closed(5)  # the host would wait for 8 s before it ends the node
    closer.join(10)
    assert closed["cause"] == "close_requested"


def test_a_host_that_closes_does_not_wait_for_a_session_that_was_refused(
    host: ActorHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    closer = threading.Thread(target=host.close)

    def refuse(*args: Any, **options: Any) -> str:
        closer.start()
        while host.sessions()[0]._life._end_deadline_us is None:
            time.sleep(0.005)
        raise Backpressure("the node is full")

    monkeypatch.setattr(GatewayClient, "start_session", refuse)
    with pytest.raises(Backpressure):
        start(host)
    closer.join(6)
    assert not closer.is_alive()


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="Is a directory") as caught:
        ActorHost(log=tmp_path).start()
    assert caught.value.details["field"] == "log"


def test_a_node_that_is_killed_while_it_starts_leaves_no_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(60)")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(os.listdir(run_root()))
    with pytest.raises(Timeout):
        ActorHost(preload=["slow_to_import"], startup_timeout_ms=2_000).start()
    assert set(os.listdir(run_root())) == before
