"""The directory of one running node: its sockets, its log, its lock.

    $XDG_RUNTIME_DIR/parlora/<8 characters>      or, without that variable,
    /tmp/parlora-UID/<8 characters>

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
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from parlora.errors import Timeout, Unsupported
from parlora_actors.timing import RUN_DIRECTORY_LOCK_US, now_us
from parlora_actors.transport.address import check_directory

LOCK_NAME: Final = "lock"
LOG_NAME: Final = "node.log"
THESPIAN_LOG_NAME: Final = "thespian.log"
"""Thespian's complaints about its own sockets; it keeps the file below 50 kB."""
NODE_SOCKET_NAME: Final = "node.sock"

_NAME: Final = re.compile(r"[0-9a-f]{8}")
"""What the name of a node's directory looks like."""

_LOCK_POLL_S: Final = 0.005


class RunDirectory:
    """A directory that this process made and holds."""

    def __init__(self, path: str, lock: int) -> None:
        self.path = path
        self._lock = lock

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
        """Remove the directory with everything in it, and release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_dead(directory: str) -> bool:
    """Remove this one node's directory, and nothing beside it, if that node is dead; True if it is gone.

    Anything that is not a node's directory by its name and its lock file is left alone: False. Raises `Timeout`.
    """
    if not os.path.isdir(directory):
        return True
    with _parent_lock(os.path.dirname(directory)):
        return _remove_if_dead(directory)


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
        shutil.rmtree(directory, ignore_errors=True)
    except OSError:  # taken: its node lives
        return False
    finally:
        os.close(lock)
    return True


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
