"""What adapters tell: checked, acted on, and passed on to subscribers as it came (spec 000 §3, §14).

An event that contradicts itself or our records is refused: subscribers get an `event_rejected` of the session instead.
Types that nothing here knows, `extension` among them, are passed on and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from parlora.errors import ErrorCode, ParloraError
from parlora.events import Event, EventType
from parlora.session import (
    context,
    controls,
    delegations,
    delivery,
    health,
    ledger,
    results,
    shutdown,
    startup,
    uncertainty,
)
from parlora.session.effects import Emit
from parlora.session.failures import failure
from parlora.session.inputs import AdapterEvent
from parlora.session.roles import Role
from parlora.session.state import Delivery
from parlora.session.turn import Turn

Handler = Callable[[Turn, Event], None]


def observed(turn: Turn, input: AdapterEvent) -> None:
    """One event of an adapter."""
    role, event = input.role, input.event
    if event.generation != turn.adapters[role].generation:
        _reject(turn, event, failure(ErrorCode.CONFLICT, "the event is of another generation"))
        return
    if role is Role.PROVIDER:
        health.saw(turn, "provider_events")
    before, position = turn.state(), len(turn.effects)
    try:
        _act(turn, role, event)
    except ParloraError as error:
        turn.restore(before, position)
        _reject(turn, event, error.to_data())
        return
    # what it led to comes after the event itself
    turn.effects.insert(position, Emit(event))


def _act(turn: Turn, role: Role, event: Event) -> None:
    if event.type == EventType.READY:
        startup.adapter_ready(turn, role, event)
    elif event.type == EventType.FAILED:
        shutdown.adapter_failed(turn, role, event)
    elif event.type == EventType.CLOSED:
        shutdown.adapter_closed(turn, role, event)
    else:
        handler = _HANDLERS[role].get(event.type)
        if handler is not None:
            handler(turn, event)


def _reject(turn: Turn, event: Event, error: dict[str, Any]) -> None:
    turn.emit(
        EventType.EVENT_REJECTED,
        {"source": event.source, "type": event.type, "event_id": event.id, "error": error},
        command_id=event.command_id,
        request_id=event.request_id,
    )


_APPENDS: Final = {
    EventType.CONTEXT_ACKNOWLEDGED: (Delivery.ACCEPTED, ledger.COMPLETED),
    EventType.CONTEXT_SUBMITTED: (Delivery.UNCONFIRMED, None),
    EventType.CONTEXT_REJECTED: (Delivery.REJECTED, ledger.FAILED),
}


def _append(turn: Turn, event: Event) -> None:
    """The provider's word on an append; one that names no command is passed on without guessing (acceptance CM-20)."""
    stage, outcome = _APPENDS[EventType(event.type)]
    if event.command_id is None:
        return
    if outcome is not None:
        ledger.settle(turn, event.command_id, outcome)
    error = event.payload.get("error")
    for job in turn.work.jobs.values():
        if job.result_command_id == event.command_id:
            delivery.observed(turn, job, stage, error)
            return
        if job.uncertainty_command_id == event.command_id:
            uncertainty.observed(turn, job, stage, error)
            return


def _provider_control(turn: Turn, event: Event) -> None:
    completed = event.type == EventType.CONTROL_COMPLETED
    ledger.settle(turn, event.command_id, ledger.COMPLETED if completed else ledger.FAILED)


_HANDLERS: Final[dict[Role, dict[str, Handler]]] = {
    Role.CHANNEL: {
        EventType.DISCONNECTED: shutdown.channel_disconnected,
        EventType.PLAYBACK_OBSERVED: health.playback,
        EventType.CONTROL_COMPLETED: controls.channel_control,
        EventType.CONTROL_FAILED: controls.channel_control,
    },
    Role.PROVIDER: {
        EventType.TRANSCRIPT_DELTA: context.transcript,
        EventType.PROVIDER_SPEECH: context.provider_speech,
        EventType.DELEGATION_REQUESTED: delegations.requested,
        EventType.DELEGATION_CANCELLED: delegations.cancelled,
        EventType.CONTEXT_ACKNOWLEDGED: _append,
        EventType.CONTEXT_SUBMITTED: _append,
        EventType.CONTEXT_REJECTED: _append,
        EventType.CONTROL_COMPLETED: _provider_control,
        EventType.CONTROL_FAILED: _provider_control,
        EventType.OUTPUT_INTERRUPTED: controls.interrupted,
        EventType.OUTPUT_RECOVERY_REQUESTED: controls.recovery_requested,
    },
    Role.BACKEND: {
        EventType.REQUEST_STARTED: results.started,
        EventType.REQUEST_PROGRESS: results.progressed,
        EventType.REQUEST_CLARIFICATION: results.asked,
        EventType.REQUEST_UNCERTAIN: results.uncertain,
        EventType.REQUEST_COMPLETED: results.ended,
        EventType.REQUEST_FAILED: results.ended,
        EventType.REQUEST_CANCELLED: results.ended,
        EventType.UPDATE_APPLIED: results.updated,
        EventType.UPDATE_REJECTED: results.updated,
        EventType.CANCELLATION_REQUESTED: results.cancellation,
        EventType.CANCELLATION_REJECTED: results.cancellation,
    },
}
