"""What one input costs the brain of a long call, next to a msgpack round trip of that very input.

The session holds all that its limits let it hold: 256 tasks with their requests, 512 transcript entries, 256 command
records. Then a call goes on: captions, delegations, decisions, replies, progress, results, acknowledgments, calls of
the application. `python benchmarks/reduce.py`; with `--soak` also 100,000 inputs, and what they leave in memory.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # works from a checkout, installed or not

from benchmarks._report import Report
from parlora.context.decision import ContextDecision, DecisionKind
from parlora.limits import Limits
from parlora.session import effects, inputs
from parlora.session.effects import Call
from parlora.session.reducer import reduce
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel, session_spec
from parlora.wire import pack, to_data, unpack

MOST_RATIO = 50.0
MOST_EVENT_BYTES = 1_024
TURNS = 150
SOAK_INPUTS = 100_000
WORDS = "could you tell me where order one two four is, and when it will be at my door "
FULL = Limits(max_jobs=8, max_pending_jobs=32, max_pending_delegations=16, max_records=256, max_transcripts=512)


class LongCall(SessionModel):
    """A model that measures instead of tracing, and keeps only what is newest."""

    def __init__(self) -> None:
        self.times: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self.measuring = False
        self.inputs = 0
        super().__init__(session_spec(FULL), auto_acknowledge=False)

    def _note(self, arrow: str, what: object) -> None:
        return

    def _reduce(self, input: inputs.Input) -> None:
        input = replace(input, at_us=self.clock.now_us)
        self.inputs += 1
        started = time.perf_counter_ns()
        self.state, done = reduce(self.state, input)
        took = time.perf_counter_ns() - started
        if self.measuring:
            self._compare(input, took)
        del self.effects[:-64]
        self._carry_out(done)

    def _compare(self, input: inputs.Input, took: int) -> None:
        plain = to_data(input)
        unpack(pack(plain))  # both are measured warm
        started = time.perf_counter_ns()
        data = pack(plain)
        unpack(data)
        self.times[kind_of(input)].append((took, time.perf_counter_ns() - started, len(data)))

    def turn(self, number: int) -> None:
        """The caller asks, it is done, and told."""
        for piece in range(3):
            self.advance(50)
            self.say(WORDS[: 20 + 10 * piece])
            self.settle()
        self.delegate(f"d{number}")
        run = self.last(effects.RunPolicy)
        order = {"order": str(number), "text": WORDS, "heard_through": 7}
        start = ContextDecision(DecisionKind.START_TASK, delegation_id=run.trigger.delegation_id, input=order)
        self.decide(start)
        request = self.request()
        self.event(Role.BACKEND, "request_started", {"task_revision": 1}, request_id=request["id"])
        for percent in (30, 60):
            facts = {"order": str(number), "percent": percent, "note": WORDS}
            payload = {"task_revision": 1, "facts": facts, "summary": None}
            self.event(Role.BACKEND, "request_progress", payload, request_id=request["id"])
        self.call("append_context", update={"kind": "quiet", "text": WORDS}, command_id=f"c{number}")
        self.complete(request, summary=WORDS, facts={"order": str(number), "items": ["lamp", "bulb"] * 4})
        append = self.last_invoke(Call.APPEND_CONTEXT)
        self.event(Role.PROVIDER, "context_acknowledged", {}, command_id=append.command_id)
        self.call("expect_progress", id="p0", timeout_ms=1_000)
        self.say(WORDS, "assistant")
        self.settle()


def kind_of(input: inputs.Input) -> str:
    if isinstance(input, inputs.AdapterEvent):
        return input.event.type
    if isinstance(input, inputs.Called):
        return input.operation
    return type(input).__name__


def long_call() -> tuple[LongCall, int]:
    """A call that has filled everything that fills."""
    model = LongCall()
    model.ready()
    number = 0
    while len(model.state.work.tasks) < FULL.max_records or len(model.state.conversation.transcripts) < 512:
        number += 1
        model.turn(number)
    for _ in range(20):  # past the bounds, where the oldest has to give way
        number += 1
        model.turn(number)
    assert len(model.state.commands.records) == FULL.max_records
    return model, number


def compare(report: Report) -> None:
    model, number = long_call()
    model.measuring = True
    gc.collect()
    for turn in range(TURNS):
        model.turn(number + turn + 1)
    everything = [each for times in model.times.values() for each in times]
    for kind, times in sorted(model.times.items()):
        report.figure(f"{kind}_us", statistics.median(each[0] for each in times) / 1_000)
        report.figure(f"{kind}_ratio", ratio(times))
    worst = max(map(ratio, model.times.values()))
    model.measuring = False
    for question in ("status", "snapshot"):
        started = time.perf_counter_ns()
        answer: Any = model.call(question)
        took = time.perf_counter_ns() - started
        data = pack(answer.value)
        started = time.perf_counter_ns()
        unpack(pack(answer.value))
        report.figure(
            f"{question}_ratio_of_its_answer", took / (time.perf_counter_ns() - started), f"{len(data)} bytes"
        )
    report.at_most("median_event_bytes", statistics.median(each[2] for each in everything), MOST_EVENT_BYTES)
    report.at_most("p50_ratio", ratio(everything), MOST_RATIO)
    report.at_most("worst_kind_p50_ratio", worst, MOST_RATIO)


def ratio(times: list[tuple[int, int, int]]) -> float:
    """The median reduction over the median round trip."""
    return statistics.median(each[0] for each in times) / statistics.median(each[1] for each in times)


def soak(report: Report, amount: int = SOAK_INPUTS) -> None:
    """Whether a call that goes on and on costs the same and keeps the same."""
    model, number = long_call()
    parts: list[tuple[float, int]] = []
    for _ in range(4):
        until, begun, before = model.inputs + amount // 4, time.perf_counter(), model.inputs
        while model.inputs < until:
            number += 1
            model.turn(number)
        gc.collect()
        parts.append(((time.perf_counter() - begun) / (model.inputs - before), len(gc.get_objects())))
    report.figure("soak_inputs", model.inputs)
    report.at_most("soak_cost_growth", parts[-1][0] / parts[0][0], 1.5)
    report.at_most("soak_objects_growth", parts[-1][1] / parts[0][1], 1.05)


def main() -> int:
    report = Report("reduce")
    compare(report)
    if "--soak" in sys.argv:
        soak(report)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
