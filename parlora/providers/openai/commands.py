"""What we send to the Live API, as JSON text: one function a message, no state."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parlora.audio.format import AudioFormat, Encoding
from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.errors import InvalidArgument

MODELS: Final = ("gpt-live-1", "gpt-live-1.1")
MAX_HISTORY_MESSAGES: Final = 128
"""Documented limit of text history at startup; the token limits are the service's to judge."""

_APPEND: Final[dict[ContextKind, str]] = {
    ContextKind.QUIET: "session.thinking.append",
    ContextKind.SPEAKABLE: "session.commentary.append",
    ContextKind.INSTRUCTION: "session.instructions.append",
}
_PART_OF_ROLE: Final = {"user": "input_text", "developer": "input_text", "assistant": "output_text"}


@dataclass(frozen=True, slots=True)
class StartOptions:
    """What `session.start` may say, beside format, instructions and history.

    model: one of `MODELS`. voice: a built-in voice's name; None takes the service's default.
    acknowledgement_delay_ms: before an automatic spoken acknowledgment of a delegation; None takes the default.
    safety_identifier: a stable id of the end user.
    """

    model: str = MODELS[0]
    voice: str | None = None
    acknowledgement_delay_ms: int | None = None
    safety_identifier: str | None = None


def audio_format(format: AudioFormat) -> dict[str, Any]:
    """The service's name of a pipeline format."""
    if format.encoding is Encoding.PCM16LE:
        return {"type": "audio/pcm", "rate": format.sample_rate}
    return {"type": "audio/pcmu", "rate": format.sample_rate}


def start(
    options: StartOptions,
    format: AudioFormat,
    instructions: str | None,
    history: Sequence[Mapping[str, Any]],
    event_id: str,
) -> str:
    """`session.start`; raises `InvalidArgument` for a history that the service would refuse."""
    audio: dict[str, Any] = {"format": audio_format(format)}
    if options.voice is not None:
        audio["output"] = {"voice": options.voice}
    delegation: dict[str, Any] = {"type": "client"}
    if options.acknowledgement_delay_ms is not None:
        delegation["acknowledgement_delay_ms"] = options.acknowledgement_delay_ms
    session: dict[str, Any] = {"model": options.model, "audio": audio, "delegation": delegation}
    if instructions:
        session["instructions"] = instructions
    if history:
        session["input"] = [_message(entry, index) for index, entry in enumerate(_checked(history))]
    if options.safety_identifier is not None:
        session["safety_identifier"] = options.safety_identifier
    return _json({"type": "session.start", "event_id": event_id, "session": session})


def audio(data: bytes) -> str:
    """`session.input_audio.append`: raw bytes of the session's format."""
    return '{"type":"session.input_audio.append","audio":"' + base64.b64encode(data).decode("ascii") + '"}'


def append(update: ContextUpdate, event_id: str) -> str:
    """One of the three appends. The key `delegation_id` is always there, null for no delegation."""
    return _json(
        {
            "type": _APPEND[update.kind],
            "event_id": event_id,
            "delegation_id": update.delegation_id,
            "content": update.text,
        }
    )


def mute(on: bool, event_id: str) -> str:
    """`session.input_audio.mute` or `.unmute`."""
    return _json({"type": f"session.input_audio.{'mute' if on else 'unmute'}", "event_id": event_id})


def close(event_id: str) -> str:
    """`session.close`, after which the service rejects further commands."""
    return _json({"type": "session.close", "event_id": event_id})


def _checked(history: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if len(history) > MAX_HISTORY_MESSAGES:
        raise InvalidArgument(
            f"history may hold at most {MAX_HISTORY_MESSAGES} messages, got {len(history)}", field="history"
        )
    return history


def _message(entry: Mapping[str, Any], index: int) -> dict[str, Any]:
    role, text = entry.get("speaker"), entry.get("text")
    if role not in _PART_OF_ROLE or not isinstance(text, str) or not text:
        raise InvalidArgument(
            f"history[{index}] must be {{speaker: user, assistant or developer, text: non-empty}}",
            field=f"history[{index}]",
        )
    return {"type": "message", "role": role, "content": [{"type": _PART_OF_ROLE[role], "text": text}]}


def _json(message: Mapping[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)
