"""What a process is given when it is forked: its first message and the descriptors that are its own.

A parent sends nothing until its handler returns, and forking a session's processes takes one handler. So a child does
not wait for its first message: it finds it in the memory it inherited and starts at once, while the parent is still
forking the next one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

STANDARD_DESCRIPTORS = frozenset({0, 1, 2})


@dataclass(frozen=True, slots=True)
class Birth:
    """What one child inherits.

    first_message: msgpack bytes, as if the supervisor had sent them. link: the child's end of its supervision link.
    log: the node's log, or `None`. keep: further descriptors of the child; it closes all others.
    cgroup: the group that it enters before anything else, or `None`.
    """

    first_message: bytes
    link: int
    log: int | None
    keep: frozenset[int]
    cgroup: str | None = None

    @property
    def descriptors(self) -> frozenset[int]:
        """Every descriptor that the child keeps."""
        own = {self.link} if self.log is None else {self.link, self.log}
        return STANDARD_DESCRIPTORS | self.keep | own


_current: Birth | None = None


def current() -> Birth | None:
    """What this process was given, or `None` in a process that no supervisor started."""
    return _current


@contextlib.contextmanager
def handed_to_children(birth: Birth) -> Iterator[None]:
    """Processes forked inside the block get `birth`."""
    global _current
    previous = _current
    _current = birth
    try:
        yield
    finally:
        _current = previous
