"""How long a session needs to become ready, and what memory it keeps to itself.

`python benchmarks/start.py [--json]`: 40 rounds on one warm node, no session forked ahead, each next to one start of
`python -c "import numpy, msgpack"`, which is what a process of its own would cost without a node. From `start_session`
to `ready`, the initial drain included, with trivial adapters. The ratios are the promise; the times are the machine's.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # works from a checkout, installed or not
sys.path.insert(1, str(Path(__file__).parent.parent / "actors"))

from benchmarks._report import Report
from parlora import ActorHost, Session
from parlora_actors import procfs

ROUNDS = 40
P50_RATIO = 0.7
P90_RATIO = 1.0
PRIVATE_MIB = 40.0

TRIVIAL = {
    "channel": "parlora.channels.trivial:TrivialChannel",
    "provider": "parlora.providers.trivial:TrivialProvider",
    "backend": "parlora.backends.trivial:TrivialBackend",
    "context_policy": "parlora.policies.trivial:no_decisions",
}


def start_ms(host: ActorHost) -> tuple[float, Session]:
    began = time.perf_counter()
    session = host.start_session(**TRIVIAL)
    session.wait_ready()
    return (time.perf_counter() - began) * 1_000, session


def import_ms() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import numpy, msgpack"], check=True)
    return (time.perf_counter() - began) * 1_000


def private_mib(pids: list[int]) -> float:
    """Memory that no other process shares, of all these processes together."""
    total_kib = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_Clean:", "Private_Dirty:")):
                total_kib += int(line.split()[1])
    return total_kib / 1_024


def main() -> int:
    report = Report("start")
    sessions, imports, memory = [], [], []
    with ActorHost() as host:
        assert host.pid is not None
        for warm_up in (True, *[False] * ROUNDS):
            standing = set(procfs.descendants(host.pid))
            taken_ms, session = start_ms(host)
            of_session = [pid for pid in procfs.descendants(host.pid) if pid not in standing]
            private = private_mib(of_session)
            session.close("cancel")
            session.wait_closed()
            baseline_ms = import_ms()
            if not warm_up:
                sessions.append(taken_ms)
                imports.append(baseline_ms)
                memory.append(private)
    p50, p90 = percentile(sessions, 50), percentile(sessions, 90)
    base50, base90 = percentile(imports, 50), percentile(imports, 90)
    report.figure("rounds", ROUNDS)
    report.figure("session_p50_ms", p50)
    report.figure("session_p90_ms", p90)
    report.figure("import_p50_ms", base50)
    report.figure("import_p90_ms", base90)
    report.figure("session_processes", len(of_session))
    report.figure("private_mib_median", statistics.median(memory))
    report.at_most("p50_vs_import", p50 / base50, P50_RATIO)
    report.at_most("p90_vs_import", p90 / base90, P90_RATIO)
    report.at_most("private_mib_max", max(memory), PRIVATE_MIB)
    return report.finish()


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    sys.exit(main())
