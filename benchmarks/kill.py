"""How long after its deadline a session is gone that does not want to go.

`python benchmarks/kill.py [--json]`: 50 rounds with a backend that never closes and eight hostile processes below it
(deaf to signals, half of them daemons that forked twice), next to a C program that is told the same pids; 15 rounds
with a bomb that forks until there are 200, next to one write to `cgroup.kill` where a cgroup can be made. All of them
hold one FIFO open for writing, so the time of its end is the time of the last one's end. What is measured begins at the
deadline, which the caller fixed with its `close`. LiveKit's job pool is not in here: it would need 200 MB of packages.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # works from a checkout, installed or not
sys.path.insert(1, str(Path(__file__).parent.parent / "actors"))

from benchmarks._actors import HOSTILE
from benchmarks._report import Report
from parlora import ActorHost
from parlora._process import set_child_subreaper
from parlora_actors import cgroup, guardian, procfs
from parlora_actors.timing import now_us

ROUNDS = 50
BOMB_ROUNDS = 15
SHUTDOWN_MS = 1_500
"""Long enough for the bomb to be complete when the deadline comes."""

EIGHT_P90_MS = 50.0
BOMB_P90_MS = 400.0
KNOWN_RATIO = 4.0
CGROUP_RATIO = 3.0


class Life:
    """A FIFO that ends with the last process that holds it."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "life")
        os.mkfifo(self.path)
        self._reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def await_end(self) -> int:
        """Wait until nobody holds it any more; returns when that was, in microseconds."""
        poller = select.poll()
        poller.register(self._reader, select.POLLHUP)
        if not poller.poll(20_000):
            raise SystemExit("something stayed alive")
        return now_us()

    def close(self) -> None:
        os.close(self._reader)
        os.unlink(self.path)


@contextlib.contextmanager
def life() -> Iterator[Life]:
    with tempfile.TemporaryDirectory() as directory:
        made = Life(directory)
        yield made
        made.close()


def session_ms(host: ActorHost, what: str) -> float:
    """From the deadline to the end of the last process."""
    with life() as lives:
        session = host.start_session(
            channel="parlora.channels.trivial:TrivialChannel",
            provider="parlora.providers.trivial:TrivialProvider",
            backend=("benchmarks._actors:HostileBackend", {"what": what, "life": lives.path}),
            context_policy="parlora.policies.trivial:no_decisions",
            limits={"shutdown_timeout_ms": SHUTDOWN_MS},
        )
        session.wait_ready()
        deadline_us = now_us() + SHUTDOWN_MS * 1_000
        session.close("cancel")
        taken_ms = (lives.await_end() - deadline_us) / 1_000
        session.wait_closed()
        return taken_ms


def hostile(what: str, lives: Life, group: str | None = None) -> int:
    """The same hostile processes, below this one."""
    pid = os.fork()
    if pid == 0:
        if group is not None:
            cgroup.enter(group)
        os.open(lives.path, os.O_WRONLY)
        HOSTILE[what]()
        time.sleep(600)
        os._exit(0)
    return pid


def known_ms(program: str) -> float:
    with life() as lives:
        pid = hostile("eight", lives)
        living, before = living_below(), []
        while len(living) != 8 or living != before:  # while a daemon is forked twice, there is one for a moment
            time.sleep(0.3)
            living, before = living_below(), living
        out = subprocess.run([program, *map(str, living)], capture_output=True, text=True, check=True).stdout
        assert pid in living
        guardian.reap_adopted(())
        return int(out) / 1_000


def living_below() -> list[int]:
    return [pid for pid in procfs.descendants(os.getpid()) if procfs.is_alive(pid)]


def cgroup_ms(group: str) -> float:
    with life() as lives:
        hostile("bomb", lives, group)
        time.sleep(SHUTDOWN_MS / 1_000)
        began = now_us()
        Path(group, "cgroup.kill").write_text("1")
        taken_ms = (lives.await_end() - began) / 1_000
        guardian.reap_adopted(())
        return taken_ms


def compiled(directory: str) -> str | None:
    program = os.path.join(directory, "kill_known")
    source = Path(__file__).parent / "kill_known.c"
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        subprocess.run(["cc", "-O2", "-o", program, str(source)], check=True, capture_output=True)
        return program
    return None


def main() -> int:
    report = Report("kill")
    set_child_subreaper()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with tempfile.TemporaryDirectory() as directory:
        program = compiled(directory)
        known = [] if program is None else [known_ms(program) for _ in range(ROUNDS)]
        groups = cgroup_rounds(directory)
    with ActorHost() as host:
        eight = [session_ms(host, "eight") for _ in range(ROUNDS)]
        bombs = [session_ms(host, "bomb") for _ in range(BOMB_ROUNDS)]
    report.figure("rounds", ROUNDS)
    report.figure("eight_p50_ms", statistics.median(eight))
    report.at_most("eight_p90_ms", percentile(eight, 90), EIGHT_P90_MS)
    report.figure("bomb_p50_ms", statistics.median(bombs))
    report.at_most("bomb_p90_ms", percentile(bombs, 90), BOMB_P90_MS)
    if known:
        report.figure("known_p50_ms", statistics.median(known))
        report.at_most("eight_vs_known_p50", statistics.median(eight) / statistics.median(known), KNOWN_RATIO)
    else:
        report.figure("eight_vs_known_p50", "not measured", "no C compiler")
    if groups:
        report.figure("cgroup_bomb_p50_ms", statistics.median(groups))
        report.at_most("bomb_vs_cgroup_p50", statistics.median(bombs) / statistics.median(groups), CGROUP_RATIO)
    else:
        report.figure("bomb_vs_cgroup_p50", "not measured", "no cgroup can be made here")
    return report.finish()


def cgroup_rounds(directory: str) -> list[float]:
    if not cgroup.make_for_node(directory):
        return []
    try:
        group = cgroup.make_for_session()
        return [] if group is None else [cgroup_ms(group) for _ in range(BOMB_ROUNDS)]
    finally:
        cgroup.remove_for_node(directory)


def percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


if __name__ == "__main__":
    sys.exit(main())
