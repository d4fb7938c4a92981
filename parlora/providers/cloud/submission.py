"""Commands on their way to the service: admitted once, sent, and told where the service will not tell."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from parlora.contract.commands import CommandLog
from parlora.contract.provider import DelegationOutcome, MuteInput
from parlora.errors import ParloraError
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.parts import Link
from parlora.providers.cloud.said import Message
from parlora.providers.cloud.telling import Telling


@dataclass(frozen=True, slots=True)
class Command:
    """An admitted one; `encode` makes its messages with the codec of the connection it goes over."""

    id: str
    operation: str
    command: object
    encode: Callable[[CloudCodec], Sequence[Message]]


class Submission:
    """Of one call. `acknowledged`: whether the service tells what became of an append."""

    def __init__(self, log: CommandLog, tell: Telling, acknowledged: bool) -> None:
        self._log, self._tell, self._acknowledged = log, tell, acknowledged

    def submit(self, link: Link, command: Command) -> None:
        """Queue what the command is; raises what the codec or the connection refuses."""
        messages = command.encode(link.codec)
        unconfirmed = command.operation == "append_context" and not self._acknowledged
        sent = self._tell.submitted(command.id) if unconfirmed else None
        for message in messages[:-1]:
            link.connection.send(message)
        for message in messages[-1:]:
            link.connection.send(message, sent)
        if isinstance(command.command, MuteInput) and not messages:
            self._tell.muted(command.command.on, command.id)
        if unconfirmed or not messages:
            self._log.settle(command.id)  # there will be no other word on it

    def submit_held(
        self, link: Link, commands: Sequence[Command], outcomes: Sequence[tuple[str, DelegationOutcome]]
    ) -> None:
        """Commands and outcomes of delegations that had to wait for a connection; what is refused now is told."""
        for command in commands:
            try:
                self.submit(link, command)
            except ParloraError as error:
                self._log.settle(command.id)
                self._tell.refused(command.operation, command.id, error)
        with contextlib.suppress(ParloraError):  # a connection that takes no more tells its end itself
            for delegation_id, outcome in outcomes:
                for message in link.codec.resolve(delegation_id, outcome):
                    link.connection.send(message)
