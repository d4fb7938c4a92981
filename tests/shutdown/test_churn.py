"""Two hundred sessions in a row leave a node as they found it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from parlora_actors import procfs
from parlora_actors.host import ActorHost
from tests.sessions import TRIVIAL, files_of, name_of, wait_for

SESSIONS = 200
SETTLED = 50
"""By then every cache is warm: what is more at the end is a leak."""

MAX_GROWTH_KB = 1_024


@pytest.mark.timeout(400)
def test_two_hundred_sessions_leave_the_node_as_it_was(host: ActorHost) -> None:
    settled: dict[int, dict[str, int]] = {}
    for number in range(1, SESSIONS + 1):
        session = host.start_session(**TRIVIAL)
        session.wait_ready(20)
        session.close()
        session.wait_closed(20)
        if number == SETTLED:
            settled = standing(host)
            files = files_of(host)
    after = wait_for("the node to be as it was", lambda: same(settled, standing(host)))
    assert files_of(host) == files
    for pid, before in settled.items():
        growth = after[pid]["private_kb"] - before["private_kb"]
        assert growth <= MAX_GROWTH_KB, f"{name_of(pid)} grew by {growth} KiB"


def standing(host: ActorHost) -> dict[int, dict[str, int]]:
    """Every process of the node but sessions, with what it holds."""
    return {pid: held(pid) for pid in processes(host)}


def same(before: dict[int, dict[str, int]], now: dict[int, dict[str, int]]) -> dict[int, dict[str, int]] | None:
    """`now`, if it holds the same processes with as many descriptors and threads."""
    if before.keys() != now.keys():
        return None
    counts = ("descriptors", "threads", "memfds")
    equal = all(now[pid][count] <= before[pid][count] for pid in before for count in counts)
    return now if equal else None


def processes(host: ActorHost) -> Iterator[int]:
    assert host.pid is not None
    for pid in (os.getpid(), host.pid, *procfs.descendants(host.pid)):
        stat = procfs.read_stat(pid)
        if stat is not None and stat.is_alive:
            yield pid


def held(pid: int) -> dict[str, int]:
    links = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{number}"))
        except OSError:
            continue  # the listing's own
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = sum(int(line.split()[1]) for line in rollup if line.startswith("Private_"))
    return {
        "descriptors": len(links),
        "memfds": sum("memfd:" in link for link in links),
        "threads": len(os.listdir(f"/proc/{pid}/task")),
        "private_kb": private,
    }
