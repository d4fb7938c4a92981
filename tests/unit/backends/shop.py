"""Functions of an application that the backend tests name by import path."""

import asyncio
import threading
from typing import Any

from parlora.backends.job import Cancelled, Job
from parlora.contract.backend import BackendRequest, BackendResult, ResultStatus
from parlora.errors import NotFound

SECRET = "key-0815"


class Gates:
    """Named events shared by a test and a function: no sleeps."""

    def __init__(self) -> None:
        self._gates: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    def gate(self, name: str) -> threading.Event:
        with self._lock:
            return self._gates.setdefault(name, threading.Event())

    def pass_through(self, name: str) -> None:
        assert self.gate(name).wait(10), f"nobody opened {name}"


gates = Gates()
runs: list[str] = []


def hours(request: BackendRequest) -> str:
    return "we are open from nine to five"


def status(request: BackendRequest, job: Job) -> dict[str, Any]:
    job.progress("looking", {"order": request.input["order"]})
    return {"order": request.input["order"], "status": "shipped", "summary": "it has shipped"}


def counted(request: BackendRequest) -> None:
    runs.append(request.id)


def held(request: BackendRequest, job: Job) -> str:
    gates.pass_through(request.id)
    job.check()
    return f"{request.id} done, stop asked for: {job.cancelled}"


def stubborn(request: BackendRequest, job: Job) -> str:
    gates.gate(f"{request.id} began").set()
    gates.pass_through(request.id)
    return f"asked to stop: {job.cancelled}"


def waits(request: BackendRequest, job: Job) -> BackendResult:
    if job.wait(10_000) and job.cancelled:
        return job.result(facts={"half": True}, status="cancelled")
    return job.result("not asked")


async def waits_async(request: BackendRequest, job: Job) -> str:
    await job.wait_async(10_000)
    job.check()
    return "not asked"


async def together(request: BackendRequest, job: Job) -> str:
    gates.gate(f"{request.id} began").set()
    for _ in range(1_000):
        if all(gates.gate(f"{name} began").is_set() for name in ("r1", "r2")):
            return threading.current_thread().name
        await asyncio.sleep(0.005)
    return "alone"


def asks(request: BackendRequest, job: Job) -> None:
    job.ask("which order?")


def takes_updates(request: BackendRequest, job: Job) -> BackendResult:
    assert job.wait(10_000)
    changes = job.updates()
    return job.result(facts={"changes": changes})


def breaks(request: BackendRequest) -> None:
    raise ValueError(f"could not log in with {SECRET}")


def not_there(request: BackendRequest) -> None:
    raise NotFound("no such order", details={"order": "999"})


def leaves(request: BackendRequest) -> None:
    raise SystemExit(3)


def cancels_itself(request: BackendRequest) -> None:
    raise Cancelled


def somebody_elses(request: BackendRequest) -> BackendResult:
    return BackendResult("other", request.task_id, request.task_revision, ResultStatus.COMPLETED)


def too_long(request: BackendRequest) -> str:
    return "x" * 65_536


def number(request: BackendRequest) -> int:
    return 7


def no_arguments() -> None: ...


def echo_options(request: BackendRequest, job: Job) -> dict[str, Any]:
    return dict(job.options)
