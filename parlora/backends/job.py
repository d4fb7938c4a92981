"""What a running function holds of its request: progress, questions, the cancelled flag, updates."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from parlora.contract.backend import BackendRequest, BackendResult, ResultStatus
from parlora.errors import Backpressure, Closed, InvalidArgument
from parlora.events import EventType
from parlora.limits import RESULT_BYTES
from parlora.wire import packed_size

MAX_PENDING_UPDATES: Final = 16
"""Updates one job holds untaken; a function that takes none should not declare updates."""


class Cancelled(Exception):
    """Raised by a function to say: I was asked to stop and I did. Nothing but this or a cancelled result says so."""


@dataclass(frozen=True, slots=True)
class Update:
    """One change to a running request, waiting to be taken."""

    command_id: str
    task_revision: int
    change: dict[str, Any]


Report = Callable[[str, dict[str, Any], str | None], None]
"""Emits one event of this job's request: type, payload, command id."""


class Job:
    """The second argument of a function run by `Functions`; every method may be called from any thread.

    request: what is to be done. options: what the application gave in the backend's `options`.
    """

    def __init__(self, request: BackendRequest, options: Mapping[str, Any], report: Report) -> None:
        self.request = request
        self.options = options
        self._report = report
        self._changed = threading.Condition(threading.RLock())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loop_changed = asyncio.Event()
        self._cancelled = False
        self._ended = False
        self._revision = request.task_revision
        self._updates: list[Update] = []

    @property
    def deadline_at_us(self) -> int | None:
        """When the request's time is over, local monotonic; the outcome is uncertain from then on."""
        return self.request.deadline_at_us

    @property
    def task_revision(self) -> int:
        """The request's revision, or that of the last update taken."""
        return self._revision

    @property
    def cancelled(self) -> bool:
        """Whether a stop was asked for. It is advice: nothing stops the function but itself."""
        return self._cancelled

    def check(self) -> None:
        """Raise `Cancelled` if a stop was asked for."""
        if self._cancelled:
            raise Cancelled

    def progress(self, summary: str | None = None, facts: Mapping[str, Any] | None = None) -> None:
        """Tell how far the work has come: verified facts, a sentence, or both; at most 65,536 bytes as msgpack."""
        if summary is None and not facts:
            raise InvalidArgument("progress needs a summary or facts", field="summary")
        payload: dict[str, Any] = {"facts": dict(facts or {}), "summary": _text(summary, "summary")}
        self._tell(EventType.REQUEST_PROGRESS, payload)

    def ask(self, question: str) -> None:
        """Ask the application for missing information; an answer comes as an update or as another request."""
        if not _text(question, "question"):
            raise InvalidArgument("question must not be empty", field="question")
        self._tell(EventType.REQUEST_CLARIFICATION, {"question": question})

    def result(
        self,
        summary: str | None = None,
        facts: Mapping[str, Any] | None = None,
        status: str = ResultStatus.COMPLETED,
        metadata: Mapping[str, Any] | None = None,
    ) -> BackendResult:
        """A result of this request, for functions that say more than a summary or facts."""
        return BackendResult(
            self.request.id,
            self.request.task_id,
            self._revision,
            ResultStatus(status),
            dict(facts or {}),
            summary,
            dict(metadata or {}),
        )

    def updates(self) -> list[dict[str, Any]]:
        """The changes that came since the last call, oldest first; taking them is what applies them."""
        with self._changed:
            taken, self._updates = self._updates, []
            for update in taken:
                self._revision = update.task_revision
                outcome = {"task_revision": update.task_revision, "outcome": "taken", "error": None}
                self._report(EventType.UPDATE_APPLIED, outcome, update.command_id)
        return [update.change for update in taken]

    def wait(self, timeout_ms: float) -> bool:
        """Block until a stop is asked for or an update waits (True) or the time is over (False)."""
        with self._changed:
            return self._changed.wait_for(self._has_news, timeout_ms / 1_000)

    async def wait_async(self, timeout_ms: float) -> bool:
        """`wait` for `async def` functions."""
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while not self._has_news():
                    self._loop_changed.clear()
                    if not self._has_news():
                        await self._loop_changed.wait()
        except TimeoutError:
            pass
        return self._has_news()

    def _has_news(self) -> bool:
        return self._cancelled or bool(self._updates)

    def _tell(self, type: str, payload: dict[str, Any]) -> None:
        size = packed_size(payload)
        if size > RESULT_BYTES:
            raise InvalidArgument(f"{type} of {size} bytes exceeds {RESULT_BYTES}", field="facts")
        with self._changed:
            if self._ended:
                raise Closed("this job has ended")
            self._report(type, {"task_revision": self._revision, **payload}, None)

    # What follows is the backend's side.

    def flag_cancelled(self) -> None:
        """Set the flag and wake the function if it waits."""
        with self._changed:
            self._cancelled = True
            self._notify()

    def offer(self, update: Update) -> None:
        """Hand an update over; raises `Backpressure` if too many wait already."""
        with self._changed:
            if len(self._updates) >= MAX_PENDING_UPDATES:
                raise Backpressure("too many updates wait for this job", details={"most": MAX_PENDING_UPDATES})
            self._updates.append(update)
            self._notify()

    def end(self) -> None:
        """The function has returned: nothing more is told about it, and updates it never took are rejected."""
        with self._changed:
            if self._ended:
                return
            self._ended = True
            left, self._updates = self._updates, []
            for update in left:
                error = {"code": "closed", "message": "the job ended first", "details": {}}
                outcome = {"task_revision": update.task_revision, "outcome": "rejected", "error": error}
                self._report(EventType.UPDATE_REJECTED, outcome, update.command_id)

    def _notify(self) -> None:
        self._changed.notify_all()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop_changed.set)


def _text(value: str | None, field: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InvalidArgument(f"{field} must be text", field=field)
    return value
