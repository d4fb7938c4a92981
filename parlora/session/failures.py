"""Failures as data, and what their details say about execution."""

from __future__ import annotations

from typing import Any

from parlora.errors import ErrorCode
from parlora.session.inputs import ErrorData

NEVER_SUBMITTED = "never_submitted"
"""The command was not invoked (acceptance RA-09)."""

UNKNOWN = "unknown"
"""The command was handed over and nobody knows what became of it (acceptance RA-10)."""


def failure(code: str, message: str, **details: Any) -> ErrorData:
    """`{code, message, details}`."""
    return {"code": str(code), "message": message, "details": details}


def never_submitted(code: str, message: str, **details: Any) -> ErrorData:
    """A refusal that says the command was not invoked."""
    return failure(code, message, execution=NEVER_SUBMITTED, **details)


def told(value: object, message: str, **details: Any) -> ErrorData:
    """An adapter's own error in the shape of ours, or, if it told none, a failure with `message`."""
    if not isinstance(value, dict) or "message" not in value:
        return failure(ErrorCode.ADAPTER_FAILED, message, **details)
    given = value.get("details")
    return {
        "code": str(value.get("code", ErrorCode.ADAPTER_FAILED)),
        "message": str(value["message"]),
        "details": {**(given if isinstance(given, dict) else {}), **details},
    }


def execution_of(error: ErrorData | None) -> str | None:
    """What an error says about execution, if it does."""
    details = error.get("details") if error else None
    return details.get("execution") if isinstance(details, dict) else None


def is_unknown(error: ErrorData | None) -> bool:
    """Whether an admission error leaves the outcome open (acceptance RA-12)."""
    return error is not None and (execution_of(error) == UNKNOWN or error.get("code") == ErrorCode.UNCERTAIN)
