"""What a cloud provider must say of its service's protocol, so that the shell can drive it.

A codec is pure: no socket, thread, clock or id generator. It lives as long as one connection. The shell calls it under
one lock, except `audio`, which may run beside the others and must not depend on their state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from parlora.contract.provider import ContextUpdate, DelegationOutcome
from parlora.providers.cloud.said import Message, Said


class CloudCodec(ABC):
    """One connection of one service."""

    @property
    @abstractmethod
    def pending(self) -> tuple[str, ...]:
        """Command ids sent whose outcome the service has not told yet, oldest first."""

    @abstractmethod
    def opening(self) -> Sequence[Message]:
        """What is sent as soon as the socket is open; may be empty where the service speaks first."""

    @abstractmethod
    def audio(self, data: bytes) -> Message:
        """One chunk of caller audio in the service's format, 1 to 100 ms of whole samples."""

    @abstractmethod
    def append(self, update: ContextUpdate, command_id: str) -> Sequence[Message]:
        """What appends `update`. Raises `InvalidArgument` or `Conflict` if the service would refuse it for sure.

        Where the capabilities declare no acknowledgment the shell tells `context_submitted` once the last of these
        messages was written to the socket.
        """

    def mute(self, on: bool, command_id: str) -> Sequence[Message]:
        """What mutes the input at the service; nothing where it has no such command.

        The shell sends silence while muted in any case. With nothing to send the control is complete at once, with
        scope `local`; else the codec tells `control_completed` when the service confirms.
        """
        return ()

    def resolve(self, delegation_id: str, outcome: DelegationOutcome) -> Sequence[Message]:
        """What ends a delegation that got no speakable content; nothing where the service needs no such word."""
        return ()

    def interrupted(self, unheard_us: int) -> Sequence[Message]:
        """What the service must be told of an interruption that it announced.

        unheard_us: how much of the generated audio had not left the provider's queue by then. What had left it was
        heard, but for what the channel still buffers.
        """
        return ()

    def close(self, command_id: str) -> Sequence[Message]:
        """What asks the service to end the session. After nothing the shell closes the connection at once."""
        return ()

    @abstractmethod
    def receive(self, message: bytes) -> list[Said]:
        """What one message of the service says; never raises."""

    def due(self, now_us: int) -> list[Said]:
        """What the passing of time says, asked about every 100 ms: for deadlines of the service's own."""
        return []
