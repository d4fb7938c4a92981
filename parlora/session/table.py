"""A small immutable mapping: what changes is a new table, the old one stays as it was.

A change copies the whole dict. With the default limits that is about a microsecond, less than any tree in Python.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Generic, TypeVar, cast

V = TypeVar("V")


class Table(Generic[V]):
    """Strings to values, in the order of their first `put`."""

    __slots__ = ("_items",)

    def __init__(self, items: dict[str, V] | None = None) -> None:
        self._items: dict[str, V] = items if items is not None else {}

    def put(self, key: str, value: V) -> Table[V]:
        """A table with `key` set; a known key keeps its place."""
        items = self._items.copy()
        items[key] = value
        return Table(items)

    def drop(self, key: str) -> Table[V]:
        """A table without `key`; the same table if it is not there."""
        if key not in self._items:
            return self
        items = self._items.copy()
        del items[key]
        return Table(items)

    def get(self, key: str | None) -> V | None:
        """The value, or None; None as key finds nothing."""
        return self._items.get(cast(str, key))

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def keys(self) -> KeysView[str]:
        """The keys, oldest first."""
        return self._items.keys()

    def values(self) -> ValuesView[V]:
        """The values, oldest first."""
        return self._items.values()

    def items(self) -> ItemsView[str, V]:
        """Keys and values, oldest first."""
        return self._items.items()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and other._items == self._items

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Table({self._items!r})"
