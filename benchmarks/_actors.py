"""Processes that the benchmarks start: adapters and actors, each with one habit."""

from __future__ import annotations

import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Mapping
from typing import Any

from parlora.backends.trivial import TrivialBackend
from parlora.context.decision import ContextDecision, DecisionKind
from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.contract.backend import BackendCapabilities, BackendRequest
from parlora.providers.trivial import TrivialProvider
from parlora.wire import to_data
from parlora_actors.actor import ParloraActor
from parlora_actors.timing import now_us

BOMB = 200


class Child(ParloraActor):
    """Tells when it was up."""

    def on_init(self, init: dict[str, Any]) -> None:
        self.log.write("info", "up", incarnation=self.incarnation, at_us=now_us())


def ignore_all() -> None:
    """Be deaf to what can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def eight() -> None:
    """Become eight processes, half of them daemons that forked twice; none of them wants to go."""
    ignore_all()
    for number in range(7):
        child = os.fork()
        if child == 0:
            if number % 2:
                os.setsid()
                if os.fork():
                    os._exit(0)
            time.sleep(600)
            os._exit(0)
        if number % 2:
            os.waitpid(child, 0)


def bomb() -> None:
    """Fork until there are `BOMB` of us, a third of them in sessions of their own; each goes on when others die."""
    ignore_all()
    count = mmap.mmap(-1, 8)
    until = time.monotonic() + 3
    while time.monotonic() < until:
        (number,) = struct.unpack("q", count[:8])
        if number >= BOMB - 1:
            break
        count[:8] = struct.pack("q", number + 1)
        if os.fork() == 0 and number % 3 == 0:
            os.setsid()
        time.sleep(0.005)
    time.sleep(600)


HOSTILE = {"eight": eight, "bomb": bomb}


class HostileBackend(TrivialBackend):
    """A backend below which something hostile lives, and that never closes.

    life: a FIFO that every one of them holds open for writing, so that its end is the end of the last of them.
    """

    def __init__(self, what: str, life: str) -> None:
        super().__init__()
        self._what = what
        self._life = life

    def start(self, init: AdapterInit) -> None:
        os.open(self._life, os.O_WRONLY)
        if os.fork() == 0:
            HOSTILE[self._what]()
            time.sleep(600)
            os._exit(0)
        super().start(init)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        time.sleep(600)


class BusyProvider(TrivialProvider):
    """Asks for `tasks` pieces of work, and tells the time every 10 ms in an event with a payload of some size."""

    def __init__(self, tasks: int, padding: int) -> None:
        super().__init__()
        self._tasks = tasks
        self._padding = "x" * padding

    def start(self, init: AdapterInit) -> None:
        super().start(init)
        self._sink_of_events = init.event_sink
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        pause = threading.Event()
        for number in range(self._tasks):
            payload = {"delegation_id": f"d{number}", "target": "client", "offset_ms": 0}
            self._sink_of_events.emit("delegation_requested", payload)
            pause.wait(0.03)
        while True:
            pause.wait(0.01)
            self._sink_of_events.emit("extension", {"sent_us": now_us(), "padding": self._padding})


class HoldingBackend(TrivialBackend):
    """Takes requests and never ends one."""

    def start(self, init: AdapterInit) -> None:
        self._sink = init.event_sink
        self._sink.emit("ready", {"capabilities": to_data(BackendCapabilities())})

    def submit(self, request: BackendRequest, command_id: str) -> None:
        self._sink.emit("request_started", {"task_revision": request.task_revision}, request_id=request.id)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        self._sink.emit("closed", {"policy": str(policy)}, command_id=command_id)


def start_everything(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> list[ContextDecision]:
    """Every delegation is work."""
    if trigger.kind is not TriggerKind.DELEGATION:
        return []
    return [ContextDecision(DecisionKind.START_TASK, delegation_id=trigger.delegation_id, input={"text": "work"})]
