"""What Grok Voice says, made into observations.

The service acknowledges a text in no way that names it, so that it is told as submitted once it was written to the
socket. What is heard of an answer is decided by the id of its response; the function calls in it are the application's,
interrupted or not, and no end of speech settles them.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.contract.provider import ContextUpdate, DelegationOutcome
from parlora.errors import Conflict, ErrorCode
from parlora.events import EventType
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.said import Audio, Ignored, Interrupted, Message, Observation, Refused, Said, Send, Started
from parlora.providers.gemini import reading
from parlora.providers.gemini.calls import Ledger
from parlora.providers.grok import commands
from parlora.providers.grok.captions import CallerCaptions
from parlora.providers.grok.continuation import Continuation
from parlora.providers.grok.spoken import Spoken

FATAL: Final = frozenset({"timeout", "max_duration"})
"""Errors after which the service ends the session."""

_BUSY: Final = "conversation_already_has_active_response"
_BENIGN_CODES: Final = frozenset({_BUSY, "response_cancel_not_active"})
_BENIGN_WORDS: Final = ("no active response", "active response in progress", "truncat")
_MAX_TEXT: Final = 500  # of an error's text: enough to act on, bounded for events
_EFFECTIVE: Final = ("id", "model", "voice")


class GrokCodec(CloudCodec):
    """One connection, which is one session. `continuation_timeout_ms`: the session's startup limit."""

    def __init__(
        self,
        options: commands.SessionOptions,
        format: AudioFormat,
        instructions: str | None,
        history: Sequence[Mapping[str, Any]],
        continuation_timeout_ms: int,
    ) -> None:
        self._ids = 0
        self._functions = {str(each["name"]) for each in options.functions}
        self._update = commands.session_update(options, format, instructions, self._id())
        self._history = commands.check_history(history)
        self._started = self._speaking = False
        self._calls = Ledger()
        self._captions = CallerCaptions()
        self._continuation = Continuation(continuation_timeout_ms)
        self._spoken = Spoken(format)
        self._handlers: dict[str, Callable[[dict[str, Any]], list[Said]]] = {
            "input_audio_buffer.speech_started": self._on_speech_started,
            "input_audio_buffer.speech_stopped": self._on_speech_stopped,
            "input_audio_buffer.committed": self._on_committed,
            "conversation.item.added": self._on_item,
            "conversation.item.created": self._on_item,
            "conversation.item.input_audio_transcription.updated": self._on_candidate,
            "conversation.item.input_audio_transcription.completed": self._on_candidate,
            "response.created": self._on_response_created,
            "response.output_audio.delta": self._on_audio,
            "response.audio.delta": self._on_audio,
            "response.output_audio_transcript.delta": self._on_words,
            "response.output_audio_transcript.done": self._on_all_words,
            "response.function_call_arguments.done": self._on_call,
            "response.output_item.done": self._on_output_item,
            "response.done": self._on_response_done,
        }

    # ---- what we send

    @property
    def pending(self) -> tuple[str, ...]:
        """None ever: the service tells no outcome."""
        return ()

    def opening(self) -> Sequence[Message]:
        """`session.update`, whatever the service says first."""
        return (self._update,)

    def audio(self, data: bytes) -> Message:
        """`input_audio_buffer.append`."""
        return commands.audio(data)

    def append(self, update: ContextUpdate, command_id: str) -> Sequence[Message]:
        """The answer to the function call that is meant, or a message; and a continuation, now or when one can be.

        Raises `Conflict` for a call that the service never made.
        """
        call_id = update.delegation_id
        if call_id is not None and not self._calls.knows(call_id):
            raise Conflict("the service knows no such delegation", details={"field": "delegation_id"})
        if call_id is not None and self._calls.ended(call_id):
            item = commands.function_output(call_id, update.text, self._id())
        else:  # one call has one answer
            item = commands.message("system", commands.NOTE + update.text, self._id())
        self._continuation.want()
        return (item, *self._continue())

    def resolve(self, delegation_id: str, outcome: DelegationOutcome) -> Sequence[Message]:
        """The answer to a call without a continuation; nothing for one that has got its answer."""
        if not self._calls.ended(delegation_id):
            return ()
        return (commands.outcome(delegation_id, outcome, self._id()),)

    def interrupted(self, unheard_us: int) -> Sequence[Message]:
        """`conversation.item.truncate` for each item that was not heard to its end."""
        return [commands.truncate(*each, self._id()) for each in self._spoken.cut(unheard_us)]

    def _continue(self) -> tuple[Message, ...]:
        event_id = self._id()
        return (commands.response_create(event_id),) if self._continuation.take(event_id) else ()

    def _id(self) -> str:
        self._ids += 1
        return f"p-{self._ids}"

    # ---- what the service says

    def receive(self, message: bytes) -> list[Said]:
        """What one message says; never raises."""
        content = reading.message_of(message)
        kind = reading.text(content.get("type"), _MAX_TEXT) if content is not None else None
        if content is None or kind is None:
            return [Ignored(None)]
        if kind == "session.updated":
            return self._on_updated(content)
        if kind == "error":
            return self._on_error(reading.mapping(content, "error"))
        handler = self._handlers.get(kind)
        if handler is None or not self._started:
            return [Ignored(kind)]
        self._continuation.progress()
        return handler(content)

    def due(self, now_us: int) -> list[Said]:
        """Captions that nothing completes, continuations that can go out by now, and one that was not answered."""
        said: list[Said] = [*self._captions.due(now_us)]
        if self._continuation.expired(now_us):
            return [*said, Refused("timeout", "the service created no response to a continuation in time")]
        messages = self._continue()
        return [*said, Send(messages)] if messages else said

    def _on_updated(self, message: dict[str, Any]) -> list[Said]:
        if self._started:
            return [Ignored("session.updated")]
        self._started = True
        session = reading.mapping(message, "session")
        texts = {name: reading.text(session.get(name), _MAX_TEXT) for name in _EFFECTIVE}
        earlier = tuple(commands.message(role, text, self._id()) for role, text in self._history)
        first: list[Said] = [Send(earlier)] if earlier else []
        return [*first, Started({name: text for name, text in texts.items() if text is not None})]

    def _on_error(self, error: dict[str, Any]) -> list[Said]:
        codes = [reading.text(error.get(name), _MAX_TEXT) for name in ("code", "type")]
        code = codes[0] or codes[1]
        shown = reading.text(error.get("message"), _MAX_TEXT) or "the service reported an error"
        if not self._started:
            return [Refused(code, shown)]
        fatal = next((each for each in codes if each in FATAL), None)
        if fatal is not None:
            return [*self._captions.flush(), Refused(fatal, shown)]
        is_benign = code in _BENIGN_CODES or any(words in shown.lower() for words in _BENIGN_WORDS)
        self._continuation.refused(reading.identifier(error.get("event_id")), busy=code == _BUSY)
        if is_benign:
            return [Ignored("error")]
        data = {"code": ErrorCode.ADAPTER_FAILED, "message": shown, "details": {"provider_code": code}}
        return [Observation(EventType.EXTENSION, {"grok.error": data})]

    # ---- the caller

    def _on_speech_started(self, message: dict[str, Any]) -> list[Said]:
        item_id = reading.identifier(message.get("item_id"))
        if item_id is not None:
            self._captions.started(item_id, _milliseconds(message.get("audio_start_ms")))
        self._continuation.caller(True)
        if not self._spoken.interrupt(self._continuation.active):
            return []  # nothing is being said, or it was interrupted already
        return [Interrupted(), *self._speaks(False)]

    def _on_speech_stopped(self, message: dict[str, Any]) -> list[Said]:
        item_id = reading.identifier(message.get("item_id"))
        if item_id is not None:
            self._captions.stopped(item_id, _milliseconds(message.get("audio_end_ms")))
        self._continuation.caller(False)
        return []

    def _on_committed(self, message: dict[str, Any]) -> list[Said]:
        item_id = reading.identifier(message.get("item_id"))
        if item_id is None:
            return [Ignored("input_audio_buffer.committed")]
        self._continuation.caller(False)
        self._captions.committed(item_id)
        return []

    def _on_candidate(self, message: dict[str, Any]) -> list[Said]:
        item_id, text = reading.identifier(message.get("item_id")), reading.text(message.get("transcript"))
        if item_id is None or text is None:
            return [Ignored(str(message["type"]))]
        completed = str(message["type"]).endswith("completed") and message.get("status") in (None, "completed")
        return [*self._captions.candidate(item_id, text, completed=completed)]

    def _on_item(self, message: dict[str, Any]) -> list[Said]:
        item = reading.mapping(message, "item")
        item_id = reading.identifier(item.get("id"))
        if item_id is None or item.get("role") != "user":
            return []
        texts = [reading.text(part.get("transcript")) for part in reading.items(item, "content")]
        for text in texts:
            if text:
                self._captions.candidate(item_id, text, completed=False)
        return []

    # ---- the answer

    def _on_response_created(self, message: dict[str, Any]) -> list[Said]:
        response_id = reading.identifier(reading.mapping(message, "response").get("id"))
        if response_id is None:
            return [Ignored("response.created")]
        self._continuation.created(response_id)
        return []

    def _on_audio(self, message: dict[str, Any]) -> list[Said]:
        ids = _ids(message)
        data = _sound(message.get("delta"))
        if ids is None or data is None:
            return [Ignored(str(message["type"]))]
        response_id, item_id, content_index = ids
        if self._spoken.is_interrupted(response_id):
            return [Audio(data, dropped_for="output_interrupted")]
        self._spoken.said(response_id, item_id, content_index, len(data))
        return [*self._speaks(True), Audio(data)] if data else []

    def _on_words(self, message: dict[str, Any]) -> list[Said]:
        ids, delta = _ids(message), reading.text(message.get("delta"))
        if ids is None or delta is None:
            return [Ignored(str(message["type"]))]
        self._spoken.worded(ids[1])
        return self._caption(ids[0], delta)

    def _on_all_words(self, message: dict[str, Any]) -> list[Said]:
        """The whole caption once more, which counts only where no part of it came."""
        ids, text = _ids(message), reading.text(message.get("transcript"))
        if ids is None or text is None or not self._spoken.worded(ids[1]):
            return []
        return self._caption(ids[0], text)

    def _caption(self, response_id: str, text: str) -> list[Said]:
        if not text or self._spoken.is_interrupted(response_id):
            return []
        payload = {"speaker": "assistant", "delta": text, "start_ms": None, "end_ms": None}
        return [Observation(EventType.TRANSCRIPT_DELTA, payload)]

    def _on_response_done(self, message: dict[str, Any]) -> list[Said]:
        response_id = reading.identifier(reading.mapping(message, "response").get("id"))
        if response_id is None:
            return [Ignored("response.done")]
        was_active = response_id == self._continuation.active
        self._continuation.done(response_id)
        messages = self._continue()
        said: list[Said] = self._speaks(False) if was_active else []
        return [*said, Send(messages)] if messages else said

    def _speaks(self, on: bool) -> list[Said]:
        if on is self._speaking:
            return []
        self._speaking = on
        return [Observation(EventType.PROVIDER_SPEECH, {"status": "speaking" if on else "idle"})]

    # ---- function calls

    def _on_output_item(self, message: dict[str, Any]) -> list[Said]:
        item = reading.mapping(message, "item")
        return self._on_call({**item, "type": message["type"]}) if item.get("type") == "function_call" else []

    def _on_call(self, message: dict[str, Any]) -> list[Said]:
        call_id, name = reading.identifier(message.get("call_id")), reading.text(message.get("name"))
        if call_id is None or name is None:
            return [Ignored(str(message["type"]))]
        if not self._calls.opened(call_id, name):
            return []  # the same call comes in two messages
        if name not in self._functions:
            self._calls.ended(call_id)
            self._continuation.want()
            wrong = json.dumps({"error": "There is no such function."})
            return [Send((commands.function_output(call_id, wrong, self._id()), *self._continue()))]
        payload: dict[str, Any] = {"delegation_id": call_id, "target": "client", "offset_ms": None}
        payload["function"] = {"name": name, "arguments": _arguments(message.get("arguments"))}
        # what the caller said comes first: the work is done on it
        return [*self._captions.flush(), Observation(EventType.DELEGATION_REQUESTED, payload)]


def _ids(message: dict[str, Any]) -> tuple[str, str, int] | None:
    response_id = reading.identifier(message.get("response_id"))
    item_id = reading.identifier(message.get("item_id"))
    index = message.get("content_index", 0)
    if response_id is None or item_id is None or type(index) is not int or not 0 <= index < 2**31:
        return None
    return response_id, item_id, index


def _sound(delta: Any) -> bytes | None:
    if not isinstance(delta, str):
        return None
    try:
        return base64.b64decode(delta, validate=True)
    except (binascii.Error, ValueError):
        return None


def _milliseconds(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return None
    return value


def _arguments(text: Any) -> dict[str, Any]:
    try:
        return reading.arguments(json.loads(text)) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
