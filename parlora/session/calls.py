"""The session API: each operation checked, carried out and answered (spec 000 §9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from parlora.contract.adapter import ClosePolicy
from parlora.contract.provider import ContextKind
from parlora.errors import Closed, ErrorCode, InvalidArgument, NotReady, ParloraError
from parlora.ids import check_id
from parlora.session import (
    commands,
    context,
    controls,
    health,
    progress,
    projection,
    records,
    shutdown,
    status,
    subscriptions,
    tasks,
)
from parlora.session.effects import Call
from parlora.session.failures import failure
from parlora.session.inputs import Called
from parlora.session.roles import Role
from parlora.session.state import Phase, Purpose
from parlora.session.turn import Turn
from parlora.wire import to_data

_OBSERVING: Final = frozenset({"subscribe", "unsubscribe", "snapshot", "status", "close"})
"""Operations that are served in every phase; the others are new work, which a closing session refuses."""

_NEEDS_READY: Final = frozenset({"append_context", "control", "cancel"})
"""Operations that reach an adapter, which may not be called before readiness."""


def called(turn: Turn, input: Called) -> None:
    """One call: it is answered now, or when its owner has admitted it."""
    waiter = (input.caller, input.call_id)
    health.sampled(turn, input.counters)
    operation = _OPERATIONS.get(input.operation)
    if operation is None:
        known = ", ".join(sorted(_OPERATIONS))
        turn.refuse(waiter, failure(ErrorCode.UNSUPPORTED, f"no such operation; there are {known}", field="operation"))
        return
    before, effect_count = turn.state(), len(turn.effects)
    try:
        if turn.phase is Phase.CLOSING and input.operation not in _OBSERVING:
            raise Closed("the session closes and takes no new work")
        if turn.phase is Phase.STARTING and input.operation in _NEEDS_READY:
            raise NotReady("the session is not ready")
        operation(turn, input, waiter)
    except ParloraError as error:
        # refused at once: no record is left, so the id stays free
        turn.restore(before, effect_count)
        turn.refuse(waiter, error)


def _subscribe(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    turn.answer(waiter, subscriptions.subscribe(turn, input.caller, input.arguments))


def _unsubscribe(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    subscriptions.unsubscribe(turn, input.caller, input.arguments)
    turn.answer(waiter)


def _snapshot(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    turn.answer(waiter, to_data(projection.snapshot(turn)))


def _status(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    turn.answer(waiter, status.project(turn))


def _update_context(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    value = input.arguments.get("context")
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument("context must be a map with string keys", field="context")
    context.update(turn, value)
    turn.answer(waiter)


def _append_context(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    update = _update(input.arguments.get("update"))
    given = input.arguments.get("command_id")
    command_id = check_id(given, "command_id") if given is not None else turn.new_id()
    if records.admit(turn, command_id, "append_context", update, waiter):
        call, arguments = Call.APPEND_CONTEXT, {"update": update}
        commands.enqueue(turn, Role.PROVIDER, call, Purpose.CALLER, command_id, arguments, command_id=command_id)


def _update(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument("update must be a map of kind, text and delegation_id", field="update")
    if value.get("kind") not in tuple(ContextKind):
        raise InvalidArgument(f"update.kind must be one of {', '.join(ContextKind)}", field="update.kind")
    if not isinstance(value.get("text"), str) or not value["text"]:
        raise InvalidArgument("update.text must be non-empty text", field="update.text")
    delegation_id = value.get("delegation_id")
    if delegation_id is not None:
        check_id(delegation_id, "update.delegation_id")
    unknown = sorted(set(value) - {"kind", "text", "delegation_id"})
    if unknown:
        raise InvalidArgument(f"update has no {unknown[0]}", field=f"update.{unknown[0]}")
    return {"kind": str(value["kind"]), "text": value["text"], "delegation_id": delegation_id}


def _control(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    name, value = controls.check(input.arguments.get("command"))
    command_id = check_id(input.arguments.get("command_id"), "command_id")
    if records.admit(turn, command_id, "control", {"name": name, "value": value}, waiter):
        controls.control(turn, name, value, command_id)


def _cancel(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    request_id = check_id(input.arguments.get("request_id"), "request_id")
    command_id = check_id(input.arguments.get("command_id"), "command_id")
    revision = input.arguments.get("expected_task_revision")
    if type(revision) is not int or revision < 1:
        raise InvalidArgument("expected_task_revision must be a positive integer", field="expected_task_revision")
    arguments = {"request_id": request_id, "expected_task_revision": revision}
    if records.admit(turn, command_id, "cancel", arguments, waiter):
        tasks.cancel_request(turn, request_id, revision, command_id)


def _close(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    given = input.arguments.get("policy") or ClosePolicy.FINISH
    if given not in tuple(ClosePolicy):
        raise InvalidArgument(f"policy must be one of {', '.join(ClosePolicy)}", field="policy")
    turn.answer(waiter)
    shutdown.close(turn, ClosePolicy(given))


def _expect_progress(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    progress.expect(turn, input.arguments)
    turn.answer(waiter)


def _resolve_progress(turn: Turn, input: Called, waiter: records.Waiter) -> None:
    progress.resolve(turn, input.arguments)
    turn.answer(waiter)


_OPERATIONS: Final[dict[str, Callable[[Turn, Called, records.Waiter], None]]] = {
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "snapshot": _snapshot,
    "status": _status,
    "update_context": _update_context,
    "append_context": _append_context,
    "control": _control,
    "cancel": _cancel,
    "close": _close,
    "expect_progress": _expect_progress,
    "resolve_progress": _resolve_progress,
}
