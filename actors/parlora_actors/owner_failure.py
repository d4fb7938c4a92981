"""What an owner says about a failure of adapter code: enough to mend it, and nothing it was working on.

The text of an adapter's own exception may hold credentials or speech, so only Parlora's errors keep theirs; every other
is told by its type and by where it was raised (spec 000 §2).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from parlora.errors import ErrorCode, InvalidArgument, ParloraError
from parlora.session.inputs import ErrorData
from parlora.wire import pack, to_data
from parlora_actors.crash_report import describe_crash


def error_data(error: BaseException, what: str) -> ErrorData:
    """A failure as plain data; `what` says what failed, e.g. `channel.start`."""
    if isinstance(error, ParloraError):
        return _plain({"code": error.code, "message": error.message, "details": to_data(error.details)})
    report = describe_crash(error)
    text = f": {report['text']}" if report["text"] else ""
    return {
        "code": str(ErrorCode.ADAPTER_FAILED),
        "message": f"{what} raised {report['type']}{text}",
        "details": {"type": report["type"], "frames": report["frames"]},
    }


def located(error: ErrorData, role: str, options: Mapping[str, Any]) -> ErrorData:
    """The failure of a start with its field named as the application knows it, if it is an option of the component."""
    field = error["details"].get("field")
    if not isinstance(field, str) or re.split(r"[.\[]", field)[0] not in options:
        return error
    details = {**error["details"], "field": f"{role}.options.{field}"}
    return {**error, "message": f"{role}: {error['message']}", "details": details}


def refusal(code: str, message: str, execution: str) -> ErrorData:
    """Why a command has no outcome of the adapter's: `execution` is never_submitted or unknown."""
    return {"code": str(code), "message": message, "details": {"execution": execution}}


def _plain(data: ErrorData) -> ErrorData:
    try:
        pack(data)
    except InvalidArgument:  # details that an adapter filled with objects of its own
        return {**data, "details": {}}
    return data


def with_details(error: ErrorData, **details: Any) -> ErrorData:
    """The same failure with more details; those it has already win."""
    return {**error, "details": {**details, **error["details"]}}
