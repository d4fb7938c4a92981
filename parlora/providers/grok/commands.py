"""What we send to Grok Voice, as JSON text: one function a message, no state."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parlora.audio.format import AudioFormat, Encoding
from parlora.contract.provider import DelegationOutcome
from parlora.errors import InvalidArgument

MODELS: Final = ("grok-voice-3.0", "grok-voice-latest")

DEFAULT_FUNCTIONS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "ask_application",
        "description": "Hand a request of the caller to the application, which can look things up and do things. "
        "It answers later; go on talking meanwhile, and never make up what it will say.",
        "parameters": {
            "type": "object",
            "properties": {"request": {"type": "string", "description": "What the caller wants, in one sentence."}},
            "required": ["request"],
        },
    },
)
"""Offered if an application names none of its own."""

NOTE: Final = "Note from the application, not said by the caller; tell the caller: "
"""What a text outside a function call begins with."""

_PART_OF_ROLE: Final = {"user": "input_text", "assistant": "text", "system": "input_text"}

_OUTCOMES: Final[dict[DelegationOutcome, dict[str, str]]] = {
    DelegationOutcome.COMPLETED: {"output": "Done. There is nothing to tell."},
    DelegationOutcome.NO_CONTENT: {"output": "Done. There is nothing to tell."},
    DelegationOutcome.SUPERSEDED: {"output": "A newer request has taken the place of this one."},
    DelegationOutcome.CANCELLED: {"error": "The work was cancelled."},
    DelegationOutcome.FAILED: {"error": "The work failed."},
    DelegationOutcome.UNCERTAIN: {"error": "It is not known whether the work was done."},
}


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """What `session.update` may say beside format and instructions; None takes the service's default.

    voice: a voice's name or id. language: hint of the caller's, BCP-47. reasoning_effort: `high` or `none`.
    threshold: 0.1 to 0.9; silence_duration_ms, prefix_padding_ms: 0 to 10,000, of the service's speech detection.
    """

    voice: str | None = None
    language: str | None = None
    functions: tuple[Mapping[str, Any], ...] = DEFAULT_FUNCTIONS
    reasoning_effort: str | None = None
    threshold: float | None = None
    silence_duration_ms: int | None = None
    prefix_padding_ms: int | None = None


def session_update(options: SessionOptions, format: AudioFormat, instructions: str | None, event_id: str) -> str:
    """The configuration. Voice and turn detection are at the top level; elsewhere the service overlooks them."""
    wire = audio_format(format)
    session: dict[str, Any] = {
        "turn_detection": _without_none(
            type="server_vad",
            threshold=options.threshold,
            silence_duration_ms=options.silence_duration_ms,
            prefix_padding_ms=options.prefix_padding_ms,
        ),
        "audio": {
            "input": {
                "format": wire,
                "transcription": _without_none(model="grok-transcribe", language_hint=options.language),
            },
            "output": {"format": wire},
        },
        "tools": [{"type": "function", **each} for each in options.functions],
    }
    if instructions:
        session["instructions"] = instructions
    if options.voice is not None:
        session["voice"] = options.voice
    if options.reasoning_effort is not None:
        session["reasoning"] = {"effort": options.reasoning_effort}
    return _json({"type": "session.update", "event_id": event_id, "session": session})


def audio_format(format: AudioFormat) -> dict[str, Any]:
    """The service's name of a pipeline format."""
    kind = "audio/pcm" if format.encoding is Encoding.PCM16LE else "audio/pcmu"
    return {"type": kind, "rate": format.sample_rate}


def audio(data: bytes) -> str:
    """`input_audio_buffer.append`: raw bytes of the session's format."""
    return '{"type":"input_audio_buffer.append","audio":"' + base64.b64encode(data).decode("ascii") + '"}'


def check_history(entries: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Role and text of each entry of what was said before the call; raises `InvalidArgument` naming the entry."""
    checked = []
    for index, entry in enumerate(entries):
        role, text = entry.get("speaker"), entry.get("text")
        if role not in ("user", "assistant") or not isinstance(text, str) or not text:
            raise InvalidArgument(
                f"history[{index}] must be {{speaker: user or assistant, text: non-empty}}", field=f"history[{index}]"
            )
        checked.append((str(role), text))
    return tuple(checked)


def message(role: str, text: str, event_id: str) -> str:
    """A message item, which starts no answer by itself."""
    content = [{"type": _PART_OF_ROLE[role], "text": text}]
    item = {"type": "message", "role": role, "content": content}
    return _json({"type": "conversation.item.create", "event_id": event_id, "item": item})


def function_output(call_id: str, output: str, event_id: str) -> str:
    """The answer to a function call, which starts no answer by itself."""
    item = {"type": "function_call_output", "call_id": call_id, "output": output}
    return _json({"type": "conversation.item.create", "event_id": event_id, "item": item})


def outcome(call_id: str, how: DelegationOutcome, event_id: str) -> str:
    """The answer to a function call for which nothing is to be said."""
    return function_output(call_id, json.dumps(_OUTCOMES[how]), event_id)


def response_create(event_id: str) -> str:
    """Ask for an answer to what the conversation holds by now."""
    return _json({"type": "response.create", "event_id": event_id})


def truncate(item_id: str, content_index: int, audio_end_ms: int, event_id: str) -> str:
    """Tell how much of an answer was heard."""
    return _json(
        {
            "type": "conversation.item.truncate",
            "event_id": event_id,
            "item_id": item_id,
            "content_index": content_index,
            "audio_end_ms": audio_end_ms,
        }
    )


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _json(message: Mapping[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)
