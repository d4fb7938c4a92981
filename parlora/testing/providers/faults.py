"""How a fake service can misbehave."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What goes wrong."""

    REFUSED = "refused"
    """The upgrade is answered with HTTP status `code`."""
    SLOW_START = "slow_start"
    """Startup is confirmed `at_ms` late."""
    SILENT = "silent"
    """Nothing more is sent, pings are not answered; what comes is still read."""
    DEAF = "deaf"
    """Nothing more is read."""
    HALF_FRAME = "half_frame"
    """Half of a frame, and then nothing."""
    WRONG_ORDER = "wrong_order"
    """Audio, captions and a delegation before startup is confirmed."""
    UNKNOWN_EVENT = "unknown_event"
    """A message of a type that nobody documents, and one that is no JSON."""
    ODD_PCM = "odd_pcm"
    """An audio packet that ends within a sample."""
    HUGE_MESSAGE = "huge_message"
    """A message of 32 MiB."""
    ERROR = "error"
    """An error that names no command, with `text` as its code."""
    CLOSE_CODE = "close_code"
    """A close frame with `code`, and nothing before it."""
    NO_CLOSE_FRAME = "no_close_frame"
    """The connection just ends."""
    RESET = "reset"
    """The connection is reset."""
    FLOOD = "flood"
    """30 s of audio at once."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One misbehaviour.

    at_ms: on the session's timeline, or after the connection was made where there is no session yet. connections: which
    connections have it, counted from 1; empty for all. code and text: see the kinds.
    """

    kind: FaultKind
    at_ms: int = 0
    connections: tuple[int, ...] = ()
    code: int = 1011
    text: str = "server_error"

    def hits(self, connection: int) -> bool:
        """Whether this connection has the fault."""
        return not self.connections or connection in self.connections
