"""The actors of a session's processes; what each does is in the module of its shell."""

from __future__ import annotations

from typing import Any

from thespian.actors import ActorAddress

from parlora_actors.coordinator import Coordinator
from parlora_actors.loop import Loop
from parlora_actors.owner import Owner
from parlora_actors.pipeline import InputPipeline, OutputPipeline
from parlora_actors.policy_worker import PolicyWorker
from parlora_actors.shell_actor import ShellActor

CLOSE_NOTE = "close"
"""Note to the coordinator: end the session in order, the node is stopping."""

STOP_BY_NOTE = "stop_by"
"""Note to a session's supervisor, with `deadline_us`: end the session in order, and have nothing left by then."""


class CoordinatorProcess(ShellActor):
    """The session's brain."""

    shell: Coordinator

    def make_shell(self, init: dict[str, Any], loop: Loop) -> Coordinator:
        """The coordinator."""
        return Coordinator(init, loop)

    def on_message(self, kind: str, body: dict[str, Any], sender: ActorAddress) -> None:
        """Close in order when the supervisor notes so."""
        if kind == CLOSE_NOTE:
            self.shell.close()
        else:
            super().on_message(kind, body, sender)


class OwnerProcess(ShellActor):
    """One adapter."""

    def make_shell(self, init: dict[str, Any], loop: Loop) -> Owner:
        """The owner."""
        return Owner(init, loop)


class InputPipelineProcess(ShellActor):
    """The caller's audio."""

    def make_shell(self, init: dict[str, Any], loop: Loop) -> InputPipeline:
        """The pipeline."""
        return InputPipeline(init, loop)


class OutputPipelineProcess(ShellActor):
    """The model's audio."""

    def make_shell(self, init: dict[str, Any], loop: Loop) -> OutputPipeline:
        """The pipeline."""
        return OutputPipeline(init, loop)


class PolicyProcess(ShellActor):
    """The application's judgment."""

    def make_shell(self, init: dict[str, Any], loop: Loop) -> PolicyWorker:
        """The policy worker."""
        return PolicyWorker(init, loop)
