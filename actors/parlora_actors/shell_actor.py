"""The actor around a shell: one that gives a plain object on a loop the life of an actor."""

from __future__ import annotations

from typing import Any

from parlora_actors.actor import ParloraActor
from parlora_actors.loop import Loop


class ShellActor(ParloraActor):
    """Runs one shell: the process ends when the shell stops its loop. Subclasses override `make_shell`."""

    def make_shell(self, init: dict[str, Any], loop: Loop) -> Any:
        """Build the shell; what it watches is served from then on."""
        raise NotImplementedError

    def on_init(self, init: dict[str, Any]) -> None:
        """Build the shell and serve its loop."""
        self.loop = Loop()
        self.shell = self.make_shell(init, self.loop)
        self.watch(self.loop.fileno(), self._turn)
        self._look_for_end()

    def _turn(self) -> None:
        self.loop.run_ready()
        self._look_for_end()

    def _look_for_end(self) -> None:
        code = self.loop.exit_code
        if code is not None:
            self.leave(code, "normal" if code == 0 else f"exit_{code}")
