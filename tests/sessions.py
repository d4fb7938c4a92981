"""Whole sessions on a real node: start them, watch them, and find their processes by what `ps` calls them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from parlora.events import Event
from parlora_actors import procfs
from parlora_actors.host import ActorHost
from parlora_actors.session_handle import Session

WAIT_S = 20.0
"""Longest wait for anything: only a failing test waits that long."""

MISBEHAVING = "tests.misbehaving"

TRIVIAL: dict[str, Any] = {
    "channel": "parlora.channels.trivial:TrivialChannel",
    "provider": "parlora.providers.trivial:TrivialProvider",
    "backend": "parlora.backends.trivial:TrivialBackend",
    "context_policy": "parlora.policies.trivial:no_decisions",
}

ROLES = (
    "coordinator",
    "channel",
    "provider",
    "backend",
    "policy",
    "input_pipeline",
    "output_pipeline",
)

T = TypeVar("T")


def wait_for(what: str, look: Callable[[], T | None], timeout_s: float = WAIT_S) -> T:
    """The first true answer of `look`; fails naming what it waited for."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.002)
    return found


class Call:
    """One session and everything it told."""

    def __init__(self, host: ActorHost, **parts: Any) -> None:
        self.host = host
        self.events: list[Event] = []
        self._changed = threading.Condition()
        before = set(_supervisors(host))
        self.session: Session = host.start_session(**{**TRIVIAL, "event_sink": self._take, **parts})
        self.supervisor = wait_for("the session's supervisor", lambda: set(_supervisors(host)) - before).pop()

    def _take(self, event: Event) -> None:
        with self._changed:
            self.events.append(event)
            self._changed.notify_all()

    def ready(self) -> Call:
        """Wait until the session is ready."""
        self.session.wait_ready(WAIT_S)
        return self

    def of(self, type: str, source: str | None = None) -> list[Event]:
        """The events of a type so far."""
        with self._changed:
            return [e for e in self.events if e.type == type and source in (None, e.source)]

    def event(self, type: str, source: str | None = None, **payload: Any) -> Event:
        """The first event of a type, with these fields in its payload; waits for it."""

        def look() -> Event | None:
            for event in self.of(type, source):
                if all(event.payload.get(key) == value for key, value in payload.items()):
                    return event
            return None

        return wait_for(f"{source or ''} {type} {payload}; got {[(e.source, e.type) for e in self.events]}", look)

    def closed(self) -> dict[str, Any]:
        """Wait until nothing of the session is left, and check that it told so once."""
        payload = self.session.wait_closed(WAIT_S)
        self.event("closed", "session")
        assert len(self.of("closed", "session")) == 1
        assert not procfs.is_alive(self.supervisor)
        return payload

    def end(self) -> dict[str, Any]:
        """Close in order."""
        self.session.close()
        return self.closed()

    def pid(self, role: str) -> int:
        """The process of a role."""

        return wait_for(f"the process of {role}", lambda: self.live_pid(role))

    def live_pid(self, role: str) -> int | None:
        """The process of a role, if there is one at this moment."""
        named = [pid for pid in procfs.children(self.supervisor) if name_of(pid) == role[:15]]
        return next((pid for pid in named if procfs.is_alive(pid)), None)

    def processes(self) -> dict[str, int]:
        """Every process of the session by its role."""
        return {role: self.pid(role) for role in ROLES}

    def below(self) -> list[int]:
        """Everything alive below the session's supervisor."""
        return [pid for pid in procfs.descendants(self.supervisor) if procfs.is_alive(pid)]


def name_of(pid: int) -> str:
    """What `ps` calls a process; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _supervisors(host: ActorHost) -> list[int]:
    """A forked process has its parent's name until it gives itself its own, so the parents must have another one."""
    assert host.pid is not None
    below = procfs.descendants(host.pid)
    nodes = [pid for pid in below if name_of(pid) == "node_supervisor"]
    return [pid for node in nodes for pid in procfs.children(node) if name_of(pid) == "session_supervisor"[:15]]


def files_of(host: ActorHost) -> set[str]:
    """The names in the node's directory."""
    assert host.run_dir is not None
    return set(os.listdir(host.run_dir))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActorHost]:
    """One node for a file of tests."""
    log = tmp_path_factory.mktemp("node") / "node.log"
    with ActorHost(log=log, max_sessions=16) as host:
        yield host


@pytest.fixture
def call(host: ActorHost) -> Iterator[Callable[..., Call]]:
    """Starts sessions; at the end of the test each is over, and the node's directory is as it was."""
    before = files_of(host)
    calls: list[Call] = []

    def start(**parts: Any) -> Call:
        calls.append(Call(host, **parts))
        return calls[-1]

    yield start
    for each in calls:
        each.session.close()
        each.session.wait_closed(WAIT_S)
        wait_for("the end of the session's supervisor", lambda: not procfs.is_alive(each.supervisor))  # noqa: B023
    assert files_of(host) == before
