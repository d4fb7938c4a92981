"""Start a launcher as a host does, and look at what it runs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from parlora.wire import to_data
from parlora_actors import procfs
from parlora_actors.child_spec import SupervisorSpec
from parlora_actors.link import Link
from parlora_actors.messages.launch import FROM_LAUNCHER, TO_LAUNCHER, Launch, NodeFailed, NodeGone, NodeReady, StopNode
from parlora_actors.timing import now_us

ROOT = Path(__file__).parents[2]
SUPERVISOR = "parlora_actors.supervisor.Supervisor"
WAIT_S = 15.0

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], timeout_s: float = WAIT_S) -> T:
    """The first true answer of `look`, asked again and again; fails naming what it waited for."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.002)


class LaunchedNode:
    """A keeper with its launcher that this process started."""

    def __init__(self, launch: Launch, log_path: Path) -> None:
        self.log_path = log_path
        ours, theirs = socket.socketpair()
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "parlora_actors.keeper",
                "--fd", str(theirs.fileno()), "--host", str(os.getpid()),
            ],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'actors'}"},
        )  # fmt: skip
        theirs.close()
        self.link = Link(ours, FROM_LAUNCHER, TO_LAUNCHER)
        self.link.send(launch)
        self.received: list[Any] = []
        self.run_dir = ""
        """Known from `ready` on."""

    def next(self, cls: type[T]) -> T:
        """The next message of that class; others are kept in `received`."""
        deadline = time.monotonic() + WAIT_S
        while True:
            for message in self.received:
                if isinstance(message, cls):
                    self.received.remove(message)
                    return message
            assert not self.link.closed, f"the launcher closed without {cls.__name__}; got {self.received}"
            assert time.monotonic() < deadline, f"no {cls.__name__}; got {self.received}"
            select.select([self.link], [], [], 0.1)
            self.received += self.link.receive()

    def ready(self) -> NodeReady:
        """Wait until the node runs."""
        ready = self.next(NodeReady)
        self.run_dir = ready.run_dir
        return ready

    def stop(self, within_ms: int = 3_000) -> NodeGone:
        """Stop the node in order."""
        self.link.send(StopNode(now_us() + within_ms * 1_000))
        return self.gone()

    def gone(self) -> NodeGone:
        """Wait for the node's last message and the launcher's exit."""
        gone = self.next(NodeGone)
        self.process.wait(WAIT_S)
        return gone

    def close(self) -> None:
        """Leave nothing, whatever the test did."""
        self.link.close()
        try:
            self.process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def log(self, event: str | None = None) -> list[dict[str, Any]]:
        """The node's log so far: all lines, or those of one event."""
        lines = self.log_path.read_text().splitlines() if self.log_path.exists() else []
        records = [json.loads(line) for line in lines]
        return [record for record in records if event is None or record["event"] == event]

    def wait_log(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first log line of that event with those fields."""

        def look() -> dict[str, Any] | None:
            matching = (r for r in self.log(event) if all(r.get(k) == v for k, v in fields.items()))
            return next(matching, None)

        return wait_for(f"{event} {fields}", look)

    @property
    def launcher(self) -> int:
        """The launcher's pid."""
        return wait_for("the launcher", lambda: procfs.children(self.process.pid))[0]

    def pids(self) -> list[int]:
        """The keeper and everything below it that is alive."""
        return [pid for pid in [self.process.pid, *procfs.descendants(self.process.pid)] if procfs.is_alive(pid)]


@contextlib.contextmanager
def node(root: str, root_init: dict[str, Any], tmp_path: Path, **options: Any) -> Iterator[LaunchedNode]:
    """A node whose root is that actor."""
    launch = Launch(
        root=root,
        root_init=root_init,
        sys_path=[str(tmp_path), str(ROOT), str(ROOT / "actors"), *sys.path],
        log_path=str(tmp_path / "node.log"),
        **options,
    )
    launched = LaunchedNode(launch, tmp_path / "node.log")
    try:
        yield launched
    finally:
        launched.close()


def supervised(spec: SupervisorSpec, tmp_path: Path, **options: Any) -> contextlib.AbstractContextManager[LaunchedNode]:
    """A node whose root is a plain supervisor of these children."""
    return node(SUPERVISOR, {"spec": to_data(spec)}, tmp_path, **options)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Signal a process that this test started, through its node."""
    os.kill(pid, number)


__all__ = ["LaunchedNode", "NodeFailed", "NodeGone", "NodeReady", "kill", "node", "supervised", "wait_for"]
