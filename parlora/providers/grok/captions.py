"""What the caller said, item by item: candidates replace each other, and one entry comes of each committed item.

The service sends the whole text of an item again and again, may correct it, and calls it completed more than once; also
before the item is committed, which is when its audio is. So the entry is told on the first completion after the commit.
Where none comes, it is the newest candidate after a short while.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from parlora.events import EventType
from parlora.providers.cloud.said import Observation

SETTLE_US: Final = 1_000_000
"""How long after its commit an item waits for a completion, if it has a candidate."""

MAX_ITEMS: Final = 256
"""Items that are remembered, so that none is told twice; the oldest told ones are forgotten first."""


@dataclass(slots=True)
class _Item:
    text: str = ""
    start_ms: float | None = None
    end_ms: float | None = None
    committed: bool = False
    told: bool = False
    settles_us: int | None = None


class CallerCaptions:
    """Of one connection. Each method returns the entry that is due by it, if one is."""

    def __init__(self) -> None:
        self._items: dict[str, _Item] = {}

    def started(self, item_id: str, start_ms: float | None) -> None:
        """Speech began; the service says so more than once, and the first time counts."""
        item = self._item(item_id)
        item.start_ms = start_ms if item.start_ms is None else item.start_ms

    def stopped(self, item_id: str, end_ms: float | None) -> None:
        """Speech ended."""
        item = self._item(item_id)
        item.end_ms = item.end_ms if end_ms is None else end_ms

    def candidate(self, item_id: str, text: str, *, completed: bool) -> list[Observation]:
        """The item's text so far, whole."""
        item = self._item(item_id)
        if item.told:
            return []
        item.text = text or item.text
        return self._tell(item) if completed and item.committed else []

    def committed(self, item_id: str) -> None:
        """The item's audio is complete."""
        self._item(item_id).committed = True

    def flush(self) -> list[Observation]:
        """Everything committed that has a text: what follows builds on it."""
        waiting = [item for item in self._items.values() if item.committed and not item.told]
        return [entry for item in waiting for entry in self._tell(item)]

    def due(self, now_us: int) -> list[Observation]:
        """Committed items that were not completed in time."""
        said: list[Observation] = []
        for item in self._items.values():
            if not item.committed or item.told or not item.text:
                continue
            if item.settles_us is None:
                item.settles_us = now_us + SETTLE_US
            elif now_us >= item.settles_us:
                said += self._tell(item)
        return said

    def _tell(self, item: _Item) -> list[Observation]:
        if not item.text:
            return []
        item.told = True
        payload: dict[str, Any] = {"speaker": "user", "delta": item.text}
        payload.update(start_ms=item.start_ms, end_ms=item.end_ms)
        item.text = ""
        return [Observation(EventType.TRANSCRIPT_DELTA, payload)]

    def _item(self, item_id: str) -> _Item:
        item = self._items.get(item_id)
        if item is None:
            if len(self._items) >= MAX_ITEMS:
                told = next((id for id, known in self._items.items() if known.told), next(iter(self._items)))
                del self._items[told]
            item = self._items[item_id] = _Item()
        return item
