"""Host and launcher: the socket pair that the host's library makes before it starts the node.

The launcher answers `Launch` with `NodeReady` or `NodeFailed`, and its last message is always `NodeGone`, unless it
cannot write any more. When either end closes, the node ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.wire import MessageSet


# host -> launcher
@dataclass(frozen=True, slots=True)
class Launch:
    """What to run, and the surroundings of the host that it needs.

    root: import path `module.Class` of the root actor; root_init: what its `on_init` gets. sys_path, cwd: the host's.
    preload: modules to import before the first fork. env_drop: variables that no process of the node shall see.
    main_path: the host's main file, for components named `__main__:X` (`parlora_actors.user_code`). log_path: where the
    node's log goes; in the run directory if `None`. run_dir: the run directory; a fresh one if `None`.
    """

    root: str
    root_init: dict[str, Any] = field(default_factory=dict, repr=False)
    sys_path: list[str] = field(default_factory=list)
    cwd: str | None = None
    preload: list[str] = field(default_factory=list)
    env_drop: list[str] = field(default_factory=list)
    main_path: str | None = None
    log_path: str | None = None
    run_dir: str | None = None


@dataclass(frozen=True, slots=True)
class StopNode:
    """Stop everything; at `deadline_us` whatever is left is killed. Again with a nearer deadline hurries."""

    deadline_us: int


# launcher -> host
@dataclass(frozen=True, slots=True)
class NodePlaced:
    """The node has its directory: a host that has to kill the launcher from now on removes it."""

    run_dir: str


@dataclass(frozen=True, slots=True)
class NodeReady:
    """The root actor is up. `run_dir` holds the node's sockets; `pid` is the launcher's."""

    run_dir: str
    pid: int
    root_pid: int


@dataclass(frozen=True, slots=True)
class NodeFailed:
    """The node could not start; the error is `{code, message, details}`. `NodeGone` follows."""

    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class NodeGone:
    """Nothing of the node is left but the launcher, which exits now, and what `left` names.

    cause: `stopped` (as asked), `root_down`, `admin_down`, `host_down`, `keeper_down`, `signal` or `start_failed`.
    killed: how many processes had to be killed. left: the pids of those that could not be.
    """

    cause: str
    killed: int
    left: list[int] = field(default_factory=list)


TO_LAUNCHER = MessageSet(1, Launch, StopNode)
FROM_LAUNCHER = MessageSet(1, NodePlaced, NodeReady, NodeFailed, NodeGone)
