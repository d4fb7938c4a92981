"""The directory of one running node: its sockets, its log, its lock.

    $XDG_RUNTIME_DIR/parlora/<8 characters>      or, without that variable,
    /tmp/parlora-UID/<8 characters>

`node` stands there in place of the 8 characters for the standing node, and a node may be given any other directory.

It is open to its user only, checked without following links, since `/tmp` belongs to everybody. The launcher holds a
lock on the file `lock` in it for as long as the node lives; the kernel releases the lock with the process. So whoever
can take the lock knows that the node is dead and may remove the directory. A lock of the parent directory is held while
a directory is made, for a new one has no lock of its own yet, and while stale ones are removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from parlora.errors import Conflict, InvalidArgument, Timeout, Unsupported
from parlora_actors import cgroup
from parlora_actors.timing import RUN_DIRECTORY_LOCK_US, now_us
from parlora_actors.transport.address import check_directory

LOCK_NAME: Final = "lock"
LOG_NAME: Final = "node.log"
THESPIAN_LOG_NAME: Final = "thespian.log"
"""Thespian's complaints about its own sockets; it keeps the file below 50 kB."""
NODE_SOCKET_NAME: Final = "node.sock"
MONITOR_SOCKET_NAME: Final = "monitor.sock"
STANDING_NAME: Final = "node"
"""The directory of the standing node, beside those of embedded ones."""

_OURS: Final = (LOCK_NAME, LOG_NAME, THESPIAN_LOG_NAME)
"""Names of files in a run directory; with a suffix they are ours too. All else in it are sockets."""

_NAME: Final = re.compile(r"[0-9a-f]{8}")
"""What the name of a node's directory looks like."""

_LOCK_POLL_S: Final = 0.005
_LOCK_LOOK_US: Final = 100_000
"""`has_live_node` holds the lock for a moment; a node holds it for longer."""


class RunDirectory:
    """A directory that this process made and holds."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def take(cls, path: str) -> RunDirectory:
        """Make the directory, or take over what a dead node left there.

        Raises `Conflict` if a live node has it, `InvalidArgument` if it holds files that are no node's, and what
        `create` raises.
        """
        parent = os.path.dirname(path)
        if parent == run_root():
            _prepare_parent()
            with _parent_lock(parent):  # who removes stale directories there holds their locks for a moment
                return cls(path, _take(path))
        return cls(path, _take(path))

    @classmethod
    def create(cls) -> RunDirectory:
        """Remove what dead nodes left and make a new directory.

        Raises `Unsupported` for an unsafe or unusable parent directory, `InvalidArgument` for one whose path is too
        long for sockets, `Timeout` if another node holds the parent's lock for too long.
        """
        parent = _prepare_parent()
        with _parent_lock(parent):
            remove_stale(parent)
            path = os.path.join(parent, secrets.token_hex(4))
            os.mkdir(path, 0o700)
            try:
                check_directory(path)
                lock = _open_lock(path, create=True)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BaseException:
                shutil.rmtree(path, ignore_errors=True)
                raise
        return cls(path, lock)

    def file(self, name: str) -> str:
        """The path of a file in it."""
        return os.path.join(self.path, name)

    def remove(self) -> None:
        """Remove the directory with everything of the node's in it, and release the lock."""
        _remove(self.path)
        os.close(self._lock)


def remove_dead(directory: str) -> bool:
    """Remove this one node's directory, and nothing beside it, if that node is dead; True if it is gone.

    A directory that is not a node's by its lock file, and by its name or everything in it, is left alone: False.
    Raises `Timeout`.
    """
    if not os.path.isdir(directory):
        return True
    if _NAME.fullmatch(os.path.basename(directory)):
        with _parent_lock(os.path.dirname(directory)):
            return _remove_if_dead(directory)
    try:
        lock = _open_lock(directory, create=False)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _foreign_in(directory):
            _remove(directory)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return not os.path.isdir(directory)


def has_live_node(directory: str) -> bool:
    """Whether a node runs in that directory; nothing is changed."""
    try:
        lock = os.open(os.path.join(directory, LOCK_NAME), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def standing_directory() -> str:
    """Where this user's standing node has its directory, unless another was named."""
    return os.path.join(run_root(), STANDING_NAME)


def run_root() -> str:
    """Where this user's nodes have their directories; it need not exist."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isdir(runtime):
        return os.path.join(runtime, "parlora")
    return f"/tmp/parlora-{os.getuid()}"


def remove_stale(parent: str) -> list[str]:
    """Remove the directories of dead nodes; returns their paths. Hold the parent's lock.

    A directory is a node's by its name and the lock file in it. Nothing else is ever touched, wherever `parent` points.
    """
    entries = [entry.path for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False)]
    return [path for path in entries if _remove_if_dead(path)]


def _remove_if_dead(directory: str) -> bool:
    if not _NAME.fullmatch(os.path.basename(directory)) or os.path.islink(directory):
        return False
    try:
        lock = _open_lock(directory, create=False)
    except FileNotFoundError:  # its maker died before it had a lock: then it is empty, or it is not a node's
        try:
            os.rmdir(directory)
        except OSError:
            return False
        return True
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        cgroup.remove_for_node(directory)
        shutil.rmtree(directory, ignore_errors=True)
    except OSError:  # taken: its node lives
        return False
    finally:
        os.close(lock)
    return True


def _take(path: str) -> int:
    """The lock of a directory that is empty but for it."""
    deadline_us = now_us() + RUN_DIRECTORY_LOCK_US
    while True:
        try:
            Path(path).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise Unsupported(f"cannot make {path}: {error.strerror}", details={"path": path}) from None
        check_directory(path)
        foreign = _foreign_in(path)
        if foreign:
            raise InvalidArgument(f"{path} is no node's directory: it holds {foreign[0]}", field="--run-dir")
        lock = _open_lock(path, create=True)
        is_free = _is_free_within(lock, _LOCK_LOOK_US)
        if is_free and _is_linked(lock, path):
            _empty(path, keep=LOCK_NAME)
            return lock
        os.close(lock)
        if not is_free:
            raise Conflict(f"a node runs in {path} already", details={"path": path})
        if now_us() >= deadline_us:  # each time its last holder removed the directory under us
            raise Timeout(f"another process keeps removing {path}", details={"path": path})


def _is_free_within(lock: int, patience_us: int) -> bool:
    """Lock it; False if another process holds it for longer than a look takes."""
    deadline_us = now_us() + patience_us
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if now_us() >= deadline_us:
                return False
            time.sleep(_LOCK_POLL_S)
        else:
            return True


def _is_linked(lock: int, directory: str) -> bool:
    try:
        return os.path.samestat(os.fstat(lock), os.lstat(os.path.join(directory, LOCK_NAME)))
    except FileNotFoundError:
        return False


def _foreign_in(directory: str) -> list[str]:
    return [entry.name for entry in os.scandir(directory) if not _is_ours(entry)]


def _is_ours(entry: os.DirEntry[str]) -> bool:
    mode = entry.stat(follow_symlinks=False).st_mode
    is_named_so = any(entry.name == name or entry.name.startswith(f"{name}.") for name in _OURS)
    return stat.S_ISSOCK(mode) or (stat.S_ISREG(mode) and is_named_so)


def _empty(directory: str, keep: str = "") -> None:
    with contextlib.suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            if entry.name != keep and _is_ours(entry):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry.path)


def _remove(directory: str) -> None:
    """Files that somebody else put there stay, and the directory with them."""
    cgroup.remove_for_node(directory)
    _empty(directory)
    with contextlib.suppress(OSError):
        os.rmdir(directory)


def _prepare_parent() -> str:
    parent = run_root()
    try:
        Path(parent).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Unsupported(f"cannot make {parent}: {error.strerror}", details={"path": parent}) from None
    check_directory(parent)
    return parent


def _open_lock(directory: str, create: bool) -> int:
    path = os.path.join(directory, LOCK_NAME)
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(path, flags | os.O_CREAT if create else flags, 0o600)


@contextlib.contextmanager
def _parent_lock(parent: str) -> Iterator[None]:
    deadline_us = now_us() + RUN_DIRECTORY_LOCK_US
    lock = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if now_us() >= deadline_us:
                    raise Timeout(f"another node holds the lock of {parent}", details={"path": parent}) from None
                time.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(lock)
