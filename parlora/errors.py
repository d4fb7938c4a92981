"""Every failure Parlora reports: one tree, one shape (spec 000 §2).

A failure is raised in Python and travels as data between processes; both carry
`code`, `message` and `details`. The set of codes is open (acceptance TY-31):
a consumer copes with one it does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar, Final


class ErrorCode(StrEnum):
    """The codes that Parlora itself uses."""

    NOT_READY = "not_ready"
    UNSUPPORTED = "unsupported"
    INVALID_ARGUMENT = "invalid_argument"
    BACKPRESSURE = "backpressure"
    CLOSED = "closed"
    TIMEOUT = "timeout"
    ADAPTER_FAILED = "adapter_failed"
    CONFLICT = "conflict"
    NOT_FOUND = "not_found"
    UNCERTAIN = "uncertain"


class ParloraError(Exception):
    """The root of the tree.

    `details` holds plain, serializable values only and neither credentials nor
    audio (spec 000 §2). `details["field"]` names the argument at fault where there is one.
    """

    default_code: ClassVar[str] = ErrorCode.ADAPTER_FAILED

    def __init__(self, message: str, *, code: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code: str = str(code if code is not None else self.default_code)
        self.message: str = message
        self.details: dict[str, Any] = dict(details or {})

    def __reduce__(self) -> tuple[Any, ...]:
        return (error_from_data, (self.to_data(),))

    def to_data(self) -> dict[str, Any]:
        """The failure as plain data: `{code, message, details}`."""
        return {"code": self.code, "message": self.message, "details": dict(self.details)}


class NotReady(ParloraError):
    """The session or adapter has not become ready yet."""

    default_code = ErrorCode.NOT_READY


class Unsupported(ParloraError):
    """The adapter, format, platform or peer cannot do what was asked."""

    default_code = ErrorCode.UNSUPPORTED


class InvalidArgument(ParloraError):
    """An argument is wrong; nothing was changed, lost or stopped."""

    default_code = ErrorCode.INVALID_ARGUMENT

    def __init__(
        self,
        message: str,
        *,
        field: str | None = None,
        code: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        merged = dict(details or {})
        if field is not None:
            merged["field"] = field
        super().__init__(message, code=code, details=merged)


class Backpressure(ParloraError):
    """A bound is reached; `details` says which and how far."""

    default_code = ErrorCode.BACKPRESSURE


class Closed(ParloraError):
    """The session, adapter or node is closed or closing."""

    default_code = ErrorCode.CLOSED


class Timeout(ParloraError):
    """A deadline passed. What the other side did by then is unknown unless `details` say so."""

    default_code = ErrorCode.TIMEOUT


class AdapterFailed(ParloraError):
    """Adapter or application code failed."""

    default_code = ErrorCode.ADAPTER_FAILED


class Conflict(ParloraError):
    """An id was used again for something else."""

    default_code = ErrorCode.CONFLICT


class NotFound(ParloraError):
    """Nothing has that id."""

    default_code = ErrorCode.NOT_FOUND


class Uncertain(ParloraError):
    """Whether the operation took effect is not known."""

    default_code = ErrorCode.UNCERTAIN


_BY_CODE: Final[dict[str, type[ParloraError]]] = {
    cls.default_code: cls
    for cls in (
        NotReady,
        Unsupported,
        InvalidArgument,
        Backpressure,
        Closed,
        Timeout,
        AdapterFailed,
        Conflict,
        NotFound,
        Uncertain,
    )
}


def error_from_data(data: Mapping[str, Any]) -> ParloraError:
    """Rebuild a failure from `{code, message, details}`; an unknown code gives the root class."""
    cls = _BY_CODE.get(str(data.get("code", "")), ParloraError)
    return cls(str(data.get("message", "")), code=str(data.get("code", "")), details=data.get("details") or {})
