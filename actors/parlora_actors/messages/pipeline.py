"""Coordinator and audio pipeline. Frames never travel here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parlora.audio.port import Loss
from parlora.contract.channel import OutputPacing
from parlora.wire import MessageSet


# coordinator -> pipeline
@dataclass(frozen=True, slots=True)
class Drain:
    """Input only: drop what piled up, then hold. `Drained` follows."""


@dataclass(frozen=True, slots=True)
class Open:
    """Forward. The input pipeline ignores `pacing`: it always keeps media rate."""

    pacing: OutputPacing


@dataclass(frozen=True, slots=True)
class Control:
    """Adopt an epoch, or switch suppression. `Done` follows."""

    command_id: str
    epoch: int | None = None
    suppress: bool | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """End the loop and leave."""


# pipeline -> coordinator
@dataclass(frozen=True, slots=True)
class Drained:
    """What the startup drain dropped."""

    loss: Loss


@dataclass(frozen=True, slots=True)
class Done:
    """A control was carried out; the epoch now in use and what was dropped."""

    command_id: str
    epoch: int
    loss: Loss
    error: dict[str, Any] | None = field(default=None)


@dataclass(frozen=True, slots=True)
class Lost:
    """Audio was discarded for another reason than a control."""

    stream: str
    cause: str
    loss: Loss


@dataclass(frozen=True, slots=True)
class Stalled:
    """Destination backpressure lasted beyond its deadline; the loop has ended."""

    epoch: int
    blocked_us: int


@dataclass(frozen=True, slots=True)
class Pressed:
    """A channel with a clock of its own takes nothing, while at least `threshold_bytes` of generated audio wait.

    queued_bytes and capacity_bytes: the provider's store. pending_bytes: what the pipeline itself retains.
    """

    epoch: int
    queued_bytes: int
    capacity_bytes: int
    pending_bytes: int
    threshold_bytes: int


TO_PIPELINE = MessageSet(1, Drain, Open, Control, Stop)
FROM_PIPELINE = MessageSet(1, Drained, Done, Lost, Stalled, Pressed)
