"""What a process tells of a ring that it sees: sums of what moved, ten times a second, if anybody listens.

The application's handler is imported and called on a thread of its own: a slow one delays neither audio nor commands.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Final

from parlora import telemetry
from parlora.audio.pump import Pump
from parlora.audio.ring import Ring
from parlora.component import Component
from parlora_actors.loop import Loop
from parlora_actors.timing import now_us

TICK_US: Final = 100_000
"""Five frames of 20 ms: often enough to place a pause, seldom enough to cost nothing."""


class Listener:
    """The function that the session's `telemetry` option names, attached to every event of this process.

    What is measured before it has been imported waits for it. One that cannot be imported is as if there were none:
    telemetry ends no call.
    """

    def __init__(self, component: Component) -> None:
        self._component = component
        self._loading = threading.Lock()
        self._function: telemetry.Handler | None = None
        self._missing = False
        for event in telemetry.EVENTS:
            telemetry.attach(event, self._handle)

    def _handle(self, event: str, measurements: Mapping[str, int], metadata: Mapping[str, Any]) -> None:
        with self._loading:
            if self._function is None and not self._missing:
                self._missing = True
                self._function = self._component.load("telemetry")
        if self._function is not None:
            self._function(event, measurements, metadata)


def listen(component: Component | None) -> None:
    """Attach the application's handler, if it named one."""
    if component is not None:
        Listener(component)


def tell_reads(loop: Loop, ring: Ring, event: str, identity: Mapping[str, Any]) -> None:
    """From now on: how much its consumer took from `ring`."""

    def look(before: int) -> None:
        stats = ring.stats()
        taken = stats.bytes_out - before
        if taken > 0:
            measured = {"at_us": now_us(), "bytes": taken, "queue_bytes": stats.queued.bytes}
            telemetry.emit(event, measured, dict(identity))
        loop.after(TICK_US, lambda: look(stats.bytes_out))

    if telemetry.is_active():
        look(ring.stats().bytes_out)


def tell_ticks(loop: Loop, pump: Pump, sink: Ring, identity: Mapping[str, Any]) -> None:
    """From now on: what a pipeline moved."""

    def look(frames: int, bytes: int) -> None:
        health = pump.health()
        if health.finished:
            return
        if health.frames > frames:
            measured = {
                "at_us": now_us(),
                "frames": health.frames - frames,
                "bytes": health.bytes - bytes,
                "late_max_us": health.late_max_us,
                "queue_bytes": sink.stats().queued.bytes,
            }
            telemetry.emit(telemetry.PIPELINE_TICK, measured, {**identity, "epoch": health.epoch})
        loop.after(TICK_US, lambda: look(health.frames, health.bytes))

    if telemetry.is_active():
        look(0, 0)
