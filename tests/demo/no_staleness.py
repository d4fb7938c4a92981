"""Imported in a node, this switches the staleness check off: every result passes for a current one."""

from __future__ import annotations

from typing import Any

from parlora.session import staleness


def _everything_is_current(*_: Any) -> bool:
    return True


staleness.is_current = _everything_is_current
