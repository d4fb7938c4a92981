"""Deadlines of the host library, each with its reason. A session's own are in `parlora.limits`."""

from __future__ import annotations

import time
from typing import Final

from parlora.errors import InvalidArgument

NODE_START_TIMEOUT_MS: Final = 20_000
"""From starting the launcher to its `ready`: about 0.5 s on an idle machine, several seconds on a loaded one."""

CONNECT_TIMEOUT_MS: Final = 2_000
"""Connecting to a socket of the node and exchanging hellos: the other side only has to be scheduled."""

SESSION_CALL_TIMEOUT_MS: Final = 5_000
"""One call of the session API. The coordinator never blocks; it answers in milliseconds unless it is dead, and a dead
coordinator is found within 2,000 ms (`unresponsive_timeout_ms`)."""

START_SESSION_TIMEOUT_MS: Final = 10_000
"""The node's answer to `start_session`: it waits for one fork, on a loaded machine behind other starts."""

READY_MARGIN_MS: Final = 2_000
"""How much longer than the startup deadline `wait_ready` waits for the node's own verdict."""

CLOSED_MARGIN_MS: Final = 3_000
"""How much longer than the shutdown deadline `wait_closed` waits: the last kill pass comes after the deadline."""

NODE_STOP_TIMEOUT_MS: Final = 5_000
"""How long a node without sessions may take to stop; it needs about 100 ms."""

DRAIN_CLOSE_TIMEOUT_MS: Final = 6_000
"""How long a draining node may take for everything after the time to drain: a session's default shutdown deadline of
5 s, and the node's own end."""

KILL_TIMEOUT_MS: Final = 1_000
"""How long `ActorHost.kill` lets the launcher clean up before it is killed itself: its kill pass needs about 30 ms."""

NODE_KILL_TIMEOUT_MS: Final = 3_000
"""How long a killed launcher may take to be gone. SIGKILL takes effect in milliseconds."""

GATEWAY_BACK_TIMEOUT_MS: Final = 10_000
"""How long the gateway may be away before the node counts as lost: its supervisor replaces it in about 20 ms,
on a machine with many other tasks in seconds."""

LOST_NODE_STOP_TIMEOUT_MS: Final = 2_000
"""How long the rest of a broken node may take to stop before it is killed: nobody is told of the end before."""

VIEW_TIMEOUT_MS: Final = 10_000
"""How long a watcher waits for the next view of a node: one comes each second, on a machine with many other tasks
later."""

SINK_DRAIN_TIMEOUT_MS: Final = 1_000
"""How long `close` waits for event sinks to take the last events; a busy one goes on without us."""

LAST_WORDS_TIMEOUT_MS: Final = 1_000
"""How long the end of one connection waits for the other: a session's socket ends, and the gateway says so too."""

_MOST_WAIT_S: Final = 86_400 * 365
"""What any longer wait becomes: beyond every wait, and still what a lock can wait for."""

REACTOR_POLL_MS: Final = 250
"""Longest sleep of the library's thread between two looks at its own deadlines."""


def now_us() -> int:
    """CLOCK_MONOTONIC in microseconds: the same clock in every process of the machine."""
    return time.monotonic_ns() // 1_000


def deadline_of(timeout: object, field: str = "timeout") -> int:
    """The deadline of a wait in seconds that the application asked for; raises `InvalidArgument` naming `field`."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:  # NaN is not
        raise InvalidArgument(f"{field} must be a number of seconds, at least 0", field=field)
    return now_us() + int(min(timeout, _MOST_WAIT_S) * 1_000_000)


def deadline_after(timeout: object, field: str = "timeout") -> int | None:
    """The same where None is no deadline."""
    return None if timeout is None else deadline_of(timeout, field)


def wait_s(timeout: object, field: str = "timeout") -> float | None:
    """A wait that the application asked for, checked, as the standard library's locks take it."""
    deadline_us = deadline_after(timeout, field)
    return None if deadline_us is None else until_s(deadline_us)


def until_s(deadline_us: int) -> float:
    """Seconds left, never negative."""
    return max(0, deadline_us - now_us()) / 1_000_000
