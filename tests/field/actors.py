"""Actors and adapters of the field cases, each with the one habit that its case is about."""

from __future__ import annotations

import threading
import time
from typing import Any

from parlora.backends.trivial import TrivialBackend
from parlora.contract.adapter import ClosePolicy
from parlora_actors.actor import ParloraActor
from tests.misbehaving import spawn_child, spawn_daemon


class SlowOnceMore(ParloraActor):
    """Starts once, crashes, and is too slow in every start after that."""

    says_hello_itself = True

    def on_init(self, init: dict[str, Any]) -> None:
        self.log.write("info", "spawned", incarnation=self.incarnation)
        if self.incarnation == 1:
            self.say_hello()
            self.after(1_000, self._crash_now)

    def _crash_now(self) -> None:
        raise RuntimeError("the first time")


class LeavesAThread(TrivialBackend):
    """Closes in order, and leaves a thread that is no daemon behind, as some libraries do."""

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        threading.Thread(target=time.sleep, args=(600,), daemon=False).start()
        super().close(policy, command_id)


class BirthsAtClose(TrivialBackend):
    """Starts processes as its last act."""

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        spawn_child()
        super().close(policy, command_id)
        spawn_daemon()
