"""A provider with the required callbacks and not one of the optional ones."""

from typing import Any

from parlora.contract.adapter import Adapter, AdapterInit, ClosePolicy
from parlora.contract.provider import ContextUpdate, ProviderCapabilities, ProviderCommand
from parlora.wire import to_data


class Minimal(Adapter):
    """Delegates at once, and is interrupted as soon as it is told something."""

    def start(self, init: AdapterInit) -> None:
        self._events = init.event_sink
        format = init.audio_format
        assert format is not None
        capabilities = ProviderCapabilities(audio_formats=(format,), context_acknowledgment=True)
        ready: dict[str, Any] = {"capabilities": to_data(capabilities), "audio_format": format.to_data()}
        self._events.emit("ready", ready)
        self._events.emit("delegation_requested", {"delegation_id": "d1", "target": "client", "offset_ms": None})

    def append_context(self, update: ContextUpdate, command_id: str) -> None:
        self._events.emit("context_acknowledged", {}, command_id=command_id)
        self._events.emit("output_interrupted", {"token": "token"})

    def control(self, command: ProviderCommand, command_id: str) -> None:
        raise NotImplementedError

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        self._events.emit("closed", {"finalization_observed": True}, command_id=command_id)
