"""What a receive failure can tell without telling what was said: numbers only (spec 000 §7).

The trace can show that the queue was drained late. It names no cause, for neither scheduler nor consumer is seen here.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

TRACE_ENTRIES: Final = 64
"""Last receives and reads that are kept (acceptance LM-22)."""

_MERGE_US: Final = 10_000  # receipts this close share an age: bounds the bookkeeping of tiny packets


class ReceiveTrace:
    """Receives as they happen, and reads as the queue's level betrays them."""

    def __init__(self) -> None:
        self._entries: deque[tuple[int, str, int, int]] = deque(maxlen=TRACE_ENTRIES)
        self._admitted = 0
        self._read = 0
        self._receipts: deque[tuple[int, int]] = deque()  # total bytes admitted by then, when

    @property
    def drained(self) -> bool:
        """Whether anything admitted was ever read."""
        return self._read > 0

    def saw(self, queued_bytes: int, now_us: int) -> None:
        """The queue's level: what is missing from it has been read, or cleared, by now."""
        read = max(0, self._admitted - queued_bytes)
        if read > self._read:
            self._entries.append((now_us, "read", read - self._read, queued_bytes))
            self._read = read
            while self._receipts and self._receipts[0][0] <= read:
                self._receipts.popleft()

    def received(self, size_bytes: int, queued_bytes: int, admitted: bool, now_us: int) -> None:
        """A packet came, and was admitted or not; `queued_bytes` is the level before it."""
        self._entries.append((now_us, "received" if admitted else "refused", size_bytes, queued_bytes))
        if admitted:
            self._admitted += size_bytes
            if self._receipts and now_us - self._receipts[-1][1] < _MERGE_US:
                self._receipts[-1] = (self._admitted, self._receipts[-1][1])
            else:
                self._receipts.append((self._admitted, now_us))

    def oldest_age_us(self, now_us: int) -> int:
        """How long the oldest byte still queued has been there; 0 for none."""
        return now_us - self._receipts[0][1] if self._receipts else 0

    def entries(self, now_us: int) -> list[dict[str, Any]]:
        """The last entries, oldest first, with times relative to `now_us`: never positive."""
        return [
            {"at_us": at_us - now_us, "what": what, "bytes": size_bytes, "queued_bytes": queued_bytes}
            for at_us, what, size_bytes, queued_bytes in self._entries
        ]
