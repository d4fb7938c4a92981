"""What a process of ours asks of Linux, each shown in a process of its own."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from parlora import _process as process

PATIENCE_S = 10.0
REPLY = 800  # the child's answer goes here, out of the way of what it opens and closes


def child_result(work: Callable[[], str]) -> str:
    """Run `work` in a forked child and return its answer."""
    mine, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        os.dup2(theirs.fileno(), REPLY)
        try:
            os.write(REPLY, work().encode())
        except BaseException as error:
            os.write(REPLY, f"failed: {error!r}".encode())
        finally:
            os._exit(0)
    theirs.close()
    mine.settimeout(PATIENCE_S)
    answer = b""
    while piece := mine.recv(4096):
        answer += piece
    mine.close()
    os.waitpid(pid, 0)
    return answer.decode()


def ends(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], PATIENCE_S)[0])


def test_a_child_dies_with_its_parent() -> None:
    read_end, write_end = os.pipe()
    parent = os.fork()
    if parent == 0:
        child = os.fork()
        if child == 0:
            process.set_parent_death_signal(signal.SIGKILL)
            os.write(write_end, os.getpid().to_bytes(4))
        signal.pause()
    pid = int.from_bytes(os.read(read_end, 4))
    pidfd = os.pidfd_open(pid)
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    assert ends(pidfd)
    os.waitpid(pid, 0)  # the test run is a subreaper, so the orphan is ours
    for descriptor in (pidfd, read_end, write_end):
        os.close(descriptor)


def test_a_subreaper_gets_its_orphaned_grandchildren() -> None:
    def work() -> str:
        process.set_child_subreaper()
        read_end, write_end = os.pipe()
        middle = os.fork()
        if middle == 0:
            grandchild = os.fork()
            if grandchild == 0:
                os.read(read_end, 1)
            os._exit(0)
        os.waitpid(middle, 0)
        (orphan,) = map(int, Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
        os.write(write_end, b"!")
        return str(os.waitpid(orphan, 0)[0] == orphan)

    assert child_result(work) == "True"


@pytest.mark.parametrize("kept", [[], [7], [3, 4, 9], [11, 900]])
def test_every_descriptor_but_those_kept_is_closed(kept: list[int]) -> None:
    def work() -> str:
        for number in (*range(3, 20), 900):
            os.dup2(1, number)
        process.close_descriptors_except([0, 1, 2, REPLY, *kept])
        return str([fd for fd in range(3, 1000) if _is_open(fd) and fd != REPLY])

    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= 900:
        pytest.skip("RLIMIT_NOFILE is too low for descriptor 900")
    assert child_result(work) == str(kept)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def test_a_fault_ends_the_process_whatever_handler_was_left() -> None:
    pid = os.fork()
    if pid == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGSEGV, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGSEGV])
        process.reset_fault_signals()
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(PATIENCE_S)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGSEGV


def test_real_time_is_asked_for_and_the_answer_is_true() -> None:
    def work() -> str:
        granted = process.request_realtime()
        policy = os.sched_getscheduler(0)
        real = policy & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO
        kept_for_children = granted and not policy & os.SCHED_RESET_ON_FORK
        process.set_normal_scheduling()
        return str((granted == real, kept_for_children, os.sched_getscheduler(0)))

    assert child_result(work) == str((True, False, os.SCHED_OTHER))


def test_batch_work_is_scheduled_behind_everything() -> None:
    def work() -> str:
        process.set_batch_scheduling()
        return str((os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0) >= 10))

    assert child_result(work) == str((os.SCHED_BATCH, True))


def test_a_wrong_signal_is_an_os_error() -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        process.set_parent_death_signal(4_000)
