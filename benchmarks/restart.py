"""From the death of a supervised child to its replacement's hello, for each strategy, beside bare forks of as many.

`python benchmarks/restart.py [--json]`: 30 rounds each with four children, the first of which is killed. `one_for_one`
forks one anew; `rest_for_one` and `one_for_all` end the three others, in reverse, and fork four in order, each after
the hello of the one before. The bare fork does the same in 30 lines without any rule, bookkeeping, descriptor hygiene
or link: it is the floor of this machine at this moment.
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))  # works from a checkout, installed or not
sys.path.insert(1, str(Path(__file__).parent.parent / "actors"))
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as in a launcher: a process with threads cannot be forked

from benchmarks._report import Report
from parlora_actors.child_spec import BRUTAL_KILL, ChildSpec, Strategy, SupervisorSpec
from parlora_actors.supervision_tree import SupervisionTree
from parlora_actors.timing import now_us
from parlora_actors.warm_up import warm_up

ROUNDS = 30
CHILDREN = 4
RATIO = 4.0


def supervised_ms(strategy: Strategy, anew: int) -> list[float]:
    children = tuple(ChildSpec(f"c{n}", "benchmarks._actors.Child", shutdown=BRUTAL_KILL) for n in range(CHILDREN))
    spec = SupervisorSpec(children, strategy, intensity=1_000, period_ms=600_000)
    taken = []
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "log")
        with SupervisionTree(spec, log=log):
            for number in range(1, ROUNDS + 2):
                ups = await_ups(log, number, 1)
                began = now_us()
                os.kill(ups[0]["pid"], signal.SIGKILL)
                last = max(each["at_us"] for each in await_ups(log, number + 1, anew))
                taken.append((last - began) / 1_000)
    return taken[1:]


def await_ups(log: Path, incarnation: int, count: int) -> list[dict[str, Any]]:
    """The children of that incarnation, the first child first."""
    while True:
        lines = [json.loads(line) for line in log.read_text().splitlines() if '"up"' in line]
        found = [each for each in lines if each["incarnation"] == incarnation]
        if len(found) >= count:
            return sorted(found, key=lambda each: str(each["role"]))
        time.sleep(0.002)


def bare_ms(anew: int) -> list[float]:
    """The same with nothing but fork, pipe and pidfd."""
    children = [fork_with_hello() for _ in range(anew)]
    taken = []
    for _ in range(ROUNDS + 1):
        began = now_us()
        os.kill(children[0][0], signal.SIGKILL)
        for position, (pid, pidfd) in enumerate([children[0], *reversed(children[1:])]):
            if position:
                os.kill(pid, signal.SIGKILL)
            select.select([pidfd], [], [])
            os.waitpid(pid, 0)
            os.close(pidfd)
        children = [fork_with_hello() for _ in range(anew)]
        taken.append((now_us() - began) / 1_000)
    for pid, pidfd in children:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(pidfd)
    return taken[1:]


def fork_with_hello() -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writer, b"hello")
        signal.pause()
    os.read(reader, 5)
    os.close(reader)
    os.close(writer)
    return pid, os.pidfd_open(pid)


def main() -> int:
    report = Report("restart")
    warm_up(())  # what the supervisor's process has in memory, so that a fork costs here what it costs there
    report.figure("rounds", ROUNDS)
    report.figure("children", CHILDREN)
    floors: dict[int, list[float]] = {anew: bare_ms(anew) for anew in (1, CHILDREN)}
    cases: list[tuple[Strategy, int, Callable[[], list[float]]]] = [
        (strategy, anew, lambda strategy=strategy, anew=anew: supervised_ms(strategy, anew))  # type: ignore[misc]
        for strategy, anew in (
            (Strategy.ONE_FOR_ONE, 1),
            (Strategy.REST_FOR_ONE, CHILDREN),
            (Strategy.ONE_FOR_ALL, CHILDREN),
        )
    ]
    for strategy, anew, measure in cases:
        taken, floor = measure(), floors[anew]
        report.figure(f"{strategy}_p50_ms", statistics.median(taken))
        report.figure(f"{strategy}_p99_ms", p99(taken))
        report.figure(f"bare_{strategy}_p50_ms", statistics.median(floor))
        report.figure(f"bare_{strategy}_p99_ms", p99(floor))
        report.at_most(f"{strategy}_vs_bare_p50", statistics.median(taken) / statistics.median(floor), RATIO)
    return report.finish()


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[98]


if __name__ == "__main__":
    sys.exit(main())
