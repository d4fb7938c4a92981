"""Time that moves only when a test says so."""

from __future__ import annotations

import heapq

START_US = -5_000_000
"""Where virtual time begins: below zero on purpose, since local monotonic time may be (acceptance TY-20)."""


class VirtualClock:
    """Microseconds and the timers armed on them."""

    def __init__(self, now_us: int = START_US) -> None:
        self.now_us = now_us
        self._order = 0
        self._heap: list[tuple[int, int, str]] = []
        self._due: dict[str, int] = {}

    def arm(self, timer_id: str, due_us: int) -> None:
        """Have `timer_id` come due; an id may be armed once."""
        assert timer_id not in self._due, f"timer {timer_id} is armed twice"
        self._order += 1
        self._due[timer_id] = due_us
        heapq.heappush(self._heap, (due_us, self._order, timer_id))

    def cancel(self, timer_id: str) -> None:
        """Forget a timer; one that has come due already is fine."""
        self._due.pop(timer_id, None)

    @property
    def armed(self) -> dict[str, int]:
        """Armed timers and when they come due."""
        return dict(self._due)

    def next_due(self) -> int | None:
        """When the next timer comes due, or None."""
        while self._heap and self._heap[0][2] not in self._due:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, until_us: int) -> str | None:
        """The next timer due by `until_us`, with the clock moved to it; None moves the clock to `until_us`."""
        due_us = self.next_due()
        if due_us is None or due_us > until_us:
            self.now_us = max(self.now_us, until_us)
            return None
        timer_id = heapq.heappop(self._heap)[2]
        del self._due[timer_id]
        self.now_us = max(self.now_us, due_us)
        return timer_id
