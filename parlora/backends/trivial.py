"""The smallest correct backend: every request is done at once.

For tests and benchmarks: `("parlora.backends.trivial:TrivialBackend", {"summary": "done"})`.
"""

from __future__ import annotations

from parlora.contract.adapter import AdapterInit, ClosePolicy, EventSink
from parlora.contract.backend import Backend, BackendCapabilities, BackendRequest, BackendResult, ResultStatus
from parlora.contract.commands import CommandLog
from parlora.errors import Closed
from parlora.events import EventType
from parlora.wire import to_data


class TrivialBackend(Backend):
    """Completes each request with `summary` (None: nothing to say) and the request's input as facts."""

    def __init__(self, summary: str | None = "done") -> None:
        self._summary = summary
        self._closing = False

    def start(self, init: AdapterInit) -> None:
        """Be ready."""
        self._sink: EventSink = init.event_sink
        self._commands = CommandLog(init.limits.max_records)
        self._sink.emit(EventType.READY, {"capabilities": to_data(BackendCapabilities())})

    def submit(self, request: BackendRequest, command_id: str) -> None:
        """Complete the request."""
        if self._closing:
            raise Closed("the backend is closing")
        if not self._commands.admit(command_id, "submit", request):
            return
        self._commands.settle(command_id)
        result = BackendResult(
            request.id,
            request.task_id,
            request.task_revision,
            ResultStatus.COMPLETED,
            facts=dict(request.input),
            summary=self._summary,
        )
        self._sink.emit(EventType.REQUEST_STARTED, {"task_revision": request.task_revision}, request_id=request.id)
        self._sink.emit(EventType.REQUEST_COMPLETED, {"result": to_data(result)}, request_id=request.id)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Be gone; there is never anything left to do."""
        if not self._closing:
            self._closing = True
            self._sink.emit(EventType.CLOSED, {"uncertain_requests": []}, command_id=command_id)
