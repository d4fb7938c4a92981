"""The guardian kills what is below a process, and nothing else."""

import mmap
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from parlora._process import set_child_subreaper
from parlora_actors import guardian, procfs
from parlora_actors.timing import now_us
from tests.supervision.nodes import wait_for
from tests.supervision.troubles import fork_away, stubborn

SECOND_US = 1_000_000


def fork(body: "object") -> int:
    pid = os.fork()
    if pid == 0:
        try:
            body()  # type: ignore[operator]
        finally:
            os._exit(1)
    return pid


def bury(pid: int) -> None:
    os.waitpid(pid, 0)


def tree() -> int:
    """A process with two plain children and three daemons, none of which reacts to SIGTERM."""

    reader, writer = os.pipe()

    def root() -> None:
        set_child_subreaper()
        for _ in range(2):
            fork(stubborn)
        fork_away(3)
        os.write(writer, b"!")
        stubborn()

    pid = fork(root)
    assert os.read(reader, 1) == b"!"
    os.close(reader)
    os.close(writer)
    return pid


def test_kills_children_and_daemons_that_ignore_everything() -> None:
    root = tree()
    below = procfs.descendants(root)

    report = guardian.kill_below(root, now_us() + SECOND_US)

    assert {each.pid for each in report.killed} == set(below)
    assert report.left == ()
    assert procfs.is_alive(root)
    assert not any(procfs.is_alive(pid) for pid in below)
    assert guardian.kill_tree(root, now_us() + SECOND_US).left == ()
    bury(root)


def test_kill_tree_takes_the_root_with_it_and_its_orphans_fall_to_the_caller() -> None:
    root = tree()
    below = procfs.descendants(root)

    report = guardian.kill_tree(root, now_us() + SECOND_US)

    assert {each.pid for each in report.killed} == {root, *below}
    assert report.left == ()
    bury(root)


def test_a_process_cannot_kill_its_own_tree_with_itself() -> None:
    with pytest.raises(ValueError, match="own tree"):
        guardian.kill_tree(os.getpid(), now_us())


def test_what_is_spared_lives_with_everything_below_it() -> None:
    spared, other = tree(), tree()
    below_spared = procfs.descendants(spared)

    report = guardian.kill_below(os.getpid(), now_us() + SECOND_US, spare=[spared])

    assert report.left == ()
    assert not procfs.is_alive(other)
    assert all(procfs.is_alive(pid) for pid in [spared, *below_spared])
    guardian.kill_tree(spared, now_us() + SECOND_US)
    bury(spared)
    bury(other)
    guardian.reap_adopted(())


def test_a_fork_bomb_with_sessions_of_its_own_ends() -> None:
    forked = mmap.mmap(-1, 1)

    def bomb() -> None:
        while forked[0] < 60:
            forked[0] += 1
            if os.fork() == 0 and os.getpid() % 3 == 0:
                os.setsid()
            time.sleep(0.005)
        stubborn()

    fork(bomb)
    wait_for("some processes", lambda: len(procfs.descendants(os.getpid())) > 10)

    report = guardian.kill_below(os.getpid(), now_us() + 5 * SECOND_US)

    assert report.left == ()
    assert len(report.killed) > 10
    guardian.reap_adopted([])
    assert not any(procfs.is_alive(pid) for pid in procfs.descendants(os.getpid()))


def test_a_chain_of_short_lived_forks_is_caught() -> None:
    def hop() -> None:
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
            os.setsid()
            time.sleep(0.001)
        os._exit(0)

    fork(hop)
    report = guardian.kill_below(os.getpid(), now_us() + 3 * SECOND_US)

    assert report.left == ()
    guardian.reap_adopted(())
    assert not any(procfs.is_alive(pid) for pid in procfs.descendants(os.getpid()))


def test_a_stopped_process_is_killed() -> None:
    root = fork(stubborn)
    os.kill(root, signal.SIGSTOP)
    wait_for("the stop", lambda: (procfs.read_stat(root) or pytest.fail("gone")).state == "T")

    assert guardian.kill_tree(root, now_us() + SECOND_US).left == ()
    bury(root)


@pytest.mark.row("SD-15")
def test_nobody_outside_the_ancestry_is_signalled() -> None:
    """A process of the same session and group as the victim, but not below the root, lives on."""
    victim = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        guardian.kill_tree(victim.pid, now_us() + SECOND_US)
        assert victim.wait(5) == -signal.SIGKILL
        assert bystander.poll() is None
    finally:
        bystander.communicate(b"\n", timeout=5)
        victim.communicate(timeout=5)


def test_a_stranger_given_as_descendant_is_not_opened() -> None:
    """The check after the pidfd was opened: pid 1 is nobody's descendant."""
    stat = procfs.read_stat(1)
    assert stat is not None
    child = fork(stubborn)

    assert guardian._open_descendant(child, stat) is None

    guardian.kill_tree(child, now_us() + SECOND_US)
    bury(child)


@pytest.mark.row("SD-15")
def test_a_process_that_got_the_pid_of_a_dead_one_is_not_opened() -> None:
    """What the walk saw had another start time than what the pidfd names."""
    child = fork(stubborn)
    seen = procfs.read_stat(child)
    assert seen is not None
    before = replace(seen, start_ticks=seen.start_ticks - 1)

    assert guardian._open_descendant(os.getpid(), before) is None

    guardian.kill_tree(child, now_us() + SECOND_US)
    bury(child)


def test_only_adopted_zombies_are_buried() -> None:
    own, adopted = fork(lambda: os._exit(7)), fork(lambda: os._exit(8))
    wait_for("two zombies", lambda: not procfs.is_alive(own) and not procfs.is_alive(adopted))
    seen: list[int] = []

    assert guardian.reap_adopted([own], seen.append) == [adopted]

    assert seen == [adopted]
    assert os.waitstatus_to_exitcode(os.waitpid(own, 0)[1]) == 7
