"""Host library and node: the gateway's socket (node.sock) and a session's own socket.

The first message on every connection, both ways, is `Hello`. A different major protocol number is refused with
`unsupported` naming both. Every request carries a correlation id, and its `Answer` carries it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from parlora.events import Event
from parlora.session.spec import SessionSpec
from parlora.wire import MessageSet

PROTOCOL_MAJOR: Final = 1
PROTOCOL_MINOR: Final = 0


@dataclass(frozen=True, slots=True)
class Hello:
    """Who speaks which protocol."""

    major: int
    minor: int
    package: str


# host -> gateway
@dataclass(frozen=True, slots=True)
class StartSession:
    """Start a session; the answer's value is `{"session_id", "path"}`, long before readiness."""

    id: str
    spec: SessionSpec
    hold_for_sink: bool = False


@dataclass(frozen=True, slots=True)
class ListSessions:
    """The answer's value is a list of `{"session_id", "path", "state", "started_us", "deadline_us", "limits"}`."""

    id: str


@dataclass(frozen=True, slots=True)
class EndNode:
    """Admit no session any more, and stop the node when the last one is gone, or at `drain_until_us` whatever runs.

    What runs then is closed in order; everything is gone by `deadline_us`. Again with nearer times hurries. The answer
    comes at once; its value is `{"sessions"}`, how many run.
    """

    id: str
    drain_until_us: int
    deadline_us: int


# host -> session
@dataclass(frozen=True, slots=True)
class CallSession:
    """One call of the session API; see `parlora.session.inputs.Called` for the operations."""

    id: str
    operation: str
    arguments: dict[str, Any] = field(default_factory=dict)


# both -> host
@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request: a value, or an error `{code, message, details}`."""

    id: str
    value: Any = None
    error: dict[str, Any] | None = None


# session -> host
@dataclass(frozen=True, slots=True)
class EventSent:
    """One event for one subscription of this connection; None is the lifecycle every connection gets."""

    event: Event
    subscription_id: str | None = None


@dataclass(frozen=True, slots=True)
class Unsubscribed:
    """A subscription was ended by the session; `reason` is e.g. slow_consumer."""

    session_id: str
    subscription_id: str
    reason: str


# gateway -> host
@dataclass(frozen=True, slots=True)
class SessionGone:
    """Nothing of the session is alive any more.

    `closed` is the payload of its `closed` event, made by the supervisor if the coordinator died before it.
    """

    session_id: str
    closed: dict[str, Any]


TO_GATEWAY = MessageSet(1, Hello, StartSession, ListSessions, EndNode)
FROM_GATEWAY = MessageSet(1, Hello, Answer, SessionGone)
TO_SESSION = MessageSet(1, Hello, CallSession)
FROM_SESSION = MessageSet(1, Hello, Answer, EventSent, Unsubscribed)
