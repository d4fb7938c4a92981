"""What the Live API takes from a client: as strict as the service is documented to be, from its field tables."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_VOICES: Final = (
    "alloy ash ballad beacon bossa cedar cinder coral delta echo gleam marin meridian quartz ripple sage shida shimmer "
    "stone tempo verse vesper willow"
)
VOICES: Final = frozenset(_VOICES.split())
MODELS: Final = frozenset({"gpt-live-1", "gpt-live-1.1"})
MAX_APPEND_TOKENS: Final = 500
MAX_HISTORY: Final = 128

_RATES: Final = {"audio/pcm": (24_000, 16_000), "audio/pcmu": (8_000,), "audio/pcma": (8_000,)}
_FIELDS: Final = {
    "session.start": {"session"},
    "session.input_audio.append": {"audio"},
    "session.input_audio.mute": set(),
    "session.input_audio.unmute": set(),
    "session.thinking.append": {"content", "delegation_id"},
    "session.commentary.append": {"content", "delegation_id"},
    "session.instructions.append": {"content", "delegation_id"},
    "session.close": set(),
}
_SESSION_FIELDS: Final = {"model", "instructions", "audio", "delegation", "input", "store", "safety_identifier"}
_PARTS: Final = {"developer": {"input_text"}, "user": {"input_text"}, "assistant": {"output_text", "text"}}


@dataclass(frozen=True)
class Refusal(Exception):
    """Why a message is not taken."""

    code: str
    message: str
    param: str | None = None


def check(message: Any) -> str:
    """The message's type, if its fields are documented and complete; raises `Refusal`."""
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise Refusal("invalid_event", "a message is an object with a type", "type")
    kind: str = message["type"]
    fields = _FIELDS.get(kind)
    if fields is None:
        raise Refusal("unknown_event_type", f"unknown event {kind[:80]}", "type")
    _known(message, fields | {"type", "event_id"}, "")
    for name in sorted(fields):
        if name not in message:
            raise Refusal("missing_required_parameter", f"{name} is required", name)
    if kind == "session.start":
        _check_session(message["session"])
    return kind


def check_audio(text: Any, sample_bytes: int) -> bytes:
    """The bytes of an audio message."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise Refusal("invalid_audio", "audio is no base64", "audio") from None
    if not data or len(data) % sample_bytes:
        raise Refusal("invalid_audio", "audio must hold whole samples", "audio")
    return data


def check_append(message: Mapping[str, Any], delegations: set[str]) -> None:
    """Content and delegation of an append."""
    content, delegation_id = message["content"], message["delegation_id"]
    if not isinstance(content, str) or not content:
        raise Refusal("invalid_value", "content must be a string", "content")
    if tokens(content) > MAX_APPEND_TOKENS:
        raise Refusal("invalid_value", f"the context append text must not exceed {MAX_APPEND_TOKENS} tokens", "content")
    if delegation_id is not None and delegation_id not in delegations:
        raise Refusal("invalid_value", "no such delegation", "delegation_id")


def tokens(text: str) -> int:
    """A rough count: four ASCII characters a token, one of any other."""
    ascii_count = sum(character < "\x80" for character in text)
    return -(-ascii_count // 4) + len(text) - ascii_count


def _check_session(session: Any) -> None:
    if not isinstance(session, dict):
        raise Refusal("invalid_value", "session must be an object", "session")
    _known(session, _SESSION_FIELDS, "session.")
    if session.get("model") not in MODELS:
        raise Refusal("invalid_model", "no such model", "session.model")
    _check_audio_config(session.get("audio", {}))
    delegation = session.get("delegation") or {"type": "client"}
    _known(delegation, {"type", "acknowledgement_delay_ms"}, "session.delegation.")
    if delegation.get("type") != "client":
        raise Refusal("invalid_value", "this fake has client delegation only", "session.delegation.type")
    history = session.get("input", [])
    if len(history) > MAX_HISTORY:
        raise Refusal("invalid_value", f"at most {MAX_HISTORY} messages", "session.input")
    for index, entry in enumerate(history):
        _check_history(entry, f"session.input[{index}]")


def _check_audio_config(audio: Any) -> None:
    _known(audio, {"format", "output"}, "session.audio.")
    format = audio.get("format", {"type": "audio/pcm", "rate": 24_000})
    _known(format, {"type", "rate"}, "session.audio.format.")
    if format.get("rate") not in _RATES.get(format.get("type"), ()):
        raise Refusal("invalid_value", "no such audio format", "session.audio.format")
    output = audio.get("output", {})
    _known(output, {"voice"}, "session.audio.output.")
    if output.get("voice", "marin") not in VOICES:
        raise Refusal("forbidden", "no such voice", "session.audio.output.voice")


def _check_history(entry: Any, where: str) -> None:
    _known(entry, {"type", "role", "content"}, f"{where}.")
    parts, content = _PARTS.get(entry.get("role")), entry.get("content")
    if entry.get("type") != "message" or parts is None or not isinstance(content, list) or len(content) != 1:
        raise Refusal("invalid_value", "a message has a role and one part", where)
    _known(content[0], {"type", "text"}, f"{where}.content.")
    if content[0].get("type") not in parts or not isinstance(content[0].get("text"), str):
        raise Refusal("invalid_value", "the part does not fit its role", f"{where}.content")


def _known(value: Any, known: set[str], where: str) -> None:
    if not isinstance(value, dict):
        raise Refusal("invalid_value", f"{where.rstrip('.')} must be an object", where.rstrip("."))
    for name in value:
        if name not in known:
            raise Refusal("unknown_parameter", "unknown field", f"{where}{name}")
