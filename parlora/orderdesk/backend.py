"""The lookup that does a task, as a function for `parlora.backends.functions:Functions`.

It stands for a system of record that takes its time: `delays_ms` in the backend's options says how long for which
order, and `ignores_cancel` names the orders whose lookup does not stop when asked to, as real systems often do not.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from parlora.backends.job import Job
from parlora.contract.backend import BackendRequest, BackendResult
from parlora.errors import InvalidArgument
from parlora.orderdesk.orders import ORDERS, Operation, not_found

MAX_DELAY_MS = 60_000
"""A lookup never takes longer than a request's default deadline."""


def lookup(request: BackendRequest, job: Job) -> BackendResult:
    """Look one thing up: input `{order, operation}`; the summary reads the number back digit by digit."""
    number, operation = _asked(request.input)
    job.progress(facts={"order": number, "operation": str(operation)})
    _take_time(job, number)
    order = ORDERS.get(number)
    if order is None:
        return job.result(not_found(number), {"order": number, "found": False})
    facts = {"order": number, "found": True, str(operation): getattr(order, operation)}
    return job.result(order.sentence(operation), facts)


def _asked(input: Mapping[str, Any]) -> tuple[str, Operation]:
    number, operation = input.get("order"), input.get("operation")
    if not isinstance(number, str) or len(number) != 3 or not number.isdecimal() or not number.isascii():
        raise InvalidArgument("input.order must be three digits", field="input.order")
    if operation not in list(Operation):
        raise InvalidArgument(f"input.operation must be one of {', '.join(Operation)}", field="input.operation")
    return number, Operation(operation)


def _take_time(job: Job, number: str) -> None:
    delay_ms = min(job.options.get("delays_ms", {}).get(number, 0), MAX_DELAY_MS)
    if number in job.options.get("ignores_cancel", ()):
        time.sleep(delay_ms / 1_000)
        return
    if delay_ms:
        job.wait(delay_ms)
    job.check()
