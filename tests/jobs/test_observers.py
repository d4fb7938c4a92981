"""What watches a job belongs to the backend: with its process everything of the job is gone."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from parlora import ActorHost, Session, Subscriber
from parlora.events import Event
from parlora_actors import procfs

WAIT_S = 20.0
"""Longest wait for anything: only a failing test waits that long."""


@pytest.fixture(scope="module")
def host() -> Iterator[ActorHost]:
    with ActorHost() as host:
        yield host


class Job:
    """A session whose only job runs in `slow_shop`, which never ends by itself."""

    def __init__(self, host: ActorHost, folder: Path, **limits: int) -> None:
        said = {"speaker": "user", "delta": "look it up", "start_ms": 0, "end_ms": 900}
        call = {"delegation_id": "d1", "target": "client", "offset_ms": 900}
        script = [
            {"at_ms": 0, "emit": "transcript_delta", "payload": said},
            {"at_ms": 0, "emit": "delegation_requested", "payload": call},
        ]
        options = {"handler": "tests.jobs.slow_shop:look_up_slowly", "options": {"folder": str(folder)}}
        self.events = Subscriber()
        self.session: Session = host.start_session(
            channel=("parlora.channels.trivial:TrivialChannel", {"send": "idle"}),
            provider=("parlora.providers.trivial:TrivialProvider", {"script": script}),
            backend=("parlora.backends.functions:Functions", options),
            context_policy="parlora.policies:Delegate",
            event_sink=self.events,
            limits=limits,
        )
        self.request_id = str(self.told("request_started").request_id)
        began = wait_for_file(folder / "began")
        self.owner, self.thread, self.helper = map(int, began.read_text().split())

    def told(self, type: str) -> Event:
        while True:
            event = self.events.get(WAIT_S)
            assert isinstance(event, Event), event
            if event.type == type and event.source in ("session", "backend"):
                return event

    def closed(self) -> dict[str, Any]:
        return self.session.wait_closed(WAIT_S)

    def alive(self) -> list[int]:
        return [pid for pid in (self.owner, self.helper) if procfs.is_alive(pid)]


def wait_for_file(path: Path) -> Path:
    deadline = time.monotonic() + WAIT_S
    while not path.exists():
        assert time.monotonic() < deadline, f"{path.name} was not written within {WAIT_S} s"
        time.sleep(0.005)
    return path


@pytest.mark.row("SL-40")
def test_with_the_backends_process_everything_of_the_job_is_gone(host: ActorHost, tmp_path: Path) -> None:
    job = Job(host, tmp_path)
    assert os.path.exists(f"/proc/{job.owner}/task/{job.thread}"), "the observer is a thread of the backend's process"
    os.kill(job.owner, signal.SIGKILL)
    closed = job.closed()

    assert job.alive() == []
    assert closed["jobs"][job.request_id]["status"] == "uncertain"
    assert not (tmp_path / "asked to stop").exists()


@pytest.mark.row("BK-10")
def test_a_job_that_does_not_stop_is_uncertain_at_the_deadline_and_killed(host: ActorHost, tmp_path: Path) -> None:
    job = Job(host, tmp_path, shutdown_timeout_ms=1_000)
    job.session.close("cancel")
    closed = job.closed()

    assert (tmp_path / "asked to stop").exists()
    assert job.alive() == []
    assert closed["jobs"][job.request_id]["status"] == "uncertain"
