"""From an event of a provider's adapter to the host's subscriber, through the reducer with 256 tasks held.

`python benchmarks/control.py [--json]`: 1,000 events, 10 ms apart, each with its time of sending inside, next to round
trips over a pipe between two processes with as many bytes, at the same pace and at the same time, so that both meet the
same machine. One way here passes three processes: the owner, the coordinator with its reducer, and the host's thread.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # works from a checkout, installed or not
sys.path.insert(1, str(Path(__file__).parent.parent / "actors"))

from benchmarks._report import Report
from parlora import ActorHost
from parlora.events import Event
from parlora.wire import pack, to_data
from parlora_actors.timing import now_us

EVENTS = 1_000
TASKS = 256
PADDING = 256
GAP_S = 0.01
P50_RATIO = 8.0
P99_RATIO = 10.0


def measure() -> tuple[list[float], list[float], int, int]:
    """How long each event took, and each round trip; how large an event is, and how many tasks the session held."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=echo, args=(theirs,), daemon=True)
    process.start()
    taken: list[float] = []
    round_trips: list[float] = []
    sizes: list[int] = []
    enough = threading.Event()

    def take(event: Event) -> None:
        sent_us = event.payload.get("sent_us")
        if sent_us is not None:
            taken.append(now_us() - sent_us)
            if not sizes:
                sizes.append(len(pack(to_data(event))))
            if len(taken) >= EVENTS + EVENTS // 10:
                enough.set()

    parts = {
        "channel": "parlora.channels.trivial:TrivialChannel",
        "provider": ("benchmarks._actors:BusyProvider", {"tasks": TASKS, "padding": PADDING}),
        "backend": "benchmarks._actors:HoldingBackend",
        "context_policy": "benchmarks._actors:start_everything",
    }
    limits = {"max_jobs": 64, "max_pending_jobs": 256, "max_pending_delegations": 256, "max_records": 4_096}
    with ActorHost() as host:
        session = host.start_session(**parts, limits=limits, event_sink=take)
        session.wait_ready()
        until = time.monotonic() + 180
        while not enough.wait(GAP_S):
            if time.monotonic() > until:
                raise SystemExit("the events did not come")
            if sizes:
                round_trips.append(round_trip_us(ours, os.urandom(sizes[0])))
        held = len(session.snapshot().tasks)
        session.close("cancel")
        session.wait_closed()
    ours.send_bytes(b"end")
    process.join()
    return taken[-EVENTS:], round_trips, sizes[0], held


def echo(connection: multiprocessing.connection.Connection) -> None:
    while (data := connection.recv_bytes()) != b"end":
        connection.send_bytes(data)


def round_trip_us(connection: multiprocessing.connection.Connection, data: bytes) -> float:
    began = now_us()
    connection.send_bytes(data)
    connection.recv_bytes()
    return float(now_us() - began)


def main() -> int:
    report = Report("control")
    taken, floor, size, held = measure()
    report.figure("events", len(taken))
    report.figure("bytes", size)
    report.at_least("tasks_held", held, TASKS)
    report.figure("event_p50_us", statistics.median(taken))
    report.figure("event_p99_us", p99(taken))
    report.figure("pipe_p50_us", statistics.median(floor))
    report.figure("pipe_p99_us", p99(floor))
    report.at_most("p50_vs_pipe", statistics.median(taken) / statistics.median(floor), P50_RATIO)
    report.at_most("p99_vs_pipe", p99(taken) / p99(floor), P99_RATIO)
    return report.finish()


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


if __name__ == "__main__":
    sys.exit(main())
