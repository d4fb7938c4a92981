"""From what a function returned or raised to what is reported: pure, and the only place that judges a result."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parlora.contract.backend import BackendRequest, BackendResult, ResultStatus
from parlora.errors import AdapterFailed, ParloraError
from parlora.events import EventType
from parlora.limits import RESULT_BYTES
from parlora.wire import packed_size, to_data

Outcome = tuple[str, dict[str, Any]]
"""The type and payload of the one terminal event of a request."""

_EVENTS = {
    ResultStatus.COMPLETED: EventType.REQUEST_COMPLETED,
    ResultStatus.FAILED: EventType.REQUEST_FAILED,
    ResultStatus.CANCELLED: EventType.REQUEST_CANCELLED,
}


def returned(request: BackendRequest, task_revision: int, value: object) -> Outcome:
    """A function's return value as a terminal event.

    A `BackendResult` is taken as it is; a text is the summary; a mapping is the facts, its `summary` if present is
    taken out; None is done with nothing to say. Anything else, a result of another request or revision, a field of the
    wrong type or more than 65,536 bytes of msgpack is `request_uncertain`: the work may well have happened.
    """
    result = _mapped(request, task_revision, value)
    fault = "must be a BackendResult, text, facts or None" if result is None else _fault(request, task_revision, result)
    if result is None or fault:
        return uncertain(task_revision, "invalid_result", fault)
    return _EVENTS[result.status], {"result": to_data(result)}


def failed(request: BackendRequest, task_revision: int, error: BaseException, summary: str | None = None) -> Outcome:
    """What a function raised. A `ParloraError` is told as it is; of anything else only the type and the line.

    The text of a foreign exception may quote a credential or the caller's data.
    """
    told = error if isinstance(error, ParloraError) else _sanitized(error)
    data = told.to_data()
    metadata = {"error": data}
    result = BackendResult(
        request.id, request.task_id, task_revision, ResultStatus.FAILED, summary=summary, metadata=metadata
    )
    if _fault(request, task_revision, result):  # only the details of an application's own error can be at fault
        return failed(request, task_revision, AdapterFailed(told.message[:200]), summary)
    return EventType.REQUEST_FAILED, {"result": to_data(result), "error": data}


def cancelled(request: BackendRequest, task_revision: int) -> Outcome:
    """The function said that it stopped."""
    result = BackendResult(request.id, request.task_id, task_revision, ResultStatus.CANCELLED)
    return EventType.REQUEST_CANCELLED, {"result": to_data(result)}


def uncertain(task_revision: int, reason: str, detail: str | None = None) -> Outcome:
    """Nobody knows what became of the work."""
    payload: dict[str, Any] = {"task_revision": task_revision, "reason": reason}
    if detail:
        payload["detail"] = detail
    return EventType.REQUEST_UNCERTAIN, payload


def _mapped(request: BackendRequest, task_revision: int, value: object) -> BackendResult | None:
    if isinstance(value, BackendResult):
        return value
    facts: dict[str, Any] = {}
    summary: Any = None
    if isinstance(value, str):
        summary = value
    elif isinstance(value, Mapping):
        facts = dict(value)
        summary = facts.pop("summary", None)
    elif value is not None:
        return None
    return BackendResult(request.id, request.task_id, task_revision, ResultStatus.COMPLETED, facts, summary)


def _fault(request: BackendRequest, task_revision: int, result: BackendResult) -> str | None:
    if (result.request_id, result.task_id, result.task_revision) != (request.id, request.task_id, task_revision):
        return "belongs to another request or revision"
    if not isinstance(result.status, ResultStatus):
        return "status must be completed, failed or cancelled"
    for name, value in (("facts", result.facts), ("metadata", result.metadata)):
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            return f"{name} must be a dict with text keys"
    if result.summary is not None and not isinstance(result.summary, str):
        return "summary must be text or None"
    try:
        size = packed_size(to_data(result))
    except Exception as error:  # foreign objects fail in foreign ways
        return f"facts or metadata cannot be serialized: {type(error).__name__}"
    return f"{size} bytes exceed {RESULT_BYTES}" if size > RESULT_BYTES else None


def _sanitized(error: BaseException) -> ParloraError:
    name = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown"
    return AdapterFailed(f"the function raised {name}", details={"exception": name, "where": where})
