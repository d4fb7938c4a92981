"""Which function runs a request: import paths, operations and what a function's signature says it can do."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from parlora.component import Component
from parlora.contract.backend import BackendRequest
from parlora.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class Handler:
    """One function: whether it takes the job as well as the request, and whether it is `async def`."""

    function: Callable[..., Any]
    takes_job: bool
    is_async: bool


class Handlers:
    """One handler for everything, or one for each operation named in `request.input[key]`."""

    def __init__(self, handler: object, key: str) -> None:
        self._key = key
        self._by_operation: dict[str, Handler] | None = None
        if isinstance(handler, Mapping):
            if not handler:
                raise InvalidArgument("handler must name at least one operation", field="handler")
            self._by_operation = {str(name): _load(path, f"handler.{name}") for name, path in handler.items()}
            self.all: tuple[Handler, ...] = tuple(self._by_operation.values())
        else:
            self.all = (_load(handler, "handler"),)

    def choose(self, request: BackendRequest) -> Handler:
        """The handler of this request; raises `InvalidArgument` naming the operations there are."""
        if self._by_operation is None:
            return self.all[0]
        operation = request.input.get(self._key)
        found = self._by_operation.get(operation) if isinstance(operation, str) else None
        if found is None:
            known = ", ".join(sorted(self._by_operation))
            raise InvalidArgument(f"input.{self._key} must be one of {known}", field=f"input.{self._key}")
        return found


def _load(handler: object, field: str) -> Handler:
    function = handler if callable(handler) else Component.parse(handler, field).load(field)
    if not callable(function):
        raise InvalidArgument(f"{field} must name a function", field=field)
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - an object with an async __call__ is async too
    )
    return Handler(function, _takes_job(function, field), is_async)


def _takes_job(function: Callable[..., Any], field: str) -> bool:
    signature = inspect.signature(function)
    for takes_job, arguments in ((True, (None, None)), (False, (None,))):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return takes_job
    raise InvalidArgument(f"{field} must be callable with (request) or (request, job)", field=field)
