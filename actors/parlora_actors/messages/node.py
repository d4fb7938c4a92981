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


# node supervisor -> gateway
@dataclass(frozen=True, slots=True)
class Admitted:
    """The session's processes run and its socket listens at `path`."""

    id: str
    session_id: str
    path: str


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


TO_NODE = MessageSet(1, Admit)
FROM_NODE = MessageSet(1, Admitted, Refused, Ended)
