"""What the Live API says, made into observations: correlation and finality, no socket and no clock.

Acknowledgments and rejections carry our `event_id` back as `client_event_id`. One documented variant of the service
does not echo it on success; then the oldest pending append of that type is meant, since the service keeps their order.
An error that names no command of ours is surfaced without one: nothing is guessed (acceptance PC-25).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from typing import Any, Final

from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.errors import ErrorCode
from parlora.events import EventType
from parlora.providers.cloud.said import Audio, Ended, Ignored, Observation, Refused, Said, Started
from parlora.providers.openai import commands

FATAL_CODES: Final = frozenset(
    {
        "account_deactivated",
        "billing_hard_limit_reached",
        "credit_balance_exhausted",
        "forbidden",
        "insufficient_quota",
        "invalid_api_key",
        "rate_limit_exceeded",
    }
)
"""Errors after which the session is of no use; matched against both code and type, for the service uses either."""

_MAX_TEXT: Final = 500  # of a server's error message: enough to act on, bounded for events

_APPENDED: Final[dict[str, ContextKind]] = {
    "session.thinking.appended": ContextKind.QUIET,
    "session.commentary.appended": ContextKind.SPEAKABLE,
    "session.instructions.appended": ContextKind.INSTRUCTION,
}


class LiveCodec:
    """One session of the Live API. `start_event_id` is the id our `session.start` carried.

    earlier_seconds: what the sessions used that this one takes over from, so that usage stays cumulative.
    """

    def __init__(self, start_event_id: str, earlier_seconds: float = 0.0) -> None:
        self._start_event_id = start_event_id
        self._started = False
        self._closing = False
        self._appends: dict[str, ContextKind] = {}  # event id -> kind, in the order sent; bounded by the caller
        self._mutes: dict[str, bool] = {}
        self._earlier_seconds = earlier_seconds
        self._usage: float | None = earlier_seconds or None
        self._handlers: dict[str, Callable[[dict[str, Any]], list[Said]]] = {
            "session.started": self._on_started,
            "session.output_audio.delta": self._on_audio,
            "session.input_transcript.delta": lambda m: self._on_transcript("user", m),
            "session.output_transcript.delta": lambda m: self._on_transcript("assistant", m),
            "session.delegation.created": self._on_delegation,
            "session.input_audio.muted": lambda m: self._on_muted(m, on=True),
            "session.input_audio.unmuted": lambda m: self._on_muted(m, on=False),
            "session.usage.updated": self._on_usage,
            "session.closed": self._on_closed,
            "error": self._on_error,
            **dict.fromkeys(_APPENDED, self._on_appended),
        }

    @property
    def pending(self) -> tuple[str, ...]:
        """Command ids sent and not yet acknowledged, oldest first."""
        return (*self._appends, *self._mutes)

    @property
    def seconds(self) -> float:
        """Usage so far, that of earlier sessions included; 0 before the first word of it."""
        return self._usage or 0.0

    def append(self, update: ContextUpdate, command_id: str) -> str:
        """The append message, whose outcome will carry `command_id`."""
        self._appends[command_id] = update.kind
        return commands.append(update, command_id)

    def mute(self, on: bool, command_id: str) -> str:
        """The mute message, whose outcome will carry `command_id`."""
        self._mutes[command_id] = on
        return commands.mute(on, command_id)

    def close(self, command_id: str) -> str:
        """The close message; from here on pending appends may fail without that being an error of the session."""
        self._closing = True
        return commands.close(command_id)

    def receive(self, text: str | bytes) -> list[Said]:
        """What one message of the server says; never raises."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return [Ignored(None)]
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            return [Ignored(None)]
        kind: str = message["type"]
        handler = self._handlers.get(kind)
        return handler(message) if handler is not None else [Ignored(kind)]

    # ---- session

    def _on_started(self, message: dict[str, Any]) -> list[Said]:
        if self._started:
            return [Ignored("session.started")]
        self._started = True
        session = _map(message, "session")
        return [Started({name: session[name] for name in ("id", "model", "expires_at") if name in session})]

    def _on_closed(self, message: dict[str, Any]) -> list[Said]:
        said = self._usage_said(_map(message, "usage"), _map(message, "context_window"), final=True)
        reason = message.get("reason")
        return [*said, Ended(reason if isinstance(reason, str) else "unknown", confirmed=True)]

    def _on_usage(self, message: dict[str, Any]) -> list[Said]:
        return self._usage_said(_map(message, "usage"), _map(message, "context_window"), final=False)

    def _usage_said(self, usage: dict[str, Any], window: dict[str, Any], *, final: bool) -> list[Said]:
        seconds = _number(usage.get("seconds"))
        if seconds is not None:
            # cumulative: the latest counts, and it never goes back
            self._usage = max(seconds + self._earlier_seconds, self._usage or 0.0)
        payload: dict[str, Any] = {"seconds": self._usage, "unit": "seconds", "final": final}
        ratio = _number(window.get("usage_ratio"))
        if ratio is not None:
            payload["context_window"] = {"usage_ratio": ratio}
        return [Observation(EventType.USAGE_FINAL if final else EventType.USAGE_UPDATED, payload)]

    # ---- conversation

    def _on_audio(self, message: dict[str, Any]) -> list[Said]:
        delta = message.get("delta")
        if not self._started or not isinstance(delta, str):
            return [Ignored("session.output_audio.delta")]
        try:
            data = base64.b64decode(delta, validate=True)
        except (binascii.Error, ValueError):
            return [Ignored("session.output_audio.delta")]
        return [Audio(data)] if data else []

    def _on_transcript(self, speaker: str, message: dict[str, Any]) -> list[Said]:
        delta = message.get("delta")
        if not self._started or not isinstance(delta, str):
            return [Ignored(str(message["type"]))]
        payload = {
            "speaker": speaker,
            "delta": delta,
            "start_ms": _number(message.get("start_ms")),
            "end_ms": _number(message.get("end_ms")),
        }
        return [Observation(EventType.TRANSCRIPT_DELTA, payload)]

    def _on_delegation(self, message: dict[str, Any]) -> list[Said]:
        delegation = _map(message, "delegation")
        id = delegation.get("id")
        if not self._started or not isinstance(id, str) or not id or delegation.get("target") != "client":
            return [Ignored("session.delegation.created")]
        payload = {"delegation_id": id, "target": "client", "offset_ms": _number(message.get("offset_ms"))}
        return [Observation(EventType.DELEGATION_REQUESTED, payload)]

    # ---- outcomes of our commands

    def _on_appended(self, message: dict[str, Any]) -> list[Said]:
        kind = _APPENDED[message["type"]]
        command_id = message.get("client_event_id")
        if not isinstance(command_id, str):
            command_id = next((id for id, pending in self._appends.items() if pending is kind), None)
        if command_id is None or self._appends.pop(command_id, None) is None:
            return [Ignored(str(message["type"]))]
        payload = {"start_ms": _number(message.get("start_ms")), "end_ms": _number(message.get("end_ms"))}
        return [Observation(EventType.CONTEXT_ACKNOWLEDGED, payload, command_id)]

    def _on_muted(self, message: dict[str, Any], *, on: bool) -> list[Said]:
        command_id = message.get("client_event_id")
        if not isinstance(command_id, str):
            command_id = next((id for id, wanted in self._mutes.items() if wanted is on), None)
        if command_id is None or self._mutes.pop(command_id, None) is None:
            return [Ignored(str(message["type"]))]
        return [Observation(EventType.CONTROL_COMPLETED, _mute_outcome(on), command_id)]

    def _on_error(self, message: dict[str, Any]) -> list[Said]:
        error = _map(message, "error")
        code, text = error.get("code"), error.get("message")
        code = code if isinstance(code, str) else None
        shown = text[:_MAX_TEXT] if isinstance(text, str) else "the service reported an error"
        if not self._started:
            return [Refused(code, shown)]
        command_id = error.get("client_event_id")
        data = {"code": ErrorCode.ADAPTER_FAILED, "message": shown, "details": {"provider_code": code}}
        if isinstance(command_id, str) and self._appends.pop(command_id, None) is not None:
            return [Observation(EventType.CONTEXT_REJECTED, {"error": data}, command_id)]
        if isinstance(command_id, str) and (on := self._mutes.pop(command_id, None)) is not None:
            return [Observation(EventType.CONTROL_FAILED, {**_mute_outcome(on), "error": data}, command_id)]
        if not self._closing and not FATAL_CODES.isdisjoint({code, error.get("type")}):
            return [Refused(code, shown)]
        return [Observation(EventType.EXTENSION, {"openai.error": data})]


def _mute_outcome(on: bool) -> dict[str, Any]:
    return {"control": "mute_input", "on": on, "scope": "provider_input"}


def _map(message: dict[str, Any], name: str) -> dict[str, Any]:
    value = message.get(name)
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float | None:
    """A finite number, or None: what is not there is not made up."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if abs(value) < 1e15 else None
