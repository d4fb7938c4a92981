"""A lost connection on its way back: when to try again, and what waits until there is one."""

from __future__ import annotations

from parlora.audio.ring_types import now_us
from parlora.contract.provider import DelegationOutcome
from parlora.errors import Timeout
from parlora.limits import CLOUD_RESUME_MS, RECOVERY_RECONNECT_TIMEOUT_MS
from parlora.providers.cloud.connection import End, EndReason
from parlora.providers.cloud.parts import Link, Phase, Service
from parlora.providers.cloud.submission import Command


class Resumption:
    """Of one call. Not thread-safe: the shell's lock guards it. An output recovery is none and holds nothing."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._retry_us: int | None = None
        self._refusal: End | None = None
        self._commands: list[Command] = []  # bounded by the log of commands that admits them
        self._outcomes: dict[str, DelegationOutcome] = {}  # bounded by the session's pending delegations

    @property
    def pending(self) -> list[str]:
        """Ids of the commands that wait."""
        return [command.id for command in self._commands]

    @staticmethod
    def deadline_us(token: str | None) -> int:
        """By when a replacement must have started; `token` is that of an output recovery, else None."""
        return now_us() + (CLOUD_RESUME_MS if token is None else RECOVERY_RECONNECT_TIMEOUT_MS) * 1_000

    @staticmethod
    def holds(phase: Phase, link: Link | None) -> bool:
        """Whether what comes now waits for the connection."""
        return phase is Phase.RECONNECTING and link is not None and link.token is None

    def expired(self, phase: Phase, link: Link | None) -> Timeout:
        """What the deadline of a replacement says when it has passed."""
        if not self.holds(phase, link):
            return Timeout("the output was not recovered in time")
        why = f": {self._refusal.detail}" if self._refusal is not None else ""
        return Timeout(f"the connection was not resumed in time{why}")

    def cause(self, end: End) -> End:
        """Why resuming failed, which the end of an attempt that ran out of time does not tell."""
        return self._refusal or end if end.reason is EndReason.TIMEOUT else end

    def hold(self, command: Command) -> None:
        """Keep a command."""
        self._commands.append(command)

    def hold_outcome(self, delegation_id: str, outcome: DelegationOutcome) -> None:
        """Keep how a delegation ended."""
        self._outcomes[delegation_id] = outcome

    def take(self) -> tuple[list[Command], list[tuple[str, DelegationOutcome]]]:
        """Everything that waited; there is a connection again."""
        taken = self._commands, list(self._outcomes.items())
        self._commands, self._outcomes, self._retry_us, self._refusal = [], {}, None, None
        return taken

    def again(self, link: Link, end: End, deadline_us: int | None) -> bool:
        """An attempt has ended like this: whether another one follows, for which there must be time."""
        pause_ms = self._service.resume_pause_ms
        if link.token is not None or pause_ms is None or deadline_us is None or not self._service.is_resumable(end):
            return False
        self._refusal = self.cause(end)
        self._retry_us = now_us() + pause_ms * 1_000
        return self._retry_us < deadline_us

    def is_due(self, now: int) -> bool:
        """Whether to try again now; true once."""
        if self._retry_us is None or now < self._retry_us:
            return False
        self._retry_us = None
        return True
