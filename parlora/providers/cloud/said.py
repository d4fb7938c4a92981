"""What a cloud codec makes of one server message: plain values, in the order they were said.

A codec never raises for what a server sends; what cannot be understood becomes `Ignored` and is counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Message = str | bytes
"""A message to the service: a text one or a binary one."""


@dataclass(frozen=True, slots=True)
class Started:
    """The service confirmed startup; `details` is its effective configuration."""

    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Audio:
    """Generated audio in the service's own format, whole samples; in no repr.

    dropped_for: the cause for which it must not be heard, and is only counted; None for audio to be heard.
    """

    data: bytes = field(repr=False)
    dropped_for: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """An event of the provider contract, ready to be emitted."""

    type: str
    payload: dict[str, Any] = field(default_factory=dict)
    command_id: str | None = None


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The caller spoke over the answer: what is queued must not be heard."""


@dataclass(frozen=True, slots=True)
class Send:
    """What must be sent in answer, in this order."""

    messages: tuple[Message, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replace:
    """The service will end this connection soon: another one should take over."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The service ended the session; `confirmed` if it finalized it as asked."""

    reason: str
    confirmed: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """An error that ends the session: startup was refused, or credit, key or account are not good."""

    code: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A message that says nothing to us; `kind` is its type if it has one."""

    kind: str | None


Said = Started | Audio | Observation | Interrupted | Send | Replace | Ended | Refused | Ignored
