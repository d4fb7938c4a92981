"""What was said and what the application knows: transcripts, provider speech, application context (spec 000 §3).

Each change is a new context revision, so that an interpretation of the older state is discarded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.contract.provider import Speaker
from parlora.errors import InvalidArgument
from parlora.events import Event
from parlora.session import health, progress
from parlora.session.turn import Turn

_SPEECH = ("speaking", "idle")


def transcript(turn: Turn, event: Event) -> None:
    """A caption fragment: kept as it came, newest first, bounded by `max_transcripts`."""
    payload = event.payload
    speaker = payload.get("speaker")
    if speaker not in (Speaker.USER, Speaker.ASSISTANT):
        raise InvalidArgument("speaker must be user or assistant", field="speaker")
    delta = payload.get("delta")
    if not isinstance(delta, str):
        raise InvalidArgument("delta must be text", field="delta")
    entry = {
        **payload,
        "speaker": str(speaker),
        "delta": delta,
        "start_ms": milliseconds(payload, "start_ms"),
        "end_ms": milliseconds(payload, "end_ms"),
        "provider_generation": event.generation,
        "arrival_order": turn.revise(),
    }
    kept = turn.conversation.transcripts[: turn.spec.limits.max_transcripts - 1]
    turn.conversation = replace(turn.conversation, transcripts=(entry, *kept))
    if delta.strip():
        name = f"{speaker}_caption"
        health.saw(turn, name)
        progress.observed(turn, name)
        if speaker == Speaker.USER:
            heard = replace(turn.conversation, caller_revision=entry["arrival_order"], needs_caller=False)
            turn.conversation = heard
    turn.trigger(ContextTrigger(TriggerKind.TRANSCRIPT_UPDATED))


def milliseconds(payload: dict[str, Any], name: str) -> float | None:
    """A provider offset in milliseconds, or None if it was not given."""
    value = payload.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidArgument(f"{name} must be a number of milliseconds or None", field=name)
    return value


def provider_speech(turn: Turn, event: Event) -> None:
    """The provider says that it speaks or is idle; a change revises the context (acceptance CP-21)."""
    status = event.payload.get("status")
    if status not in _SPEECH:
        raise InvalidArgument("status must be speaking or idle", field="status")
    if status != turn.conversation.provider_speech:
        turn.conversation = replace(turn.conversation, provider_speech=str(status))
        turn.revise()


def update(turn: Turn, context: dict[str, Any]) -> None:
    """The application replaces its context."""
    turn.conversation = replace(turn.conversation, application_context=dict(context))
    turn.revise()
    turn.trigger(ContextTrigger(TriggerKind.APPLICATION_CONTEXT_UPDATED))
