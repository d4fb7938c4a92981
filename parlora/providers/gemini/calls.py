"""What a call of Gemini keeps from one connection to the next: its resumption handle, function calls and usage."""

from __future__ import annotations

from typing import Any, Final

from parlora.providers.gemini.reading import count

MAX_CALLS: Final = 1_024
"""Function calls that are remembered; the oldest answered ones are forgotten first."""

_COUNTS: Final = {
    "promptTokenCount": "input_tokens",
    "responseTokenCount": "output_tokens",
    "totalTokenCount": "total_tokens",
}


class Ledger:
    """For one call, over all its connections. Not thread-safe: the shell's lock guards it."""

    def __init__(self) -> None:
        self.handle: str | None = None
        """Of the session as it can be resumed; None as long as the service gave none."""
        self.instructions: list[str] = []
        """Appended ones, where they go out as a new system instruction."""
        self._open: dict[str, str] = {}
        self._over: dict[str, None] = {}
        self._usage = dict.fromkeys(_COUNTS.values(), 0)

    def opened(self, call_id: str, name: str) -> bool:
        """A function call came; False if it is known already, or if too many are open."""
        if call_id in self._open or call_id in self._over or len(self._open) >= MAX_CALLS:
            return False
        self._open[call_id] = name
        return True

    def name_of(self, call_id: str) -> str | None:
        """The function of an open call, or None."""
        return self._open.get(call_id)

    def knows(self, call_id: str) -> bool:
        """Whether a call ever came, as far as is remembered."""
        return call_id in self._open or call_id in self._over

    def ended(self, call_id: str) -> bool:
        """A call was answered or taken back; False if it was not open."""
        if self._open.pop(call_id, None) is None:
            return False
        self._over[call_id] = None
        if len(self._over) > MAX_CALLS:
            del self._over[next(iter(self._over))]
        return True

    def used(self, metadata: dict[str, Any], *, summed: bool) -> dict[str, Any]:
        """Usage so far with a message's counts: added, or the larger if the service counts up by itself."""
        for theirs, ours in _COUNTS.items():
            value = count(metadata.get(theirs))
            if value is not None:
                self._usage[ours] = self._usage[ours] + value if summed else max(self._usage[ours], value)
        return {**self._usage, "unit": "tokens", "final": False}
