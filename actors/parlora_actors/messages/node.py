"""Gateway and node supervisor: the gateway talks to hosts, the node supervisor decides and starts.

The link is a socket pair that each incarnation of the gateway inherits. `SessionSupervisor` and node supervisor have
their supervision link; what they note there is in `parlora_actors.node_supervisor`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.wire import MessageSet


# gateway -> node supervisor
@dataclass(frozen=True, slots=True)
class Admit:
    """Start a session; `spec` is a `SessionSpec` as plain data. `id` comes back in `Admitted` or `Refused`."""

    id: str
    spec: dict[str, Any] = field(repr=False)
    hold_for_sink: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """Admit nothing more; stop the node when no session is left, or at `drain_until_us`. `Ending` follows."""

    id: str
    drain_until_us: int
    deadline_us: int


# node supervisor -> gateway
@dataclass(frozen=True, slots=True)
class Admitted:
    """The session's processes run and its socket listens at `path`.

    about: what a host needs to know of a session that another has started: `started_us`, `deadline_us`, `limits`.
    """

    id: str
    session_id: str
    path: str
    about: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Refused:
    """The session was not started, and nothing of it is left; the error is `{code, message, details}`."""

    id: str
    error: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing of an admitted session is alive any more. `closed` is the payload of its `closed` event."""

    session_id: str
    closed: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """The node admits nothing more and will stop; `sessions` run."""

    id: str
    sessions: int


TO_NODE = MessageSet(1, Admit, End)
FROM_NODE = MessageSet(1, Admitted, Refused, Ended, Ending)
