"""What this machine offers a node, and what it lacks: found by trying, without a node, and leaving nothing changed.

Nothing is imported that is an extra, no device is opened, no credential is read.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from parlora._process import request_realtime
from parlora.errors import ParloraError
from parlora_actors import cgroup
from parlora_actors.platform_check import MIN_DESCRIPTORS, MIN_KERNEL, check_platform
from parlora_actors.run_directory import has_live_node, run_root, standing_directory
from parlora_actors.transport.address import check_directory

_CLOSE_RANGE: Final = 436
_PR_GET_CHILD_SUBREAPER: Final = 37
_UNUSED_DESCRIPTOR: Final = 0x7FFF_FFF0
_SESSION_PROCESSES: Final = 8
"""Processes of one session: its supervisor and the seven below it."""


class Status(StrEnum):
    """How a check came out."""

    OK = "ok"
    LIMITED = "limited"
    """Everything works, something less well."""
    MISSING = "missing"
    """A node cannot run."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was tried. found: what is there. advice: how to get what is not, or empty."""

    group: str
    name: str
    status: Status
    found: str
    advice: str = ""


def examine() -> list[Check]:
    """Every check, in the order of the report."""
    return [_kernel(), *_features(), *_kill_layers(), *_limits(), _realtime(), *_places()]


def can_run_a_node(checks: list[Check]) -> bool:
    """Whether nothing that a node needs is missing."""
    return all(check.status is not Status.MISSING for check in checks)


def _kernel() -> Check:
    release = f"{os.uname().sysname} {os.uname().release}"
    try:
        check_platform()
    except ParloraError:
        needed = ".".join(map(str, MIN_KERNEL))
        return Check("system", "kernel", Status.MISSING, release, f"Linux {needed} or newer is needed")
    return Check("system", "kernel", Status.OK, release)


def _features() -> list[Check]:
    features: tuple[tuple[str, Callable[[], bool], Status, str], ...] = (
        ("pidfd", _has_pidfd, Status.MISSING, "a node sees the end of its processes by pidfd (Linux 5.3)"),
        ("memfd_seals", _has_memfd_seals, Status.MISSING, "audio rings are sealed memfds (Linux 3.17)"),
        ("subreaper", _has_subreaper, Status.MISSING, "orphans must fall to their session (Linux 3.4)"),
        ("close_range", _has_close_range, Status.LIMITED, "without it (Linux 5.9) descriptors are closed one by one"),
        ("proc_children", _has_proc_children, Status.LIMITED, "without CONFIG_PROC_CHILDREN all of /proc is searched"),
        ("schedstat", _has_schedstat, Status.LIMITED, "without it a starved process may count as one that hangs"),
    )
    checks = []
    for name, probe, otherwise, advice in features:
        has = _tried(probe)
        checks.append(
            Check(
                "kernel features", name, Status.OK if has else otherwise, "yes" if has else "no", "" if has else advice
            )
        )
    return checks


def _tried(probe: Callable[[], bool]) -> bool:
    try:
        return probe()
    except (OSError, AttributeError):
        return False


def _has_pidfd() -> bool:
    os.close(os.pidfd_open(os.getpid()))
    return True


def _has_memfd_seals() -> bool:
    fd = os.memfd_create("parlora-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    finally:
        os.close(fd)
    return True


def _has_subreaper() -> bool:
    value = ctypes.c_int()
    return bool(ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0) == 0)


def _has_close_range() -> bool:
    first = ctypes.c_uint(_UNUSED_DESCRIPTOR)
    return bool(ctypes.CDLL(None).syscall(_CLOSE_RANGE, first, first, 0) == 0)


def _has_proc_children() -> bool:
    return os.path.exists(f"/proc/self/task/{os.getpid()}/children")


def _has_schedstat() -> bool:
    with open("/proc/self/schedstat", "rb") as file:
        return len(file.read().split()) >= 2


def _kill_layers() -> list[Check]:
    walks = _tried(_has_pidfd) and _tried(_has_subreaper)
    walk = Check(
        "kill layers", "ancestry_walk", Status.OK if walks else Status.MISSING, "yes" if walks else "no",
        "" if walks else "it needs pidfd and subreaper",
    )  # fmt: skip
    if cgroup.can_be_made():
        return [walk, Check("kill layers", "cgroup_kill", Status.OK, "delegated")]
    found = "no cgroup v2" if cgroup.home() is None else "not delegated"
    advice = (
        "the walk does without it, against a fork bomb later; run the node in a unit with Delegate=yes (Linux 5.14)"
    )
    return [walk, Check("kill layers", "cgroup_kill", Status.LIMITED, found, advice)]


def _limits() -> list[Check]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = hard == resource.RLIM_INFINITY or hard >= MIN_DESCRIPTORS
    files = Check(
        "limits", "open_files", Status.OK if enough else Status.MISSING, f"{_number(soft)} of {_number(hard)}",
        "" if enough else f"raise the hard limit (ulimit -Hn, LimitNOFILE=) to {MIN_DESCRIPTORS:,} or more",
    )  # fmt: skip
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    few = most != resource.RLIM_INFINITY and most < 16 * _SESSION_PROCESSES
    processes = Check(
        "limits", "processes", Status.LIMITED if few else Status.OK, _number(most),
        f"a session has {_SESSION_PROCESSES} processes: raise ulimit -u" if few else "",
    )  # fmt: skip
    cores = len(os.sched_getaffinity(0))
    return [files, processes, Check("limits", "cores", Status.OK, str(cores))]


def _number(limit: int) -> str:
    return "unlimited" if limit == resource.RLIM_INFINITY else f"{limit:,}"


def _realtime() -> Check:
    """Tried in a thread of its own, which ends with what it was granted."""
    granted: list[bool] = []
    thread = threading.Thread(target=lambda: granted.append(request_realtime()), name="parlora-doctor")
    thread.start()
    thread.join()
    if granted == [True]:
        return Check("scheduling", "real_time", Status.OK, "granted")
    advice = "audio can be late beside busy programs; set ulimit -r 1, LimitRTPRIO=1 or CAP_SYS_NICE"
    return Check("scheduling", "real_time", Status.LIMITED, "refused", advice)


def _places() -> list[Check]:
    root = run_root()
    place = root if os.path.isdir(root) else os.path.dirname(root)
    status, advice = Status.OK, ""
    if not os.access(place, os.W_OK | os.X_OK):
        status, advice = Status.MISSING, f"{place} must be writable; or set XDG_RUNTIME_DIR"
    elif place == root:
        try:
            check_directory(root)
        except ParloraError as error:
            status, advice = Status.MISSING, error.message
    standing = standing_directory()
    runs = has_live_node(standing)
    python = f"{sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    return [
        Check("places", "run_directories", status, root, advice),
        Check("places", "standing_node", Status.OK, f"runs in {standing}" if runs else "none runs"),
        Check("places", "python", Status.OK, f"{python} in {sys.prefix}"),
    ]
