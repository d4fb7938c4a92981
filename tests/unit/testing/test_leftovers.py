"""The leftovers check sees each kind of thing, names it, and is quiet about what is not ours."""

import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from parlora.testing import leftovers

SHORT_MS = 150


def kinds(before: leftovers.Snapshot) -> set[str]:
    return {leftover.kind for leftover in leftovers.wait(before, SHORT_MS)}


def pids(found: list[leftovers.Leftover]) -> list[int]:
    return [int(leftover.name.split()[0]) for leftover in found if leftover.kind == "process"]


def test_work_that_leaves_nothing_passes() -> None:
    with leftovers.none_left():
        subprocess.run(["true"], check=True)
        left, right = socket.socketpair()
        left.close()
        right.close()


def test_a_running_child_is_named_with_its_command() -> None:
    before = leftovers.snapshot()
    with subprocess.Popen(["sleep", "60"]) as child:
        with pytest.raises(leftovers.LeftoversError, match=rf"process {child.pid} .*sleep 60"):
            leftovers.check(before, SHORT_MS)
        child.kill()
    leftovers.check(before)


def test_a_grandchild_whose_parent_died_is_seen_and_killed() -> None:
    before = leftovers.snapshot()
    double_fork = "setsid sleep 60 >/dev/null 2>&1 & echo $!"
    orphan = int(subprocess.run(["sh", "-c", double_fork], check=True, capture_output=True).stdout)

    found = leftovers.wait(before, SHORT_MS)
    leftovers.kill(before)

    assert pids(found) == [orphan]
    assert not Path(f"/proc/{orphan}").exists()


def test_an_adopted_child_that_died_is_buried_and_one_that_was_started_here_is_not() -> None:
    before = leftovers.snapshot()
    subprocess.run(["sh", "-c", "sleep 0.05 & "], check=True)
    with subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"]) as own:
        os.waitid(os.P_PID, own.pid, os.WEXITED | os.WNOWAIT)
        found = leftovers.wait(before, 1_000)
        assert pids(found) == [own.pid]
    assert own.returncode == 7
    leftovers.check(before)


def test_a_zombie_of_another_parent_does_not_count() -> None:
    before = leftovers.snapshot()
    careless = "import os, time\nif os.fork() == 0: os._exit(0)\nprint(flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", careless], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        found = leftovers.wait(before, SHORT_MS)
        parent.kill()
    assert pids(found) == [parent.pid]


def test_an_open_descriptor_is_found() -> None:
    before = leftovers.snapshot()
    reader, writer = os.pipe()
    assert kinds(before) == {"descriptor"}
    os.close(reader)
    os.close(writer)


class ClosesWhenCollected:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.cycle = self

    def __del__(self) -> None:
        os.close(self.descriptor)


def test_a_descriptor_that_only_a_reference_cycle_holds_is_no_leftover() -> None:
    before = leftovers.snapshot()
    ClosesWhenCollected(os.memfd_create("parlora-test"))
    leftovers.check(before, SHORT_MS)


def test_a_mapped_memfd_is_found_when_its_descriptor_is_closed() -> None:
    before = leftovers.snapshot()
    memory = os.memfd_create("parlora-test")
    os.ftruncate(memory, 4096)
    mapping = mmap.mmap(memory, 4096)
    os.close(memory)
    found = leftovers.wait(before, SHORT_MS)
    mapping.close()
    assert "memory" in {leftover.kind for leftover in found}
    assert any("parlora-test" in leftover.name for leftover in found)


def test_a_thread_is_named() -> None:
    before = leftovers.snapshot()
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="forgotten")
    thread.start()
    with pytest.raises(leftovers.LeftoversError, match=r"thread .*forgotten"):
        leftovers.check(before, SHORT_MS)
    end.set()
    thread.join()


def test_a_socket_file_in_the_run_root_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    before = leftovers.snapshot()
    directory = leftovers.run_root() / "abcdefgh"
    directory.mkdir(parents=True)
    (directory / "node.sock").touch()
    assert kinds(before) == {"file"}


def test_without_a_runtime_directory_nodes_live_below_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    assert leftovers.run_root() == Path(f"/tmp/parlora-{os.getuid()}")


def test_the_wait_ends_as_soon_as_the_last_thing_is_gone() -> None:
    before = leftovers.snapshot()
    with subprocess.Popen(["sleep", "60"]) as child:
        threading.Timer(0.05, child.send_signal, (signal.SIGKILL,)).start()
        waiter = threading.Thread(target=child.wait)
        waiter.start()
        started = time.monotonic()
        leftovers.check(before, 30_000)
        waiter.join()
    assert time.monotonic() - started < 10


def _hold(directory: Path) -> str:
    """A program that holds the lock of a run directory until its stdin ends."""
    return (
        "import fcntl, os, sys;"
        f"d = os.open({str(directory / 'lock')!r}, os.O_RDWR | os.O_CREAT);"
        "fcntl.flock(d, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )


def test_a_dead_nodes_run_directory_is_left_over_and_a_live_foreign_ones_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    root = leftovers.run_root()
    root.mkdir()
    before = leftovers.snapshot()
    theirs, dead = root / "theirs", root / "dead"
    theirs.mkdir()
    dead.mkdir()
    other = subprocess.Popen(
        [sys.executable, "-c", _hold(theirs)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    monkeypatch.setattr(leftovers, "_descendants", dict)  # as if another program had started it
    left = {each.name for each in leftovers.find(before) if each.kind == "file"}
    other.stdin.close()
    other.wait(10)
    other.stdout.close()
    assert left == {str(dead)}
