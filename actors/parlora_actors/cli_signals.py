"""SIGINT and SIGTERM of a command in the foreground: the first asks for an orderly end, the second for any end.

The handlers are the command's, never the host library's. They do nothing but note what came; only while there is
nothing to close yet, and from the second signal on, do they interrupt what the main thread waits for.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Final, Self

from parlora_actors.cli_exit import ExitCode

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """Raised in the main thread by a signal that cannot wait."""


class Interrupts:
    """Catches both signals while entered."""

    def __init__(self) -> None:
        self._count = 0
        self._first: int | None = None
        self._is_orderly = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._note) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @property
    def exit_code(self) -> ExitCode | None:
        """The code that says by which signal the command ended; None if none came."""
        if self._first is None:
            return None
        return ExitCode.INTERRUPTED if self._first == signal.SIGINT else ExitCode.TERMINATED

    def close_in_order(self) -> None:
        """From now on the first signal is only noted: the main loop looks at `asked` and closes."""
        self._is_orderly = True
        if self._count >= 1:
            raise Interrupted

    @property
    def asked(self) -> bool:
        """Whether a signal came."""
        return self._count > 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._count += 1
        self._first = self._first or number
        limit = 2 if self._is_orderly else 1
        if self._count == limit:  # once only: what cleans up after it must not be interrupted again
            raise Interrupted
