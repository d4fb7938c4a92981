"""Kill by ancestry: everything below a process, and nothing else, until nothing is alive.

A process group, a session, an environment mark or a parent death signal can be left by those who want to. Ancestry
cannot, as long as the root is a subreaper: double-forked daemons, processes with a session of their own and chains of
short-lived forks all fall back to it. So the tree is walked and killed, again and again, until it is empty.

Why that ends: a process below the root that is alive hangs on a chain whose first member is a living child of the root,
because a zombie has no children. So the tree is empty as soon as the root has no living child. The kernel may skip
entries of `/proc/PID/task/TID/children` while others exit, so an empty answer counts only the second time in a row, or
when the kernel says that there is no child at all.

Why it harms nobody else: a signal goes through a pidfd, and only after the process that the pidfd names was seen below
the root. The pidfd keeps naming that process and no successor of the same pid.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass

from parlora_actors import procfs
from parlora_actors.timing import GUARDIAN_POLL_US, now_us


@dataclass(frozen=True, slots=True)
class Identity:
    """One process for good: its pid and start time in clock ticks since boot."""

    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True)
class KillReport:
    """What a pass did.

    killed: whom it signalled. left: who still lived at the deadline; empty means nothing is alive.
    passes: walks that found something. elapsed_us: from the call to the proof.
    """

    killed: tuple[Identity, ...]
    left: tuple[Identity, ...]
    passes: int
    elapsed_us: int


def kill_below(
    root: int, deadline_us: int, *, spare: Collection[int] = (), on_pass: Callable[[], None] = lambda: None
) -> KillReport:
    """SIGKILL everything below `root` until nothing is alive or the deadline passes.

    `root` must be the caller or a descendant of it; only a subreaper as root is sure to keep its descendants.
    What is in `spare`, with everything below it, is left alone. The root itself is never signalled.
    `on_pass` is called before each pass, which takes at most `GUARDIAN_POLL_US` and the time of a walk.
    Zombies of the caller are left to `reap_adopted` and to whoever started them.
    """
    return _kill(root, deadline_us, spare=spare, inclusive=False, on_pass=on_pass)


def kill_tree(root: int, deadline_us: int, *, on_pass: Callable[[], None] = lambda: None) -> KillReport:
    """SIGKILL a descendant of the caller with everything below it. Its orphans fall to the caller: look there too."""
    if root == os.getpid():
        raise ValueError("a process cannot kill its own tree with itself")
    return _kill(root, deadline_us, spare=(), inclusive=True, on_pass=on_pass)


def reap_adopted(own_children: Collection[int], before: Callable[[int], None] | None = None) -> list[int]:
    """Bury the dead children of the caller that are not in `own_children`; returns their pids.

    Only by pid: `waitpid(-1)` would take exit codes that others wait for. `before` is called with each pid while it
    still belongs to the dead process.
    """
    buried = []
    for pid in procfs.children(os.getpid()):
        stat = procfs.read_stat(pid)
        if pid in own_children or stat is None or stat.is_alive:
            continue
        if before is not None:
            before(pid)
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
        buried.append(pid)
    return buried


def has_no_children() -> bool:
    """Whether the kernel says that the caller has no child at all, dead or alive: the strongest proof of emptiness."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _kill(
    root: int, deadline_us: int, *, spare: Collection[int], inclusive: bool, on_pass: Callable[[], None]
) -> KillReport:
    started = now_us()
    killed: dict[Identity, None] = {}
    passes = 0
    empty_walks = 0
    living: list[procfs.ProcessStat] = []
    while empty_walks < 2:
        living = _living(root, spare, inclusive)
        if not living:
            empty_walks += 1
            continue
        if passes and now_us() >= deadline_us:
            break
        empty_walks = 0
        on_pass()
        passes += 1
        for identity in _kill_batch(root, living, deadline_us):
            killed[identity] = None
    left = tuple(Identity(stat.pid, stat.start_ticks) for stat in living)
    return KillReport(tuple(killed), left, passes, now_us() - started)


def _living(root: int, spare: Collection[int], inclusive: bool) -> list[procfs.ProcessStat]:
    pids = procfs.descendants(root, spare)
    if inclusive:
        pids.insert(0, root)
    stats = map(procfs.read_stat, pids)
    return [stat for stat in stats if stat is not None and stat.is_alive]


def _kill_batch(root: int, batch: list[procfs.ProcessStat], deadline_us: int) -> list[Identity]:
    """Signal each of the batch and wait until they are dead, at most one poll period."""
    signalled: list[Identity] = []
    waiting: list[int] = []
    try:
        for stat in batch:
            pidfd = _open_descendant(root, stat)
            if pidfd is None:
                continue
            waiting.append(pidfd)
            try:
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            except ProcessLookupError:
                continue
            signalled.append(Identity(stat.pid, stat.start_ticks))
        _await_exits(waiting, min(deadline_us, now_us() + GUARDIAN_POLL_US))
    finally:
        for pidfd in waiting:
            os.close(pidfd)
    return signalled


def _open_descendant(root: int, stat: procfs.ProcessStat) -> int | None:
    """A pidfd of that process if it is (still) the root or below it."""
    try:
        pidfd = os.pidfd_open(stat.pid)
    except ProcessLookupError:
        return None
    now = procfs.read_stat(stat.pid)
    same = now is not None and now.start_ticks == stat.start_ticks
    if same and (stat.pid == root or procfs.is_below(stat.pid, root) or procfs.is_below(stat.pid, os.getpid())):
        return pidfd
    os.close(pidfd)
    return None


def _await_exits(pidfds: list[int], until_us: int) -> None:
    poller = select.poll()
    for pidfd in pidfds:
        poller.register(pidfd, select.POLLIN)
    waiting = len(pidfds)
    while waiting:
        remaining_us = until_us - now_us()
        if remaining_us <= 0:
            return
        for pidfd, _ in poller.poll(max(1, remaining_us // 1_000)):
            poller.unregister(pidfd)
            waiting -= 1
