"""Random sessions meet random faults; every one of them must end once, in time, with nothing left.

The seed decides everything but the machine's own timing: a storm with the same seed starts the same sessions in the
same order and strikes the same processes.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from parlora.errors import Backpressure, ParloraError
from parlora_actors import procfs
from parlora_actors.host import ActorHost
from tests.sessions import MISBEHAVING, ROLES, TRIVIAL, Call, wait_for

IN_TIME_S: Final = 12.0
"""From the fault to nothing left: 1.0 s of silence, 1.0 s of shutdown deadline, and a machine that others use too."""

QUICK: Final = {"unresponsive_timeout_ms": 1_000, "shutdown_timeout_ms": 1_000, "startup_timeout_ms": 10_000}
SUPERVISOR: Final = "supervisor"
FAULTS: Final = ("SIGKILL", "SIGKILL", "SIGSEGV", "SIGSTOP", "SIGTERM", "close", "cancel")

CHANNELS: Final = (
    TRIVIAL["channel"],
    ("parlora.channels.trivial:TrivialChannel", {"send": "counter"}),
    f"{MISBEHAVING}:IgnoresClose",
)
PROVIDERS: Final = (TRIVIAL["provider"], f"{MISBEHAVING}:Delegating", f"{MISBEHAVING}:CountingProvider")
BACKENDS: Final = (TRIVIAL["backend"], f"{MISBEHAVING}:WithDescendants", f"{MISBEHAVING}:StubbornBackend")
POLICIES: Final = (TRIVIAL["context_policy"], f"{MISBEHAVING}:start_everything")


@dataclass(slots=True)
class Plan:
    """One session and what will befall it, drawn before anything is started."""

    parts: dict[str, Any]
    faults: list[tuple[str, str]]
    after_s: float
    waits_for_ready: bool

    @classmethod
    def draw(cls, chance: random.Random) -> Plan:
        parts = {
            "channel": chance.choice(CHANNELS),
            "provider": chance.choice(PROVIDERS),
            "backend": chance.choice(BACKENDS),
            "context_policy": chance.choice(POLICIES),
            "limits": QUICK,
        }
        waits_for_ready = chance.random() < 0.7
        # A process that is just being forked may still have its parent's way with a SIGTERM, and that is no fault.
        kinds = FAULTS if waits_for_ready else [each for each in FAULTS if each != "SIGTERM"]
        count = chance.choice((1, 1, 1, 2, 3, 8))
        faults = [(chance.choice(kinds), chance.choice((*ROLES, SUPERVISOR))) for _ in range(count)]
        return cls(parts, faults, chance.uniform(0, 0.05), waits_for_ready)


@dataclass(slots=True)
class Storm:
    """`workers` threads, each with its own sessions in a row, until `faults` were dealt out or `until` has come."""

    host: ActorHost
    seed: int
    faults: int
    until: float
    workers: int = 3
    dealt: Counter[str] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)
    _starting: threading.Lock = field(default_factory=threading.Lock)

    def rage(self) -> None:
        """Return when all is over; raises `AssertionError` naming the plans that went wrong."""
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(self.workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not self.errors, "\n\n".join([f"seed {self.seed}", *self.errors])

    def _work(self, number: int) -> None:
        chance = random.Random(f"{self.seed}/{number}")
        while not self.errors and self.dealt.total() < self.faults and time.monotonic() < self.until:
            plan = Plan.draw(chance)
            try:
                self._carry_out(plan)
            except Exception as error:  # told with its plan by whoever waits for us
                self.errors.append(f"{plan}\n{type(error).__name__}: {error}")

    def _carry_out(self, plan: Plan) -> None:
        call = self._start(plan)
        if plan.waits_for_ready:
            call.ready()
        time.sleep(plan.after_s)
        everything = {call.supervisor, *call.below()}
        struck = [role for fault, role in plan.faults if self._strike(call, fault, role)]
        if set(struck) <= {"policy"}:  # its death ends nothing
            call.session.close("cancel")
        began = time.monotonic()
        payload = call.closed()
        taken_s = time.monotonic() - began
        assert taken_s < IN_TIME_S, f"took {taken_s:.1f} s"
        wait_for("the end of everything", lambda: not any(map(procfs.is_alive, everything)), 1)
        self.ends[str(payload["cause"])] += 1

    def _start(self, plan: Plan) -> Call:
        while True:
            with self._starting:  # a session's supervisor is found by what was not there before
                try:
                    return Call(self.host, **plan.parts)
                except Backpressure:
                    pass
            time.sleep(0.01)

    def _strike(self, call: Call, fault: str, role: str) -> bool:
        """Deal one fault; False if there was nobody (yet, or any more) to meet it."""
        if not fault.startswith("SIG"):
            self.dealt[fault] += 1
            with contextlib.suppress(ParloraError):  # an earlier fault may have ended its coordinator
                call.session.close("finish" if fault == "close" else "cancel")
                return True
            return False
        pid = call.supervisor if role == SUPERVISOR else call.live_pid(role)
        if pid is None:
            return False
        try:
            os.kill(pid, signal.Signals[fault])
        except ProcessLookupError:
            return False
        self.dealt[f"{fault} {role}"] += 1
        return True
