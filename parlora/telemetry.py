"""Measurements of the audio path, for whoever attaches a handler in the process where they are made (spec 000 §14).

    telemetry.attach("parlora.provider.audio_received", handler)    # handler(event, measurements, metadata)

Nothing is exported, and nothing is kept: without a handler a measurement is not even taken. Handlers are called on one
thread of their own, in order; a slow one delays no audio and loses measurements beyond 4,096, which are counted, and
one that raises is counted and called again. No event holds audio, text or credentials.

| Event | Made by | Measurements | Metadata |
|---|---|---|---|
| `parlora.provider.audio_received` | a cloud provider, once per decoded packet, before it is cut into frames | `at_us`, `bytes`, `duration_us`, `queue_before_bytes`, `queue_bytes`, `dropped_bytes` | `session_id`, `adapter_id`, `generation`, `outcome` |
| `parlora.provider.audio_read` | the provider's owner, every 100 ms in which its audio was taken | `at_us`, `bytes`, `queue_bytes` | `session_id`, `adapter_id`, `generation` |
| `parlora.channel.playout` | the channel's owner, every 100 ms in which the channel took audio | as above | as above |
| `parlora.pipeline.tick` | each pipeline, every 100 ms in which it moved frames | `at_us`, `frames`, `bytes`, `late_max_us`, `queue_bytes` | `session_id`, `stream`, `epoch` |

Every `at_us` is CLOCK_MONOTONIC, the same in all processes of a machine. `bytes` of `audio_received` counts quiet audio
like any other: the durations add up to the source's timeline. `dropped_bytes` is what of this packet was refused;
audio that was queued and then removed is an `audio_discontinuity` event. Frames move in native code, so the last three
come as sums.
"""  # noqa: E501 - a table's row is one line

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from parlora.errors import InvalidArgument

Handler = Callable[[str, Mapping[str, int], Mapping[str, Any]], object]
"""Called with the event's name, its measurements and its metadata."""

PROVIDER_AUDIO_RECEIVED: Final = "parlora.provider.audio_received"
PROVIDER_AUDIO_READ: Final = "parlora.provider.audio_read"
CHANNEL_PLAYOUT: Final = "parlora.channel.playout"
PIPELINE_TICK: Final = "parlora.pipeline.tick"
EVENTS: Final = (PROVIDER_AUDIO_RECEIVED, PROVIDER_AUDIO_READ, CHANNEL_PLAYOUT, PIPELINE_TICK)

MAX_WAITING: Final = 4_096
"""Measurements that may wait for a slow handler: more than a minute of one session's."""


class Telemetry:
    """The handlers of one process. The module's functions use one instance; tests make their own."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._handlers: tuple[tuple[str, Handler], ...] = ()
        self._waiting: deque[tuple[str, Mapping[str, int], Mapping[str, Any]]] = deque()
        self._thread: threading.Thread | None = None
        self._busy = False
        self.lost = 0
        """Measurements that found 4,096 others waiting."""
        self.raised = 0
        """Exceptions of handlers."""

    @property
    def active(self) -> bool:
        """Whether anybody listens: measure only then."""
        return bool(self._handlers)

    def attach(self, event: str, handler: Handler) -> None:
        """Call `handler` with every such event from now on; attaching it again is a no-op."""
        if event not in EVENTS:
            raise InvalidArgument(f"event must be one of {', '.join(EVENTS)}", field="event")
        if not callable(handler):
            raise InvalidArgument("handler must be a function", field="handler")
        with self._changed:
            if (event, handler) not in self._handlers:
                self._handlers = (*self._handlers, (event, handler))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="parlora-telemetry", daemon=True)
                self._thread.start()

    def detach(self, event: str, handler: Handler) -> None:
        """Call `handler` no more; one that is not attached is fine. What waits is dropped with the last one."""
        with self._changed:
            self._handlers = tuple(pair for pair in self._handlers if pair != (event, handler))
            if not self._handlers:
                self._waiting.clear()
                self._thread = None
            self._changed.notify_all()

    def emit(self, event: str, measurements: Mapping[str, int], metadata: Mapping[str, Any]) -> None:
        """Pass one measurement on; returns at once, whatever the handlers do."""
        if not self._handlers:
            return
        with self._changed:
            if len(self._waiting) >= MAX_WAITING:
                self.lost += 1
                return
            self._waiting.append((event, measurements, metadata))
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Wait until the handlers have had everything; False if they are still busy."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout_s)

    def _run(self) -> None:
        me = threading.current_thread()
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._thread is not me)
                if self._thread is not me:
                    return
                event, measurements, metadata = self._waiting.popleft()
                self._busy = True
            for wanted, handler in self._handlers:
                if wanted == event:
                    try:
                        handler(event, measurements, metadata)
                    except Exception:  # a handler is application code, and no reason to stop
                        self.raised += 1


_process = Telemetry()
attach = _process.attach
detach = _process.detach
emit = _process.emit
flush = _process.flush


def is_active() -> bool:
    """Whether anybody listens in this process."""
    return _process.active
