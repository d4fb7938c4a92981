"""What a call tells the session: events without audio and credentials, and every loss once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.audio.ring_types import now_us
from parlora.contract.adapter import EventSink
from parlora.contract.provider import ProviderCapabilities
from parlora.errors import ParloraError
from parlora.events import EventType
from parlora.providers.cloud.output import Output, Overload
from parlora.wire import to_data

_OVERLOAD_PAUSE_US: Final = 100_000  # a burst that does not fit is one event with its numbers, not one a packet


class Telling:
    """Over an event sink. `gone` is called when the session takes no more events: it has ended, or ends by that."""

    def __init__(self, events: EventSink, gone: Callable[[], None]) -> None:
        self._events, self._gone = events, gone
        self._overload_us = 0

    def emit(self, type: str, payload: Mapping[str, Any], command_id: str | None = None) -> None:
        """One event."""
        try:
            self._events.emit(type, payload, command_id=command_id)
        except ParloraError:
            self._gone()

    def ready(self, capabilities: ProviderCapabilities, format: AudioFormat, configuration: Mapping[str, Any]) -> None:
        """The service confirmed startup."""
        ready = {"capabilities": to_data(capabilities), "audio_format": format.to_data()}
        self.emit(EventType.READY, {**ready, "configuration": dict(configuration)})

    def muted(self, on: bool, command_id: str) -> None:
        """The input is muted here; the service has no part in it."""
        payload = {"control": "mute_input", "on": on, "scope": "local", "error": None}
        self.emit(EventType.CONTROL_COMPLETED, payload, command_id)

    def submitted(self, command_id: str) -> Callable[[], None]:
        """To be called once an append that the service never acknowledges was written to the socket."""
        return lambda: self.emit(EventType.CONTEXT_SUBMITTED, {"evidence": "socket_write"}, command_id)

    def refused(self, operation: str, command_id: str, error: ParloraError) -> None:
        """A command that was admitted could not be sent after all."""
        type = EventType.CONTEXT_REJECTED if operation == "append_context" else EventType.CONTROL_FAILED
        self.emit(type, {"error": error.to_data()}, command_id)

    def losses(self, stream: str, losses: Iterable[tuple[str, Loss]]) -> None:
        """Audio that was dropped, by cause."""
        for cause, loss in losses:
            if loss:
                self.emit(EventType.AUDIO_DISCONTINUITY, _payload(stream, cause, loss))

    def overload(self, overload: Overload, output: Output) -> None:
        """A packet that did not fit, with its numbers; those that follow at once are told together a little later."""
        now = now_us()
        if now - self._overload_us < _OVERLOAD_PAUSE_US:
            output.count("provider_overload", overload.loss)
            return
        self._overload_us = now
        payload = _payload("generated", "provider_overload", overload.loss)
        self.emit(EventType.AUDIO_DISCONTINUITY, {**payload, "diagnostics": overload.diagnostics})


def _payload(stream: str, cause: str, loss: Loss) -> dict[str, Any]:
    return {
        "stream": stream,
        "cause": cause,
        "dropped_frames": loss.frames,
        "dropped_bytes": loss.bytes,
        "dropped_duration_us": loss.duration_us,
    }
