"""Adapters that tell what nobody knows, and one whose errors hold what must not leave its process."""

from typing import Any

from parlora.channels.trivial import TrivialChannel
from parlora.errors import AdapterFailed
from parlora.providers.trivial import TrivialProvider
from parlora.testing.script import delegate, emit, say


class Martian(TrivialProvider):
    """Unknown events, and known ones with fields that nobody asked for."""

    def __init__(self) -> None:
        caption = {**say("Check order one two four.")["payload"], "mood": "green", "tentacles": [7, {"left": None}]}
        call = {**delegate("d1")["payload"], "planet": "mars"}
        unknown = emit("martian", {"greeting": "take me to your leader"})
        steps = [("martian", unknown["payload"]), ("transcript_delta", caption), ("delegation_requested", call)]
        steps += [("usage_updated", {"seconds": 1, "final": False, "ether": 3})]
        super().__init__(script=[{"at_ms": 50, "emit": type, "payload": payload} for type, payload in steps])


class HangsUp(TrivialChannel):
    """A caller who leaves after a second and a half."""

    def __init__(self) -> None:
        super().__init__()
        self._ticks = 0

    def _tick(self) -> bool:
        self._ticks += 1
        if self._ticks == 75:
            self._sink.emit("disconnected", {"reason": "hung_up", "shadow": "long"})
        return super()._tick()


class Leaky(TrivialChannel):
    """Its errors hold an object of its library, and audio."""

    def control(self, command: Any, command_id: str) -> None:
        raise AdapterFailed("the device refuses", details={"device": object(), "frame": b"\1\2\3", "number": 3})
