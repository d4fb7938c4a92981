"""What `/proc` says about processes: state, parent, start time, children.

A pid alone names nobody for long; a pid with its start time names one process until the machine restarts.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

_DEAD_STATES: Final = frozenset("ZXx")
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One process at one moment. `start_ticks` is in clock ticks since boot."""

    pid: int
    state: str
    parent: int
    start_ticks: int

    @property
    def is_alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.state not in _DEAD_STATES


def read_stat(pid: int) -> ProcessStat | None:
    """The process's state, or `None` if there is none of that pid."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:  # gone before or while it was read
        return None
    # The name stands in parentheses and may hold any byte, so the last parenthesis ends it.
    fields = text[text.rindex(b")") + 2 :].split()
    return ProcessStat(pid, fields[0].decode(), int(fields[1]), int(fields[19]))


@dataclass(frozen=True, slots=True)
class Scheduling:
    """How a process's main thread got on with the scheduler since it began.

    ran_us: on a processor. waited_us: ready to run, and another was let. is_runnable: running or ready right now.
    """

    ran_us: int
    waited_us: int
    is_runnable: bool


def scheduling(pid: int) -> Scheduling | None:
    """The main thread's scheduling; `None` if there is no such process or the kernel does not say."""
    stat = read_stat(pid)
    try:
        with open(f"/proc/{pid}/task/{pid}/schedstat", "rb") as file:
            ran_ns, waited_ns = map(int, file.read().split()[:2])
    except (OSError, ValueError):
        return None
    return Scheduling(ran_ns // 1_000, waited_ns // 1_000, stat is not None and stat.state == "R")


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """What one process is called and has used. `cpu_us` since its start; `memory_bytes` resident."""

    name: str
    state: str
    parent: int
    start_ticks: int
    cpu_us: int
    memory_bytes: int


def read_usage(pid: int) -> ProcessUsage | None:
    """The process's name, CPU time and memory, or `None` if there is none of that pid."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except OSError:
        return None
    end = text.rindex(b")")
    fields = text[end + 2 :].split()
    ticks = int(fields[11]) + int(fields[12])
    return ProcessUsage(
        name=text[text.index(b"(") + 1 : end].decode(errors="replace"),
        state=fields[0].decode(),
        parent=int(fields[1]),
        start_ticks=int(fields[19]),
        cpu_us=ticks * 1_000_000 // _TICKS_PER_SECOND,
        memory_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def start_ticks(pid: int) -> int:
    """The start time of a process that exists, in clock ticks since boot; 0 if it does not."""
    stat = read_stat(pid)
    return stat.start_ticks if stat else 0


def name_process(name: str) -> None:
    """Let `ps` and `top` show what the calling process is, in the 15 characters that the kernel keeps."""
    file = os.open("/proc/self/comm", os.O_WRONLY | os.O_CLOEXEC)
    os.write(file, name[:15].encode())
    os.close(file)


def is_alive(pid: int) -> bool:
    """Whether a process of that pid runs and is no zombie."""
    stat = read_stat(pid)
    return stat is not None and stat.is_alive


def children(pid: int) -> list[int]:
    """The children of every thread of the process, zombies included.

    The kernel may leave some out while others exit: ask again before believing an empty answer.
    """
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found.extend(map(int, file.read().split()))
        except FileNotFoundError:
            if not _has_children_files():
                return _children_by_scan(pid)
        except OSError:  # the thread ended meanwhile
            continue
    return found


def descendants(pid: int, spare: Collection[int] = ()) -> list[int]:
    """Everything below the process, parents before children; nothing of or below the pids in `spare`."""
    found: list[int] = []
    seen = set(spare)
    pending = [pid]
    while pending:
        for child in children(pending.pop()):
            if child not in seen:
                seen.add(child)
                found.append(child)
                pending.append(child)
    return found


def is_below(pid: int, ancestor: int) -> bool:
    """Whether the process descends from `ancestor`.

    The chain is read twice: a parent whose pid was taken by another process between two reads cannot pass both.
    """
    first = _parents(pid, ancestor)
    return first is not None and first == _parents(pid, ancestor)


def _parents(pid: int, ancestor: int) -> list[int] | None:
    chain: list[int] = []
    while pid != ancestor:
        stat = read_stat(pid)
        if stat is None or (stat.parent <= 1 and ancestor > 1) or pid in chain:
            return None
        chain.append(pid)
        pid = stat.parent
    return chain or None


def _has_children_files() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _children_by_scan(pid: int) -> list[int]:
    """For kernels built without CONFIG_PROC_CHILDREN: every process is asked for its parent."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            stat = read_stat(int(entry))
            if stat is not None and stat.parent == pid:
                found.append(stat.pid)
    return found
