"""Adapters that misbehave or take their time, and nothing else."""

from __future__ import annotations

import os
import time

from parlora.backends.trivial import TrivialBackend
from parlora.contract.adapter import AdapterInit, ClosePolicy


class SlowBackend(TrivialBackend):
    """Needs `wait_ms` to start and `close_ms` to close."""

    def __init__(self, wait_ms: int = 0, close_ms: int = 0) -> None:
        super().__init__()
        self._wait_ms, self._close_ms = wait_ms, close_ms

    def start(self, init: AdapterInit) -> None:
        time.sleep(self._wait_ms / 1_000)
        super().start(init)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        time.sleep(self._close_ms / 1_000)
        super().close(policy, command_id)


class CrashingBackend(TrivialBackend):
    """Its process is gone in the middle of `start`."""

    def start(self, init: AdapterInit) -> None:
        os._exit(7)


class FailingBackend(TrivialBackend):
    """Raises in `start`, with something in the message that must not get out."""

    def start(self, init: AdapterInit) -> None:
        raise RuntimeError("no connection to the order system")
