"""Coordinator and adapter owner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.events import Event
from parlora.session.effects import Call
from parlora.wire import MessageSet


# coordinator -> owner
@dataclass(frozen=True, slots=True)
class Start:
    """Build the component and start the adapter; the outcome is its own `ready` or `failed` event."""

    adapter_id: str
    generation: int
    deadline_us: int


@dataclass(frozen=True, slots=True)
class Invoke:
    """Call one callback; `Replied` follows when it returned, failed or its time ran out."""

    command_id: str
    call: Call
    arguments: dict[str, Any]
    deadline_us: int


# owner -> coordinator
@dataclass(frozen=True, slots=True)
class Observed:
    """An event of the adapter's (or, for a failing start, of the owner's on its behalf)."""

    event: Event


@dataclass(frozen=True, slots=True)
class Replied:
    """The admission of one command: `error` None is ok, else `{code, message, details}`."""

    command_id: str
    error: dict[str, Any] | None = field(default=None)


TO_OWNER = MessageSet(1, Start, Invoke)
FROM_OWNER = MessageSet(1, Observed, Replied)
