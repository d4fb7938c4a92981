"""A session beside the one that suffers: it must not miss a frame."""

from __future__ import annotations

from collections.abc import Callable

from tests.sessions import MISBEHAVING, Call, wait_for

AFTER = 25
"""Frames that must still have come after the other session's end: half a second of audio."""


class Neighbour:
    """Its channel numbers the frames that it sends, its provider tells the numbers that it hears."""

    def __init__(self, call: Callable[..., Call]) -> None:
        self.call = call(
            channel=("parlora.channels.trivial:TrivialChannel", {"send": "counter"}),
            provider=f"{MISBEHAVING}:CountingProvider",
        ).ready()

    @property
    def numbers(self) -> list[int]:
        """What the provider has heard so far."""
        return [n for event in self.call.of("extension", "provider") for n in event.payload.get("numbers", ())]

    def heard_everything(self) -> None:
        """Nothing was missing up to now, audio still flows, and nobody restarted anything."""
        before = len(self.numbers)
        wait_for("the neighbour's audio to flow on", lambda: len(self.numbers) > before + AFTER)
        heard = self.numbers
        assert heard == list(range(heard[0], heard[0] + len(heard)))
        assert not self.call.of("discontinuity")
        assert not self.call.of("failed", "session")
