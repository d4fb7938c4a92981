"""Deadlines of processes, each with its reason. Deadlines of a session are in `parlora.limits`."""

from __future__ import annotations

import time
from typing import Final


def now_us() -> int:
    """The time of CLOCK_MONOTONIC in microseconds: the same number in every process of the machine."""
    return time.monotonic_ns() // 1_000


ADMIN_ADOPTION_US: Final = 2_000_000
"""How long Thespian's admin waits to become the launcher's child. Its double fork takes about 1 ms; a process that
sets its death signal before that is killed at birth (3 of 10 starts)."""

ADOPTION_POLL_US: Final = 500
"""Pause between two looks at the parent while waiting for the adoption."""

CHILD_START_MS: Final = 5_000
"""Default time from fork to hello. A warm fork needs 10 ms; a policy worker may import a large framework."""

CHILD_SHUTDOWN_MS: Final = 5_000
"""Default time for a child to stop by itself, as in OTP."""

KEEPER_PATIENCE_US: Final = 500_000
"""How long a keeper leaves the end to the launcher when their host is gone; a launcher needs about 30 ms, and all has
to be gone within a second."""

HEARTBEAT_US: Final = 500_000
"""How often a supervisor pings its children: a stopped process is then found at most half a second late."""

UNRESPONSIVE_MS: Final = 2_000
"""How long a process may answer nothing before it counts as dead, where no session option says. Main threads run no
adapter code and never block; the longest pause seen on a busy machine was 0.3 s."""

SHOW_LIFE_US: Final = 250_000
"""How often a supervisor that kills, which is the one thing it waits for, shows that it is alive."""

CRASH_KILL_US: Final = 500_000
"""How long a crashing supervisor cleans up below itself before it exits. Its own supervisor kills what is left."""

KILL_CONFIRM_US: Final = 1_000_000
"""How long a killed child may take to be gone before it is reported as left behind. SIGKILL takes effect in 1 to 3 ms;
only a process stuck in the kernel needs longer."""

STOP_MARGIN_US: Final = 50_000
"""How much earlier than itself a supervisor wants its children gone: it then still has to bury them and to exit."""

CGROUP_KILL_US: Final = 500_000
"""How long a killed cgroup may take to be empty before the walk goes on; 200 processes took 75 ms."""

GUARDIAN_POLL_US: Final = 20_000
"""Longest wait for one batch of killed processes before the tree is walked again."""

GUARDIAN_US: Final = 2_000_000
"""Default time for a kill pass. A fork bomb of 200 processes took 130 ms on two busy cores."""

NODE_START_US: Final = 20_000_000
"""From the launcher's configuration to its ready: imports (about 300 ms), Thespian's system (50 ms) and the root."""

LAUNCHER_MARGIN_US: Final = 150_000
"""How much earlier than itself a launcher wants the root gone: Thespian's shutdown (40 ms) and the kill follow."""

LOG_CHECK_US: Final = 10_000_000
"""How often a launcher looks at the size of the log. A node that logs a line per millisecond grows it by 1 MB a second
at most, so the log stays below twice its bound."""

LAST_WORD_US: Final = 200_000
"""How long a launcher tries to tell its host that the node is gone."""

ACTOR_CREATION_US: Final = 5_000_000
"""How long Thespian's admin may take to fork the root; it needs 12 ms and the time of the root's `on_init`."""

ROOT_STOP_US: Final = 6_000_000
"""Default time for the root to stop when the host gave no deadline: a session's shutdown_timeout_ms and a margin."""

SYSTEM_STOP_US: Final = 1_000_000
"""Thespian's own shutdown, after the last actor is gone; it needs about 40 ms. Its built-in limit is 10 s."""

FINAL_KILL_US: Final = 3_000_000
"""The launcher's last pass over everything below it."""

SESSION_START_MARGIN_US: Final = 5_000_000
"""How much longer than the session's own startup budget its supervisor may take to say hello before it is killed: the
coordinator inside ends a start that is too slow, in order."""

GATEWAY_FLUSH_US: Final = 5_000
"""Pause before messages are offered to a gateway again that did not take them at once."""

MONITOR_BACK_US: Final = 1_000_000
"""Pause before a monitor that died is started again: whatever kills it, it must not keep its supervisor busy."""

NODE_END_US: Final = 1_000_000
"""How long before a node's deadline sessions that do not close in order are given up: killing them and ending Thespian
need 100 ms on an idle machine."""

RUN_DIRECTORY_LOCK_US: Final = 2_000_000
"""How long a starting node waits for another that is just making or cleaning run directories."""

CONFIG_US: Final = 10_000_000
"""How long a started launcher waits for its configuration."""
