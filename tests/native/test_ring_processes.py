"""The ring between processes: roles, descriptors, death of a peer, and nothing left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from parlora.audio.ring import Ring, RingSpec, Verdict, now_us
from parlora.errors import Closed, Conflict

SPEC = RingSpec(max_bytes=9_600, max_age_ms=0, max_frame_bytes=4_800)
FRAME = b"\x01\x02" * 480


@pytest.fixture
def ring() -> Iterator[Ring]:
    with Ring.create(SPEC) as made:
        yield made


def in_child(work: Callable[[], object]) -> int:
    """Run `work()` in a forked child; the exit code is 0 if it returned."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_wait_ends_when_the_watched_peer_dies(ring: Ring) -> None:
    pid = in_child(lambda: signal.pause())
    pidfd = os.pidfd_open(pid)
    ring.watch_peer(pidfd)
    os.kill(pid, signal.SIGKILL)
    assert ring.reader().wait(now_us() + 10_000_000) is Verdict.PEER_DIED
    os.close(pidfd)
    exit_code(pid)


def test_a_role_belongs_to_one_process_until_it_dies(ring: Ring) -> None:
    told, tell = os.pipe()

    def hold() -> None:
        ring.writer()
        os.write(tell, b"!")
        signal.pause()

    pid = in_child(hold)
    assert os.read(told, 1) == b"!"
    with pytest.raises(Conflict, match=str(pid)):
        ring.writer()
    assert ring.stats().producer_pid == pid
    os.kill(pid, signal.SIGKILL)
    exit_code(pid)
    assert ring.writer().write(FRAME) is Verdict.OK
    os.close(told)
    os.close(tell)
    with pytest.raises(Conflict):
        ring.writer()


def test_frames_cross_a_process_boundary_by_descriptor(ring: Ring) -> None:
    numbers = ring.descriptors()

    def write() -> None:
        with Ring.attach(numbers) as mine:
            writer = mine.writer()
            for number in range(100):
                while writer.write(number.to_bytes(2) * 480) is Verdict.FULL:
                    writer.wait(960, now_us() + 5_000_000)

    pid = in_child(write)
    reader = ring.reader()
    got: list[int] = []
    while len(got) < 100:
        frames = reader.receive(9_600, now_us() + 5_000_000)
        assert frames, "the writer stopped"
        got += [int.from_bytes(data[:2]) for _, data in frames]
    assert got == list(range(100))
    assert exit_code(pid) == 0


def test_a_closed_handle_says_so_and_leaves_no_descriptor() -> None:
    ring = Ring.create(SPEC)
    writer, reader = ring.writer(), ring.reader()
    with ring.held(), pytest.raises(Conflict):
        ring.close()
    ring.close()
    ring.close()
    for use in (lambda: writer.write(FRAME), lambda: reader.read(9_600), ring.stats, lambda: ring.clear(1)):
        with pytest.raises(Closed):
            use()
