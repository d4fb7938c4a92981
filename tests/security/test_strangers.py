"""Bytes of strangers at a node's sockets: another user is not heard, and nobody's bytes become code."""

import os
import pickle
import select
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from thespian.actors import ActorAddress, ActorExitRequest

from parlora_actors import procfs
from parlora_actors.child_spec import ChildSpec, SupervisorSpec
from parlora_actors.transport.address import UnixAddress
from tests.supervision.nodes import ROOT, LaunchedNode, supervised

NOBODY = 65_534
QUIET = SupervisorSpec(children=(ChildSpec("a", "tests.supervision.troubles.Quiet"),), intensity=0)


@pytest.fixture(scope="module")
def standing_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaunchedNode]:
    with supervised(QUIET, tmp_path_factory.mktemp("node")) as launched:
        launched.ready()
        yield launched
        gone = launched.stop()
        assert (gone.cause, gone.killed, gone.left) == ("stopped", 0, [])


@pytest.fixture
def node(standing_node: LaunchedNode) -> Iterator[LaunchedNode]:
    """A node that has to survive the test unharmed: the same processes run afterwards, and in the end it can stop."""
    before = standing_node.pids()
    yield standing_node
    assert standing_node.pids() == before


def sockets_of(node: LaunchedNode) -> list[str]:
    """The sockets at which somebody reads: the launcher's own is used while it starts and stops only."""
    found = [os.path.join(node.run_dir, name) for name in sorted(os.listdir(node.run_dir))]
    own = os.path.join(node.run_dir, f"a{node.launcher}")
    return [path for path in found if stat.S_ISSOCK(os.lstat(path).st_mode) and path != own]


def say(path: str, data: bytes) -> bytes:
    """Send bytes to a socket as a process of the same user; what comes back before it is closed or half a second."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        answer = b""
        try:
            connection.sendall(data)
            while select.select([connection], [], [], 0.5)[0]:
                received = connection.recv(65_536)
                if not received:
                    break
                answer += received
        except (BrokenPipeError, ConnectionResetError):
            pass
        return answer


def frame(value: Any) -> bytes:
    body = pickle.dumps(value)
    return b"%d>" % len(body) + body


class Evil:
    """Makes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> Any:
        return (open, (self.path, "w"))


def test_a_pickle_that_runs_code_runs_nowhere(node: LaunchedNode, tmp_path: Path) -> None:
    proof = tmp_path / "code-was-run"
    sender = ActorAddress(UnixAddress(str(tmp_path / "nobody")))
    for path in sockets_of(node):
        for value in (Evil(proof), (sender, Evil(proof)), (sender, {"nested": Evil(proof)})):
            say(path, frame(value))
    assert not proof.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\0" * 1_000,
        b"GET / HTTP/1.1\r\n\r\n",
        b"-1>",
        b"99999999999999999999>",
        b"%d>" % (1 << 31),
        b"5>abc",
        b"3>\x80\x04.",
        frame(((), ())),
        frame(b"no sender"),
        frame((None, ActorExitRequest())),
        b"1" * 5_000,
    ],
    ids=lambda data: repr(data[:12]),
)
def test_malformed_bytes_harm_nobody(node: LaunchedNode, data: bytes) -> None:
    for path in sockets_of(node):
        say(path, data)


def test_connections_that_say_nothing_harm_nobody(node: LaunchedNode) -> None:
    connections = []
    for path in sockets_of(node):
        for _ in range(50):
            connection = socket.socket(socket.AF_UNIX)
            connection.connect(path)
            connections.append(connection)
    for connection in connections:
        connection.close()


def test_everything_of_a_node_is_closed_to_others(node: LaunchedNode) -> None:
    run_dir = node.run_dir
    assert stat.S_IMODE(os.lstat(run_dir).st_mode) == 0o700
    modes = {name: stat.S_IMODE(os.lstat(os.path.join(run_dir, name)).st_mode) for name in os.listdir(run_dir)}
    assert set(modes.values()) == {0o600}, modes
    assert len(sockets_of(node)) >= 4


def test_a_node_listens_on_no_network(node: LaunchedNode) -> None:
    network = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            network.add(f"socket:[{line.split()[9]}]")
    for pid in node.pids():
        for entry in os.listdir(f"/proc/{pid}/fd"):
            assert _target(pid, entry) not in network


def _target(pid: int, entry: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/fd/{entry}")
    except FileNotFoundError:
        return ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("opened", [False, True], ids=["closed directory", "opened by mistake"])
def test_another_user_is_not_heard(node: LaunchedNode, opened: bool, tmp_path: Path) -> None:
    """The directory keeps others out; were it opened, the peer's uid would."""
    run_dir = Path(node.run_dir)
    paths = sockets_of(node)
    sender = ActorAddress(UnixAddress(paths[0]))
    if opened:
        for directory in (run_dir, *run_dir.parents):
            directory.chmod(directory.stat().st_mode | 0o011)
        for path in paths:
            os.chmod(path, 0o666)
    exit_request = frame((sender, ActorExitRequest()))
    script = textwrap.dedent("""
        import os, socket, sys
        os.setgroups([]); os.setgid(int(sys.argv[1])); os.setuid(int(sys.argv[1]))
        for path in sys.argv[3:]:
            s = socket.socket(socket.AF_UNIX); s.settimeout(5)
            try:
                s.connect(path)
                s.sendall(bytes.fromhex(sys.argv[2]))
                print("closed" if s.recv(10) == b"" else "answered")
            except PermissionError:
                print("kept out")
            except (BrokenPipeError, ConnectionResetError):
                print("closed")
    """)
    stranger = subprocess.run(
        [sys.executable, "-c", script, str(NOBODY), exit_request.hex(), *paths],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert stranger.stdout.split("\n")[:-1] == ["closed" if opened else "kept out"] * len(paths)
    if opened:
        for directory in (run_dir, run_dir.parent):
            directory.chmod(0o700)
    assert all(procfs.is_alive(pid) for pid in node.pids())


def test_the_stock_network_bases_are_refused_where_ours_is_installed() -> None:
    """They bind every interface and unpickle from anybody, as the first two lines show."""
    script = textwrap.dedent("""
        import pickle
        from thespian.actors import ActorSystem
        from thespian.system.transport import ExternalInterfaceTransportInit, TCPTransport
        stock = TCPTransport.TCPTransport(ExternalInterfaceTransportInit(), {}, None, None)
        print(stock.socket.getsockname()[0], TCPTransport.serializer is pickle)
        stock.close()
        from parlora.errors import Unsupported
        from parlora_actors.transport.base import install
        install()
        for name in ("multiprocTCPBase", "multiprocUDPBase", "multiprocQueueBase"):
            try:
                ActorSystem(name, transientUnique=True)
            except Unsupported:
                print("refused")
    """)
    ran = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'actors'}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert ran.stdout.splitlines() == ["0.0.0.0 True", "refused", "refused", "refused"]
