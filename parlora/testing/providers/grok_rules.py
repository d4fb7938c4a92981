"""What Grok Voice takes from a client: as strict as the service is documented to be, from its field tables."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_EVENTS: Final[dict[str, tuple[set[str], set[str]]]] = {  # required and optional fields
    "session.update": ({"session"}, set()),
    "input_audio_buffer.append": ({"audio"}, set()),
    "input_audio_buffer.commit": (set(), set()),
    "input_audio_buffer.clear": (set(), set()),
    "conversation.item.create": ({"item"}, {"previous_item_id"}),
    "conversation.item.delete": ({"item_id"}, set()),
    "conversation.item.truncate": ({"item_id", "content_index", "audio_end_ms"}, set()),
    "response.create": (set(), {"response"}),
    "response.cancel": (set(), {"response_id"}),
}
_SESSION: Final = {
    *("model", "instructions", "reasoning", "voice", "turn_detection", "audio", "tools", "resumption", "replace"),
    "type",  # of the OpenAI client's; it says nothing here
}
_DETECTION: Final = {"type", "threshold", "silence_duration_ms", "prefix_padding_ms", "idle_timeout_ms"}
_INPUT: Final = {"format", "transport", "transcription"}
_OUTPUT: Final = {"format", "transport", "speed"}
_ELSEWHERE: Final = {"turn_detection", "voice"}  # where OpenAI has them; this service overlooks them without a word
_RATES: Final = {
    "audio/pcm": {8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000},
    "audio/pcmu": {8_000},
    "audio/pcma": {8_000},
    "audio/opus": {24_000},
}
_TOOLS: Final = {"function", "web_search", "x_search", "file_search", "mcp"}
_PARTS: Final = {"input_text", "text", "input_audio", "audio"}


@dataclass(frozen=True)
class Refusal(Exception):
    """Why a message is not taken."""

    code: str
    message: str
    event_id: str | None = None


def check(message: Any) -> str:
    """The message's type, if its fields are documented and complete; raises `Refusal`."""
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise Refusal("invalid_event", "a message is an object with a type")
    kind: str = message["type"]
    if kind not in _EVENTS:
        raise Refusal("invalid_event", f"unknown event {kind[:80]}")
    required, optional = _EVENTS[kind]
    _known(message, {"type", "event_id", *required, *optional}, kind)
    for name in sorted(required):
        if name not in message:
            raise Refusal("invalid_request_error", f"{kind} requires {name}")
    if kind == "session.update":
        _check_session(message["session"])
    elif kind == "conversation.item.create":
        _check_item(message["item"])
    elif kind == "conversation.item.truncate":
        for name in ("content_index", "audio_end_ms"):
            if type(message[name]) is not int or message[name] < 0:
                raise Refusal("invalid_request_error", f"{name} must be a non-negative integer")
    return kind


def audio(text: Any, sample_bytes: int) -> bytes:
    """The bytes of an audio message."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise Refusal("invalid_audio_format", "audio is no base64") from None
    if not data or len(data) % sample_bytes:
        raise Refusal("invalid_audio_format", "audio must hold whole samples")
    return data


def format_of(session: Mapping[str, Any], direction: str) -> tuple[str, int]:
    """Type and rate of a direction: `input` or `output`."""
    format = session.get("audio", {}).get(direction, {}).get("format", {})
    kind = format.get("type", "audio/pcm")
    return kind, format.get("rate", 24_000 if kind == "audio/pcm" else 8_000)


def function_names(session: Mapping[str, Any]) -> list[str]:
    """Of the client's functions, declared flat or nested."""
    tools = [tool for tool in session.get("tools", []) if tool["type"] == "function"]
    return [str(tool.get("function", tool)["name"]) for tool in tools]


def _check_session(session: Any) -> None:
    _known(session, _SESSION, "session")
    detection = session.get("turn_detection")
    if detection is not None:
        _known(detection, _DETECTION, "turn_detection")
        if detection.get("type") not in (None, "server_vad"):
            raise Refusal("invalid_request_error", "no such turn detection")
        if not 0.1 <= detection.get("threshold", 0.85) <= 0.9:
            raise Refusal("invalid_request_error", "threshold must be from 0.1 to 0.9")
    directions = session.get("audio", {})
    _known(directions, {"input", "output"}, "audio")
    _known(directions.get("input", {}), _INPUT | _ELSEWHERE, "audio.input")
    _known(directions.get("output", {}), _OUTPUT | _ELSEWHERE, "audio.output")
    for direction in ("input", "output"):
        kind, rate = format_of(session, direction)
        if rate not in _RATES.get(kind, ()):
            raise Refusal("invalid_audio_format", f"no such {direction} format")
    if session.get("reasoning", {}).get("effort", "high") not in ("high", "none"):
        raise Refusal("invalid_request_error", "no such reasoning effort")
    for tool in session.get("tools", []):
        if not isinstance(tool, dict) or tool.get("type") not in _TOOLS:
            raise Refusal("invalid_request_error", "no such tool")
        if tool["type"] == "function" and not isinstance(tool.get("function", tool).get("name"), str):
            raise Refusal("invalid_request_error", "a function has a name")


def _check_item(item: Any) -> None:
    kind = item.get("type") if isinstance(item, dict) else None
    if kind == "function_call_output":
        _known(item, {"id", "type", "call_id", "output"}, "item")
        if not isinstance(item.get("call_id"), str) or not isinstance(item.get("output"), str):
            raise Refusal("invalid_request_error", "call_id and output are texts")
    elif kind == "function_call":
        _known(item, {"id", "type", "name", "arguments", "call_id"}, "item")
    elif kind in ("message", "force_message"):
        _known(item, {"id", "type", "role", "content"} | ({"interruptible"} if kind != "message" else set()), "item")
        parts = _PARTS if kind == "message" else {"output_text"}
        content = item.get("content")
        if item.get("role") not in ("user", "assistant", "system") or not isinstance(content, list) or not content:
            raise Refusal("invalid_request_error", "a message has a role and content")
        if any(not isinstance(part, dict) or part.get("type") not in parts for part in content):
            raise Refusal("invalid_request_error", "no such part")
    else:
        raise Refusal("invalid_request_error", "no such item")


def _known(value: Any, known: set[str], where: str) -> None:
    if not isinstance(value, dict):
        raise Refusal("invalid_request_error", f"{where} must be an object")
    for name in value:
        if name not in known:
            raise Refusal("invalid_request_error", f"{where} has no field {name[:80]}")
