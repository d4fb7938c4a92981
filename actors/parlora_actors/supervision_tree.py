"""A supervision tree of an application's own, without sessions: the same keeper, launcher and `Supervisor` as a node.

    with SupervisionTree(SupervisorSpec((ChildSpec("mail", "workers.Mail"), ChildSpec("index", "workers.Index")))):
        ...

Processes of the tree end with the block, with this program, and with each process above them, whatever dies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from parlora.wire import to_data
from parlora_actors.child_spec import SupervisorSpec
from parlora_actors.host_launch import NodeProcess
from parlora_actors.host_timing import NODE_START_TIMEOUT_MS, NODE_STOP_TIMEOUT_MS, now_us
from parlora_actors.messages.launch import Launch

SUPERVISOR = "parlora_actors.supervisor.Supervisor"


class SupervisionTree:
    """The tree of one supervisor, started with the block and stopped, in reverse order, at its end.

    spec: the root's children and rules. root: import path of a subclass of `Supervisor` that is to be the root, with
    its `init`; by default a plain one. log: where all processes write their JSON lines. preload: modules to import
    once, before the first fork. Entering raises what kept a child from starting.
    """

    def __init__(
        self,
        spec: SupervisorSpec,
        *,
        root: str = SUPERVISOR,
        init: dict[str, Any] | None = None,
        log: str | os.PathLike[str] | None = None,
        preload: Sequence[str] = (),
        stop_ms: int = NODE_STOP_TIMEOUT_MS,
    ) -> None:
        self._launch = Launch(
            root=root,
            root_init={"spec": to_data(spec)} | (init or {}),
            sys_path=[entry or os.getcwd() for entry in sys.path],
            cwd=os.getcwd(),
            preload=list(preload),
            log_path=None if log is None else os.path.abspath(log),
        )
        self._stop_ms = stop_ms
        self._process: NodeProcess | None = None

    def __enter__(self) -> SupervisionTree:
        self._process = NodeProcess()
        try:
            self._process.configure(self._launch, now_us() + NODE_START_TIMEOUT_MS * 1_000)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        assert self._process is not None, "set on entering"
        if not self._process.stop(now_us() + self._stop_ms * 1_000):
            self._process.kill()
        self._process.release()
