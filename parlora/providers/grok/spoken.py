"""What was generated since the last interruption, by response and item: what an interruption must drop and cut."""

from __future__ import annotations

from typing import Final

from parlora.audio.format import AudioFormat

MAX_ITEMS: Final = 64
"""Items whose length is remembered: more than a store of 20 s can hold of speech."""

MAX_RESPONSES: Final = 256
"""Interrupted responses, and captioned items, that are remembered."""


class Spoken:
    """Of one connection; lengths are of the session's format."""

    def __init__(self, format: AudioFormat) -> None:
        self._format = format
        self._items: dict[tuple[str, int], tuple[str, int]] = {}  # item and part -> response, bytes
        self._cut: dict[tuple[str, int], tuple[str, int]] = {}
        self._cut_active: str | None = None
        self._interrupted: dict[str, None] = {}
        self._worded: dict[str, None] = {}

    def said(self, response_id: str, item_id: str, content_index: int, size_bytes: int) -> None:
        """Audio was generated."""
        key = (item_id, content_index)
        before = self._items.get(key, (response_id, 0))[1]
        self._items[key] = (response_id, before + size_bytes)
        if len(self._items) > MAX_ITEMS:
            del self._items[next(iter(self._items))]

    def worded(self, item_id: str) -> bool:
        """A caption came for an item; whether it is the first."""
        return _remember(self._worded, item_id)

    def is_interrupted(self, response_id: str) -> bool:
        """Whether nothing of a response may be heard or read any more."""
        return response_id in self._interrupted

    def interrupt(self, active: str | None) -> bool:
        """The caller speaks: whether there is anything to interrupt. `active`: the response being generated."""
        going_on = active if active is not None and active not in self._interrupted else None
        if going_on is None and not self._items:
            return False
        for response_id in [response_id for response_id, _ in self._items.values()]:
            _remember(self._interrupted, response_id)
        if going_on is not None:
            _remember(self._interrupted, going_on)
        self._cut, self._items, self._cut_active = self._items, {}, going_on
        return True

    def cut(self, unheard_us: int) -> list[tuple[str, int, int]]:
        """Item, part and the milliseconds heard, of each item that was not heard to its end, oldest first."""
        cut: list[tuple[str, int, int]] = []
        for (item_id, index), (response_id, size_bytes) in reversed(self._cut.items()):
            length_us = self._format.duration_us(size_bytes)
            if unheard_us <= 0 and response_id != self._cut_active:
                break
            cut.append((item_id, index, max(0, length_us - unheard_us) // 1_000))
            unheard_us = max(0, unheard_us - length_us)
        self._cut = {}
        return cut[::-1]


def _remember(ids: dict[str, None], id: str) -> bool:
    if id in ids:
        return False
    ids[id] = None
    if len(ids) > MAX_RESPONSES:
        del ids[next(iter(ids))]
    return True
