"""The node's log: JSON lines of at most 4 KiB, appended to one inherited descriptor.

A line is written with one call, so lines of many processes never mix. Nothing here waits for anybody: what cannot be
written is dropped and counted. No audio, no speech and no credential belongs into a field.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from typing import Any, Final

MAX_LINE_BYTES: Final = 4_096
"""Longest line: appends up to this size are not interleaved, also not on a pipe (PIPE_BUF)."""

MAX_LOG_BYTES: Final = 16 * 1024 * 1024
"""A log of this size is moved aside; the one moved aside before it is lost."""

_MAX_VALUE_CHARACTERS: Final = 1_000


class NodeLog:
    """The writing end in one process.

    >>> import os, json
    >>> reader, writer = os.pipe()
    >>> NodeLog(writer, role="channel").write("info", "started", session_id="s1")
    >>> sorted(json.loads(os.read(reader, 4096)))
    ['event', 'level', 'pid', 'role', 'session_id', 'time']
    """

    def __init__(self, fd: int | None, **context: Any) -> None:
        """`fd` is borrowed, not owned; `None` drops every line. `context` stands in every line."""
        self.fd = fd
        self._context = context
        self.dropped = 0

    def write(self, level: str, event: str, **fields: Any) -> None:
        """Append one line. Values that JSON does not know are written as their type's name."""
        if self.fd is None:
            return
        record = {"time": round(time.time(), 6), "level": level, "event": event, "pid": os.getpid()}
        line = _encode(record | self._context | fields)
        if len(line) > MAX_LINE_BYTES:
            short = {name: _shorten(value) for name, value in fields.items()}
            line = _encode(record | self._context | short | {"truncated": True})
        if len(line) > MAX_LINE_BYTES:
            line = _encode(record | self._context | {"truncated": True})
        try:
            os.write(self.fd, line)
        except OSError:  # a full disk or a reader that does not read must not stop a session
            self.dropped += 1


def rotate(path: str, fd: int, max_bytes: int = MAX_LOG_BYTES) -> bool:
    """Move the log's content to `path.1` once it has `max_bytes`; returns whether it did.

    The file itself stays, for other processes append to it by an inherited descriptor. What they append between the
    last look at its size and the cut is lost, which is some microseconds' worth.
    """
    size = os.fstat(fd).st_size
    if size < max_bytes:
        return False
    with open(path, "rb") as source, open(f"{path}.1", "wb") as target:
        os.fchmod(target.fileno(), 0o600)
        shutil.copyfileobj(source, target)
    os.ftruncate(fd, 0)
    return True


class NodeLogHandler(logging.Handler):
    """Brings warnings and errors of libraries that use `logging` into the node's log."""

    def __init__(self, log: NodeLog) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record, without its traceback, which may show values."""
        try:
            message = record.getMessage()
        except Exception:  # a library's wrong format arguments are its own problem
            message = str(record.msg)
        self.log.write(record.levelname.lower(), "library_log", logger=record.name, message=message)


def _encode(record: dict[str, Any]) -> bytes:
    return json.dumps(record, default=lambda value: f"<{type(value).__name__}>").encode() + b"\n"


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _MAX_VALUE_CHARACTERS else value[:_MAX_VALUE_CHARACTERS] + "..."
    return value if isinstance(value, bool | int | float | None) else f"<{type(value).__name__}>"
