"""`cgroup.kill`, where a cgroup v2 of our own may be made: one write kills a whole tree, however fast it forks.

It is used first, and the walk of the ancestry follows always: nothing depends on a cgroup. A node's group is named by
its run directory and ends with it, and it holds one group for each session. In there are the processes that run an
application's code and all that they start; supervisors, launcher and keeper stay outside, for they do the killing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from pathlib import Path
from typing import Final

from parlora_actors.timing import CGROUP_KILL_US, now_us

_POLL_S: Final = 0.001

_node: str | None = None


def home() -> str | None:
    """The directory of this process's own cgroup in the unified hierarchy; `None` where there is none."""
    try:
        mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
        mount = next((fields[1] for fields in mounts if fields[2] == "cgroup2"), None)
        own = next(line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    return None if mount is None else os.path.join(mount, own.lstrip("/")).rstrip("/")


def make_for_node(run_dir: str) -> bool:
    """Make the node's group, for this process and those it forks to use; False where that is not allowed."""
    global _node
    _node = None
    path = _path_for(run_dir)
    if path is not None and _make(path):
        _node = path
    return _node is not None


def can_be_made() -> bool:
    """Whether a node could make its group: tried with one that is removed again."""
    directory = home()
    path = None if directory is None else os.path.join(directory, f"parlora-try-{os.getpid()}")
    if path is None or not _make(path):
        return False
    remove(path)
    return True


def make_for_session() -> str | None:
    """A fresh group for the session of this process, if its node has one."""
    path = None if _node is None else os.path.join(_node, f"s{os.getpid()}")
    return path if path is not None and _make(path) else None


def end_session(supervisor: int) -> None:
    """Kill and remove what is left of the group of a session whose supervisor, of that pid, is gone."""
    path = None if _node is None else os.path.join(_node, f"s{supervisor}")
    if path is not None and os.path.isdir(path):
        kill(path)
        remove(path)


def enter(path: str) -> None:
    """Move the calling process, and whatever it will start, into the group."""
    with contextlib.suppress(OSError):  # then it is killed by its ancestry alone
        Path(path, "cgroup.procs").write_text("0")


def kill(path: str) -> int:
    """Kill everything in the group and in those below it; returns how many processes there were.

    It is over when nobody is alive in it, or after `CGROUP_KILL_US`: then the walk has to go on.
    """
    try:
        procs = [len(Path(each, "cgroup.procs").read_text().split()) for each, _, _ in os.walk(path)]
        Path(path, "cgroup.kill").write_text("1")
        deadline_us = now_us() + CGROUP_KILL_US
        while "populated 1" in Path(path, "cgroup.events").read_text() and now_us() < deadline_us:
            time.sleep(_POLL_S)
    except OSError:
        return 0
    return sum(procs)


def remove(path: str) -> None:
    """Remove an empty group with those below it; one that is not empty stays."""
    for each, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(each)


def remove_for_node(run_dir: str) -> None:
    """Kill what is left in the group of a node that is gone, and remove it."""
    path = _path_for(run_dir)
    if path is not None and os.path.isdir(path):
        kill(path)
        remove(path)


def _make(path: str) -> bool:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError:
        return False
    if os.access(os.path.join(path, "cgroup.kill"), os.W_OK) and os.access(os.path.join(path, "cgroup.procs"), os.W_OK):
        return True
    remove(path)
    return False


def _path_for(run_dir: str) -> str | None:
    directory = home()
    name = hashlib.sha256(os.path.realpath(run_dir).encode()).hexdigest()[:16]
    return None if directory is None else os.path.join(directory, f"parlora-{name}")
