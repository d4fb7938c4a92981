"""What a process of ours asks of Linux itself: death signal, subreaper, descriptors, fault signals, scheduling.

Each function acts on the calling process or, for scheduling, on the calling thread. A refusal that matters raises
`OSError`; being refused real-time scheduling does not matter, everything works without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from parlora._native import lib

BATCH_NICE: Final = 10
"""Niceness of work that must never delay audio: policy workers and backend owners."""


def _check(result: int) -> None:
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def set_parent_death_signal(sig: int) -> None:
    """Have the kernel send `sig` to this process when the thread that created it ends; 0 switches it off.

    The parent may have died before this call: check `os.getppid()` afterwards. Children do not inherit it.
    """
    _check(lib.pl_set_parent_death_signal(sig))


def set_child_subreaper() -> None:
    """Make orphaned descendants children of this process, so that none escapes its walk of its own tree."""
    _check(lib.pl_set_child_subreaper())


def close_descriptors_except(keep: Iterable[int]) -> None:
    """Close every open descriptor that is not in `keep`; numbers in `keep` that are not open are fine."""
    numbers = sorted({int(number) for number in keep if number >= 0})
    _check(lib.pl_close_descriptors_except(numbers, len(numbers)))


def reset_fault_signals() -> None:
    """Give SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS and SIGTRAP their default action and unblock them.

    A fault then ends the process at once, so that its supervisor sees it, whatever handlers a library left behind.
    """
    _check(lib.pl_reset_fault_signals())


def request_realtime() -> bool:
    """Ask for SCHED_FIFO priority 1 for this thread (not its children); True if it was granted."""
    return bool(lib.pl_request_realtime())


def set_batch_scheduling() -> None:
    """Put this thread into SCHED_BATCH with a niceness of at least 10."""
    _check(lib.pl_set_batch_scheduling(BATCH_NICE))


def set_normal_scheduling() -> None:
    """Put this thread back into SCHED_OTHER; its niceness stays."""
    _check(lib.pl_set_normal_scheduling())
