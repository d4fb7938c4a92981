"""Did this piece of work leave anything behind?

Take a snapshot, do the work, then check: no process, descriptor, shared memory, thread, socket file or run directory
may exist that did not exist before.

    >>> from parlora.testing import leftovers
    >>> with leftovers.none_left():
    ...     pass

What counts:

* every process descended from this one, however far. A process whose parent died is seen only if it falls to this one:
  call `become_subreaper` first, as a test runner or a service should. The tree is read from `/proc`, twice in a row,
  because a process that forks and exits during one walk can hide its child from that walk;
* a zombie only if this process is its parent: any other one is its own parent's to bury. Orphans that fell to a
  subreaper and died are buried here (`reap_adopted`);
* every file descriptor and every mapping of a memfd of this process. A memfd has no name: when no process, descriptor
  and mapping is left, it is gone;
* every thread of this process, also those that Python does not know;
* every entry of the directory in which nodes make their run directories (`run_root`), but for the run directories
  that live nodes of other programs hold.

Linux only: it reads `/proc`.
"""

import contextlib
import ctypes
import gc
import multiprocessing.process
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHECK_TIMEOUT_MS: Final = 5_000
"""How long a check waits for the last things to go: an ordinary end needs milliseconds, a loaded machine seconds."""

_POLL_S: Final = 0.005
_PR_SET_CHILD_SUBREAPER: Final = 36
_PR_GET_CHILD_SUBREAPER: Final = 37
_COMMAND_LINE_CHARACTERS: Final = 120


class LeftoversError(AssertionError):
    """Something was left behind; `leftovers` holds each thing, the message names them all."""

    def __init__(self, leftovers: "list[Leftover]", waited_ms: int) -> None:
        self.leftovers = leftovers
        lines = "\n".join(f"  {leftover}" for leftover in leftovers)
        super().__init__(f"left behind after {waited_ms} ms:\n{lines}")


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that exists now and did not before; `kind` is process, descriptor, memory, thread or file."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What exists at one moment: each key identifies the thing for good, each value describes it for people."""

    processes: dict[tuple[int, int], str]
    """By pid and start time (clock ticks since boot), so that a pid used again is another process."""
    descriptors: dict[tuple[int, str], str]
    memory: dict[str, str]
    threads: dict[int, str]
    files: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    state: str
    started_ticks: int
    name: str


def snapshot() -> Snapshot:
    """What this process has now: its descendants, descriptors, memfd mappings, threads and run directories."""
    return Snapshot(_descendants(), _descriptors(), _memfd_mappings(), _threads(), _run_files())


def find(before: Snapshot) -> list[Leftover]:
    """Everything that exists now and is not in `before`, at once and without waiting."""
    _bury()
    now = snapshot()
    found = []
    for kind, old, new in (
        ("process", before.processes, now.processes),
        ("descriptor", before.descriptors, now.descriptors),
        ("memory", before.memory, now.memory),
        ("thread", before.threads, now.threads),
        ("file", before.files, now.files),
    ):
        found += [Leftover(kind, str(new[key])) for key in new if key not in old]  # type: ignore[index]
    return found


def wait(before: Snapshot, timeout_ms: int = CHECK_TIMEOUT_MS) -> list[Leftover]:
    """Wait until nothing is left, at most `timeout_ms`; returns what is still there then, so empty means clean."""
    deadline = time.monotonic() + timeout_ms / 1000
    clean_walks = 0
    while True:
        found = find(before)
        clean_walks = 0 if found else clean_walks + 1
        if clean_walks == 2:
            return []
        if found and time.monotonic() >= deadline:
            return found
        if found:
            gc.collect()  # A socket in a reference cycle is held by nobody and closed by the collector alone.
            time.sleep(_POLL_S)


def check(before: Snapshot, timeout_ms: int = CHECK_TIMEOUT_MS) -> None:
    """Like `wait`.

    Raises:
        LeftoversError: if something is still there after `timeout_ms`.
    """
    found = wait(before, timeout_ms)
    if found:
        raise LeftoversError(found, timeout_ms)


@contextlib.contextmanager
def none_left(timeout_ms: int = CHECK_TIMEOUT_MS) -> Iterator[Snapshot]:
    """Check that the body leaves nothing behind. An exception of the body wins over the check.

    Raises:
        LeftoversError: if something is still there `timeout_ms` after the body.
    """
    before = snapshot()
    yield before
    check(before, timeout_ms)


def kill(before: Snapshot) -> None:
    """SIGKILL every descendant that is not in `before`, so that one failed test does not spoil the next.

    Never use it to make a check pass. A process is signalled through a pidfd after its start time was compared.
    """
    deadline = time.monotonic() + CHECK_TIMEOUT_MS / 1000
    while time.monotonic() < deadline:
        _bury()
        fresh = [identity for identity in _descendants() if identity not in before.processes]
        if not fresh:
            return
        for pid, started_ticks in fresh:
            _kill_exactly(pid, started_ticks)
        time.sleep(_POLL_S)


def run_root() -> Path:
    """The directory in which this user's nodes make their run directories; it need not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "parlora" if runtime else Path(f"/tmp/parlora-{os.getuid()}")


def become_subreaper() -> None:
    """Let orphaned descendants fall to this process, where a check sees them, and not to init.

    Raises:
        OSError: if the kernel refuses.
    """
    if _prctl(_PR_SET_CHILD_SUBREAPER, 1) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def is_subreaper() -> bool:
    """Whether orphaned descendants fall to this process."""
    flag = ctypes.c_int(0)
    return _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.addressof(flag)) == 0 and flag.value == 1


def reap_adopted() -> list[int]:
    """Bury dead children that this process adopted as a subreaper; returns their pids.

    A dead child that this process started itself is not touched, for whoever started it waits for its exit code: it is
    known by the `subprocess.Popen` or `multiprocessing` object that still expects it.
    """
    own = os.getpid()
    dead = [process.pid for process in _all_processes() if process.parent == own and process.state == "Z"]
    if not dead:
        return []
    expected = _expected_pids()
    buried = []
    for pid in dead:
        if pid not in expected:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
                buried.append(pid)
    return buried


def _bury() -> None:
    multiprocessing.active_children()  # It reaps what multiprocessing started; nothing else does that in time.
    if is_subreaper():
        reap_adopted()


def _expected_pids() -> set[int]:
    """The pids of children that some live object of this interpreter still has to wait for."""
    pids = {process.pid for process in multiprocessing.process.active_children() if process.pid}
    for thing in gc.get_objects():
        if isinstance(thing, subprocess.Popen) and thing.returncode is None:
            pids.add(thing.pid)
    return pids


def _descendants() -> dict[tuple[int, int], str]:
    own = os.getpid()
    children: dict[int, list[_Process]] = {}
    for process in _all_processes():
        children.setdefault(process.parent, []).append(process)
    found: dict[tuple[int, int], str] = {}
    pending = [own]
    while pending:
        parent = pending.pop()
        for process in children.get(parent, ()):
            pending.append(process.pid)
            if process.state != "Z" or parent == own:
                found[process.pid, process.started_ticks] = _describe(process)
    return found


def _all_processes() -> list[_Process]:
    processes = []
    for entry in os.listdir("/proc"):
        if entry.isdecimal():
            process = _read_process(int(entry))
            if process is not None:
                processes.append(process)
    return processes


def _read_process(pid: int) -> _Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name stands in parentheses and may itself hold any character, so the last parenthesis ends it.
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    return _Process(pid, int(fields[1]), fields[0], int(fields[19]), head.partition("(")[2])


def _describe(process: _Process) -> str:
    command = ""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    shown = command.strip()[:_COMMAND_LINE_CHARACTERS]
    return f"{process.pid} ({process.name}, state {process.state}, child of {process.parent}): {shown or 'no command'}"


def _descriptors() -> dict[tuple[int, str], str]:
    found = {}
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # The listing's own descriptor is closed by now.
            target = os.readlink(f"/proc/self/fd/{entry}")
            found[int(entry), target] = f"{entry} -> {target}"
    return found


def _memfd_mappings() -> dict[str, str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[0]: f"mapping of {line.partition('/memfd:')[2]}" for line in lines if "/memfd:" in line}


def _threads() -> dict[int, str]:
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    found = {}
    for entry in os.listdir("/proc/self/task"):
        found[int(entry)] = f"{entry} ({names.get(int(entry), 'not a Python thread')})"
    return found


def _run_files() -> dict[str, str]:
    root = run_root()
    if not root.is_dir():
        return {}
    holders = _lock_holders()
    ours = {pid for pid, _ in _descendants()}
    found: dict[str, str] = {}
    for directory in root.iterdir():
        holder = _holder_of(directory, holders)
        if holder is None or holder in ours:
            found |= {str(path): str(path) for path in (directory, *directory.rglob("*"))}
    return found


def _holder_of(directory: Path, holders: dict[int, int]) -> int | None:
    """The process whose node lives in a run directory: it holds the lock in it. None for a dead node's directory."""
    with contextlib.suppress(OSError):
        return holders.get((directory / "lock").stat().st_ino)
    return None


def _lock_holders() -> dict[int, int]:
    """Inode of each locked file and the process that holds the lock. Reading it, unlike trying, disturbs nobody."""
    holders = {}
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "->" not in fields and fields[1] == "FLOCK":
            holders[int(fields[5].rpartition(":")[2])] = int(fields[4])
    return holders


def _kill_exactly(pid: int, started_ticks: int) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        process = _read_process(pid)
        if process is not None and process.started_ticks == started_ticks:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)


def _prctl(option: int, argument: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.prctl(option, ctypes.c_ulong(argument), 0, 0, 0))
