"""The node's supervisor admits sessions, tells of their end, and keeps nothing of them."""

import contextlib
import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from parlora_actors import procfs
from parlora_actors.link import Link
from parlora_actors.messages.node import FROM_NODE, TO_NODE, Admit, Admitted, Ended, Refused
from parlora_actors.timing import now_us
from tests.supervision.nodes import LaunchedNode, node, wait_for

ROOT = "parlora_actors.node_supervisor.NodeSupervisor"
T = TypeVar("T", Admitted, Refused, Ended)


class Connection:
    """The test's end of the gateway."""

    def __init__(self, run_dir: str) -> None:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(os.path.join(run_dir, "node.sock"))
        self.link = Link(sock, FROM_NODE, TO_NODE)
        self._received: list[Any] = []

    def admit(self, session_id: str, **spec: Any) -> None:
        spec = {"session_id": session_id, "deadline_us": now_us() + 10_000_000} | spec
        self.link.send(Admit(f"r-{session_id}", spec))

    def next(self, cls: type[T]) -> T:
        deadline = time.monotonic() + 15
        while not self._received:
            assert time.monotonic() < deadline, f"no {cls.__name__}"
            self.link.wait_readable(0.1)
            self._received += self.link.receive()
        message = self._received.pop(0)
        assert isinstance(message, cls), message
        return message


@contextlib.contextmanager
def running(tmp_path: Path, **init: Any) -> Iterator[tuple[LaunchedNode, Connection]]:
    actors = {
        "gateway_actor": "tests.supervision.node_actors.ProxyGateway",
        "session_actor": "tests.supervision.node_actors.FakeSession",
    }
    with node(ROOT, actors | init, tmp_path) as launched:
        run_dir = launched.ready().run_dir
        connection = Connection(run_dir)
        try:
            yield launched, connection
            assert launched.stop().left == []
        finally:
            connection.link.close()


def supervisors(node: LaunchedNode) -> list[int]:
    """The node's standing processes and the sessions' supervisors."""
    root = node.log("up")[0]
    parent = procfs.read_stat(root["pid"])
    assert parent is not None
    return [pid for pid in procfs.children(parent.parent) if procfs.is_alive(pid)]


def test_a_session_is_started_and_its_end_is_told_after_everything_of_it_is_gone(tmp_path: Path) -> None:
    with running(tmp_path) as (launched, gateway):
        gateway.admit("one", children=3)
        admitted = gateway.next(Admitted)
        assert (admitted.id, admitted.session_id) == ("r-one", "one")
        assert Path(admitted.path).is_socket()
        children = [record["pid"] for record in launched.log("up") if record["session_id"] == "one"]
        assert len(children) == 3
        os.kill(children[0], signal.SIGKILL)
        ended = gateway.next(Ended)
        assert ended.closed == {"reason": "test", "cause": "intensity"}
        assert not any(procfs.is_alive(pid) for pid in children)
        assert not Path(admitted.path).exists()


@pytest.mark.parametrize("behaviour", ["", "fork_away"])
def test_a_killed_session_supervisor_leaves_nothing_and_is_reported(behaviour: str, tmp_path: Path) -> None:
    with running(tmp_path) as (launched, gateway):
        gateway.admit("one", children=4, behaviour=behaviour)
        path = gateway.next(Admitted).path
        session = next(pid for pid in supervisors(launched) if procfs.children(pid))
        below = procfs.descendants(session)
        assert len(below) == (7 if behaviour else 4)
        os.kill(session, signal.SIGKILL)
        closed = gateway.next(Ended).closed
        assert (closed["reason"], closed["cause"]) == ("failed", "supervisor_down")
        assert closed["error"]["details"]["how"] == "SIGKILL"
        assert not any(procfs.is_alive(pid) for pid in [session, *below])
        assert not Path(path).exists()


def test_a_session_that_fails_to_start_is_refused_with_its_place_but_not_its_words(tmp_path: Path) -> None:
    with running(tmp_path) as (launched, gateway):
        gateway.admit("one", behaviour="crash")
        error = gateway.next(Refused).error
        assert error["code"] == "adapter_failed"
        assert error["details"]["crash"]["type"] == "RuntimeError"
        assert "secret" not in launched.log_path.read_text()
        gateway.admit("one")
        gateway.next(Admitted)


def test_beyond_the_limits_a_session_is_refused_at_once_with_both_numbers(tmp_path: Path) -> None:
    with running(tmp_path, max_sessions=2, max_starts=1) as (_, gateway):
        gateway.admit("one")
        gateway.next(Admitted)
        gateway.admit("two", behaviour="never_up")
        gateway.admit("three")
        starting = gateway.next(Refused).error
        assert starting["code"] == "backpressure"
        assert starting["details"] == {"sessions": 2, "max_sessions": 2, "starting": 1, "max_starts": 1}


def test_a_session_id_is_used_once_at_a_time(tmp_path: Path) -> None:
    with running(tmp_path, max_starts=2) as (_, gateway):
        gateway.admit("one")
        gateway.next(Admitted)
        gateway.admit("one")
        error = gateway.next(Refused).error
        assert (error["code"], error["details"]) == ("conflict", {"field": "session_id"})


def test_a_dead_gateway_is_replaced_and_knows_the_sessions(tmp_path: Path) -> None:
    with running(tmp_path) as (launched, gateway):
        gateway.admit("one")
        path = gateway.next(Admitted).path
        os.kill(launched.log("up")[0]["pid"], signal.SIGKILL)
        second = launched.wait_log("up", role="gateway", incarnation=2)
        (known,) = second["sessions"]
        assert (known["session_id"], known["path"]) == ("one", path)
        assert Path(path).is_socket()


def test_many_sessions_leave_the_node_as_it_was(tmp_path: Path) -> None:
    with running(tmp_path) as (launched, gateway):
        root = procfs.read_stat(launched.log("up")[0]["pid"])
        assert root is not None
        standing = [root.pid, root.parent]

        def descriptors() -> Counter[str]:
            """Without selectors, which Thespian makes anew for every wait."""
            targets = (_target(pid, entry) for pid in standing for entry in os.listdir(f"/proc/{pid}/fd"))
            return Counter(target.partition(":")[0] for target in targets if "eventpoll" not in target)

        def one(number: int) -> None:
            gateway.admit(f"s{number}")
            gateway.next(Admitted)
            session = next(pid for pid in supervisors(launched) if procfs.children(pid))
            os.kill(session, signal.SIGTERM)
            gateway.next(Ended)

        for number in range(3):
            one(number)
        before, files = descriptors(), sorted(os.listdir(launched_run_dir(standing)))
        for number in range(3, 12):
            one(number)
        wait_for(f"no more descriptors than {before}", lambda: not descriptors() - before)
        assert sorted(os.listdir(launched_run_dir(standing))) == files


def _target(pid: int, entry: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{entry}")
    except FileNotFoundError:
        return "eventpoll"


def launched_run_dir(standing: list[int]) -> str:
    runtime = os.environ["XDG_RUNTIME_DIR"]
    (name,) = os.listdir(os.path.join(runtime, "parlora"))
    return os.path.join(runtime, "parlora", name)
