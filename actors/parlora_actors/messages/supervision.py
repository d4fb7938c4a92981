"""Session supervisor and coordinator: who lives, who died, and the one deadline.

The link is a socket pair inherited by the coordinator. `LinkUp` carries one descriptor by SCM_RIGHTS: the coordinator's
end of that incarnation's socket pair; EOF on it means that incarnation is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.audio.port import Loss
from parlora.session.roles import Role
from parlora.wire import MessageSet


# supervisor -> coordinator
@dataclass(frozen=True, slots=True)
class LinkUp:
    """A process of the session was started; its link's descriptor comes with this message."""

    role: Role
    incarnation: int
    pid: int


@dataclass(frozen=True, slots=True)
class RoleDown:
    """A process of the session died. `cause`: `exit N`, `signal N`, `unresponsive`, `crash`, `start_failed`."""

    role: Role
    incarnation: int
    cause: str
    asked: bool = False
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Gone:
    """Nothing of the session is alive but supervisor and coordinator; `killed` processes had to be killed.

    lost: how much audio is still in the rings; nobody will read it.
    """

    killed: int
    left: list[str] = field(default_factory=list)
    lost: Loss = field(default_factory=Loss)


# coordinator -> supervisor
@dataclass(frozen=True, slots=True)
class Teardown:
    """Whatever happens, nothing of the session may be alive at `deadline_us`."""

    deadline_us: int
    reason: str


@dataclass(frozen=True, slots=True)
class Reap:
    """End what is left now; `force` kills at once. `Gone` follows."""

    force: bool


@dataclass(frozen=True, slots=True)
class ReplacePolicy:
    """Kill the policy worker and start another. Does not count as a failure of the worker."""

    reason: str


@dataclass(frozen=True, slots=True)
class RequestMirror:
    """A request was submitted or finished: kept for the obituary."""

    request_id: str
    finished: bool
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Closed:
    """The coordinator has emitted the terminal `closed`, whose payload this is, and will exit."""

    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Status:
    """A summary of the session's status, for the monitor; once a second."""

    status: dict[str, Any]


TO_COORDINATOR = MessageSet(1, LinkUp, RoleDown, Gone)
TO_SUPERVISOR = MessageSet(1, Teardown, Reap, ReplacePolicy, RequestMirror, Closed, Status)
