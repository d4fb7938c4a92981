"""The monitor shows a node as it is, and nothing that a watcher does reaches a session."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import parlora
from parlora import ActorHost, NodeView, NodeWatch, NotFound, ProcessView
from parlora_actors import procfs
from parlora_actors.link import Link
from parlora_actors.messages.host import PROTOCOL_MAJOR, PROTOCOL_MINOR, Hello
from parlora_actors.messages.monitor import FROM_MONITOR, TO_MONITOR, Watch
from tests.sessions import ROLES, TRIVIAL, name_of, wait_for

WAIT_S = 20.0


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActorHost]:
    log = tmp_path_factory.mktemp("node") / "node.log"
    with ActorHost(log=log, max_sessions=4) as host:
        yield host


def run_dir(host: ActorHost) -> str:
    assert host.run_dir is not None
    return host.run_dir


def view_with(watch: NodeWatch, what: str, look: Callable[[NodeView], bool]) -> NodeView:
    deadline = time.monotonic() + WAIT_S
    while not look(view := watch.view()):
        assert time.monotonic() < deadline, f"no view with {what}: {view}"
    return view


def monitor_of(host: ActorHost) -> int:
    assert host.pid is not None
    pid = host.pid
    return wait_for("the monitor", lambda: next((p for p in procfs.descendants(pid) if name_of(p) == "monitor"), None))


def connect(host: ActorHost) -> Link:
    """A watcher by hand, that may do what the library's does not."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.path.join(run_dir(host), "monitor.sock"))
    link = Link(sock, FROM_MONITOR, TO_MONITOR)
    link.send(Hello(PROTOCOL_MAJOR, PROTOCOL_MINOR, "test"))
    return link


def test_a_view_has_every_process_its_rings_and_the_health_of_its_session(host: ActorHost) -> None:
    session = host.start_session(**TRIVIAL)
    session.wait_ready(WAIT_S)
    with parlora.attach(run_dir(host)) as attached, attached.monitor() as watch:
        view = view_with(
            watch,
            "a ready session and CPU figures",
            lambda view: (
                any(each.status.get("status") == "ready" for each in view.sessions)
                and all(process.cpu_percent is not None for process in view.processes)
            ),
        )
    assert host.pid is not None
    assert {process.pid for process in view.processes} == {host.pid, *procfs.descendants(host.pid)}
    by_role: dict[str, ProcessView] = {process.role: process for process in view.processes}
    own = {"keeper", "launcher", "thespian_admin", "thespian_logger", "node_supervisor", "gateway", "monitor"}
    assert set(by_role) == {*own, "session_supervisor", *ROLES}
    for role in ("session_supervisor", *ROLES):
        process = by_role[role]
        assert (process.session_id, process.state, process.restarts) == (session.id, "up", 0)
        assert name_of(process.pid) == role[:15]
        assert process.memory_bytes > 2**20
        assert process.heartbeat_age_ms is not None
    (seen,) = view.sessions
    rings = {ring.name: ring for ring in seen.rings}
    assert set(rings) == {"capture", "uplink", "generated", "playback"}
    assert rings["capture"].frames_in > 0
    assert 0 <= rings["capture"].queued_bytes <= rings["capture"].max_bytes
    assert seen.status["health"]["input_forwarded"]["frames"] > 0
    with parlora.attach(run_dir(host)) as attached, attached.monitor() as watch:
        session.close()
        session.wait_closed(WAIT_S)
        view_with(watch, "no session", lambda view: not view.sessions and len(view.processes) == len(own))


def test_restarts_and_frozen_processes_are_shown(host: ActorHost) -> None:
    session = host.start_session(**TRIVIAL)
    session.wait_ready(WAIT_S)

    def worker(view: NodeView) -> ProcessView | None:
        return next((each for each in view.processes if each.role == "policy"), None)

    with NodeWatch(run_dir(host)) as watch:
        first = worker(view_with(watch, "a policy worker", lambda view: worker(view) is not None))
        assert first is not None
        os.kill(first.pid, signal.SIGSTOP)
        view_with(watch, "a frozen one", lambda view: (found := worker(view)) is not None and found.state == "frozen")
        os.kill(first.pid, signal.SIGKILL)
        view_with(watch, "its successor", lambda view: (found := worker(view)) is not None and found.restarts == 1)
    session.close()
    session.wait_closed(WAIT_S)


def test_a_watcher_that_does_not_read_is_shown_out_and_others_see_on(host: ActorHost) -> None:
    slow = connect(host)
    slow._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    for _ in range(400):  # each asks for a view at once: more than the socket and the queue take
        slow.send(Watch())
    with NodeWatch(run_dir(host)) as watch:
        for _ in range(3):
            watch.view()

        def is_shown_out() -> bool:
            watch.view()
            try:
                return slow._sock.send(b"\0" * 8, socket.MSG_NOSIGNAL) < 0
            except BlockingIOError:
                return False
            except OSError:
                return True

        wait_for("the end of the slow watcher", is_shown_out)
    slow.close()


def test_what_is_no_watch_is_not_understood(host: ActorHost) -> None:
    """There is no other request, so no watcher can change anything; who sends something else is shown out."""
    stranger = connect(host)
    stranger._sock.send(b"\xff" * 64)
    wait_for(
        "the end of the stranger", lambda: stranger.wait_readable(0.1) and (stranger.receive(), stranger.closed)[1]
    )
    stranger.close()
    with NodeWatch(run_dir(host)) as watch:
        assert watch.view().processes


def test_a_killed_monitor_comes_back_with_everything_and_sessions_go_on(node: ActorHost) -> None:
    session = node.start_session(**TRIVIAL)
    session.wait_ready(WAIT_S)
    for _ in range(2):
        pid = monitor_of(node)
        os.kill(pid, signal.SIGKILL)
        wait_for("its successor", lambda: monitor_of(node) != pid)  # noqa: B023
    wait_for("its socket", lambda: _answers(node))
    with NodeWatch(run_dir(node)) as watch:
        view_with(watch, "the session again", lambda view: [each.session_id for each in view.sessions] == [session.id])
    assert session.status()["status"] == "ready"
    session.close()
    assert session.wait_closed(WAIT_S)["reason"] == "requested"


def _answers(host: ActorHost) -> bool:
    try:
        NodeWatch(run_dir(host)).close()
    except NotFound:
        return False
    return True


def test_a_frozen_monitor_holds_up_no_session(node: ActorHost) -> None:
    pid = monitor_of(node)
    os.kill(pid, signal.SIGSTOP)
    session = node.start_session(**TRIVIAL)
    session.wait_ready(WAIT_S)
    session.close()
    assert session.wait_closed(WAIT_S)["reason"] == "requested"
    os.kill(pid, signal.SIGKILL)


def test_watching_starts_no_node(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no node runs"):
        NodeWatch(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []
