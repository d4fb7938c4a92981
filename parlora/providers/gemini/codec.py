"""What Gemini Live says, made into observations: one message may say several things, and all of them count.

The service acknowledges nothing and has no error message: a text is told as submitted once it was written to the
socket, and what the service does not take it ends the connection for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from parlora.contract.provider import ContextKind, ContextUpdate, DelegationOutcome
from parlora.errors import Conflict, ErrorCode, InvalidArgument
from parlora.events import EventType
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.said import (
    Audio,
    Ignored,
    Interrupted,
    Message,
    Observation,
    Refused,
    Replace,
    Said,
    Send,
    Started,
)
from parlora.providers.gemini import commands, reading
from parlora.providers.gemini.calls import Ledger
from parlora.providers.gemini.commands import Scheduling

MAX_INSTRUCTION: Final = 65_536
"""Characters of the instructions of a call, where appended ones replace the system instruction."""

_MAX_HANDLE: Final = 65_536
_MAX_TEXT: Final = 500  # of an error's text: enough to act on, bounded for events
_LEAVE_EARLY_US: Final = 2_000_000  # before the announced end, so that a handover is over when it comes
_STATUS: Final = {"IN_PROGRESS": "in_progress", "IDLE": "idle"}


@dataclass(frozen=True, slots=True)
class CodecOptions:
    """What a codec does beyond the setup message; both are about what no document settles.

    instructions_replace: whether an appended instruction goes out as a new system instruction (`contextUpdate`), else
    as content. usage_adds: whether each token count is one response's, else the session's so far.
    """

    setup: commands.SetupOptions = field(default_factory=commands.SetupOptions)
    instructions_replace: bool = False
    usage_adds: bool = True


class GeminiCodec(CloudCodec):
    """One connection. `ledger` is the call's; with a handle in it the connection resumes the call's session."""

    def __init__(
        self,
        options: CodecOptions,
        instructions: str | None,
        history: Sequence[Mapping[str, Any]],
        ledger: Ledger,
    ) -> None:
        self.ledger = ledger
        self._options, self._instructions = options, instructions
        self._handle = ledger.handle
        self._history = commands.history(history) if history and self._handle is None else None
        self._functions = {str(each["name"]) for each in options.setup.functions}
        self._started = self._speaking = False
        self._activity: str | None = None
        self._leaving_ms: int | None = None
        self._leave_at_us: int | None = None
        self._handlers: dict[str, Callable[[dict[str, Any]], list[Said]]] = {
            "serverContent": self._on_content,
            "interactionStatus": self._on_status,
            "toolCall": self._on_tool_call,
            "toolCallCancellation": self._on_cancellation,
            "usageMetadata": self._on_usage,
            "sessionResumptionUpdate": self._on_resumption,
            "goAway": self._on_go_away,
        }

    # ---- what we send

    @property
    def pending(self) -> tuple[str, ...]:
        """None ever: the service tells no outcome."""
        return ()

    def opening(self) -> Sequence[Message]:
        """`setup`."""
        has_history = self._history is not None
        return (commands.setup(self._options.setup, self._instruction(), history=has_history, handle=self._handle),)

    def audio(self, data: bytes) -> Message:
        """`realtimeInput`."""
        return commands.audio(data)

    def append(self, update: ContextUpdate, command_id: str) -> Sequence[Message]:
        """A response to the function call that is meant, or content.

        A quiet text leaves the call open, a speakable one answers it; what comes after that is content. Raises
        `Conflict` for a call that the service never made.
        """
        call_id = update.delegation_id
        if call_id is not None and not self.ledger.knows(call_id):
            raise Conflict("the service knows no such delegation", details={"field": "delegation_id"})
        name = self.ledger.name_of(call_id) if call_id is not None else None
        if call_id is None or name is None or update.kind is ContextKind.INSTRUCTION:
            return (self._content(update),)
        body = {"output": update.text}
        if update.kind is ContextKind.QUIET:
            return (commands.response(call_id, name, body, Scheduling.SILENT, more=True),)
        self.ledger.ended(call_id)
        return (commands.response(call_id, name, body, Scheduling.WHEN_IDLE),)

    def resolve(self, delegation_id: str, outcome: DelegationOutcome) -> Sequence[Message]:
        """The last response to a call; nothing for one that has got it, or was taken back."""
        name = self.ledger.name_of(delegation_id)
        if name is None:
            return ()
        self.ledger.ended(delegation_id)
        return (commands.outcome(delegation_id, name, outcome),)

    def _content(self, update: ContextUpdate) -> str:
        if update.kind is ContextKind.INSTRUCTION and self._options.instructions_replace:
            if len(self._instruction()) + len(update.text) > MAX_INSTRUCTION:
                raise InvalidArgument(
                    f"all instructions together may have {MAX_INSTRUCTION} characters, for they go out together",
                    field="text",
                )
            self.ledger.instructions.append(update.text)
            return commands.system_instruction(self._instruction())
        speak = update.kind is ContextKind.SPEAKABLE
        return commands.content(commands.NOTES[update.kind] + update.text, speak=speak)

    def _instruction(self) -> str:
        first = [self._instructions] if self._instructions else []
        return "\n\n".join([*first, *self.ledger.instructions])

    # ---- what the service says

    def receive(self, message: bytes) -> list[Said]:
        """What one message says; never raises."""
        content = reading.message_of(message)
        if content is None:
            return [Ignored(None)]
        said: list[Said] = []
        known = False
        if "setupComplete" in content:
            known = True
            said += self._on_setup_complete(reading.mapping(content, "setupComplete"))
        if not known and ("error" in content or "code" in content) and not self._handlers.keys() & content.keys():
            return self._on_error(content)
        for key, handler in self._handlers.items():
            if key in content:
                known = True
                said += handler(content) if self._started else [Ignored(key)]
        return said if known else [Ignored(next(iter(content), None))]

    def due(self, now_us: int) -> list[Said]:
        """Leave an ending connection in time, whatever is being said."""
        if self._leaving_ms is None:
            return []
        if self._leave_at_us is None:
            self._leave_at_us = now_us + max(0, self._leaving_ms * 1_000 - _LEAVE_EARLY_US)
        return [self._leave()] if now_us >= self._leave_at_us else []

    def _leave(self) -> Said:
        self._leaving_ms = None
        return Replace("go_away")

    def _on_setup_complete(self, complete: dict[str, Any]) -> list[Said]:
        if self._started:
            return [Ignored("setupComplete")]
        self._started = True
        details = {"model": commands.MODEL, "resumed": self._handle is not None}
        session_id = reading.identifier(complete.get("sessionId"))
        if session_id is not None:
            details["session_id"] = session_id
        first: list[Said] = [] if self._history is None else [Send((self._history,))]
        return [*first, Started(details)]

    def _on_error(self, content: dict[str, Any]) -> list[Said]:
        error = reading.mapping(content, "error") or content
        code, shown = error.get("status", error.get("code")), reading.text(error.get("message"), _MAX_TEXT)
        code = str(code)[:_MAX_TEXT] if isinstance(code, str | int) else None
        shown = shown or "the service reported an error"
        if not self._started:
            return [Refused(code, shown)]
        data = {"code": ErrorCode.ADAPTER_FAILED, "message": shown, "details": {"provider_code": code}}
        return [Observation(EventType.EXTENSION, {"gemini.error": data})]

    # ---- content

    def _on_content(self, message: dict[str, Any]) -> list[Said]:
        content = reading.mapping(message, "serverContent")
        said: list[Said] = []
        if content.get("interrupted") is True:
            said += [Interrupted(), *self._speaks(False)]
        said += self._transcript("user", reading.mapping(content, "inputTranscription"))
        said += self._transcript("assistant", reading.mapping(content, "outputTranscription"))
        for part in reading.items(reading.mapping(content, "modelTurn"), "parts"):
            data = reading.sound(part)
            if data:
                said += [*self._speaks(True), Audio(data)]
            elif "inlineData" in part and data is None:
                said.append(Ignored("inlineData"))
        turn_is_over = content.get("turnComplete") is True
        if turn_is_over:
            said += self._speaks(False)
        said += self._acts(content.get("interactionStatus", "IDLE" if turn_is_over else None))
        if turn_is_over and self._leaving_ms is not None:
            said.append(self._leave())
        return said

    def _transcript(self, speaker: str, transcription: dict[str, Any]) -> list[Said]:
        delta = reading.text(transcription.get("text"))
        if not delta:
            return []
        payload = {
            "speaker": speaker,
            "delta": delta,
            "start_ms": reading.milliseconds(transcription.get("startOffset")),
            "end_ms": reading.milliseconds(transcription.get("endOffset")),
        }
        return [Observation(EventType.TRANSCRIPT_DELTA, payload)]

    def _speaks(self, on: bool) -> list[Said]:
        if on is self._speaking:
            return []
        self._speaking = on
        return [Observation(EventType.PROVIDER_SPEECH, {"status": "speaking" if on else "idle"})]

    def _on_status(self, message: dict[str, Any]) -> list[Said]:
        return self._acts(message.get("interactionStatus"))

    def _acts(self, status: Any) -> list[Said]:
        activity = _STATUS.get(status) if isinstance(status, str) else None
        if activity is None or activity == self._activity:
            return []
        self._activity = activity
        return [Observation(EventType.PROVIDER_ACTIVITY, {"status": activity})]

    # ---- function calls

    def _on_tool_call(self, message: dict[str, Any]) -> list[Said]:
        said: list[Said] = []
        for call in reading.items(reading.mapping(message, "toolCall"), "functionCalls"):
            call_id, name = reading.identifier(call.get("id")), reading.text(call.get("name"))
            if call_id is None or name is None:
                said.append(Ignored("toolCall"))
            elif name not in self._functions:
                said.append(self._refuse_call(call_id, name, "There is no such function."))
            elif self.ledger.opened(call_id, name):
                payload: dict[str, Any] = {"delegation_id": call_id, "target": "client", "offset_ms": None}
                # what the model itself asks for, and nothing made up
                payload["function"] = {"name": name, "arguments": reading.arguments(call.get("args"))}
                said.append(Observation(EventType.DELEGATION_REQUESTED, payload))
            elif not self.ledger.knows(call_id):
                said.append(self._refuse_call(call_id, name, "Too many calls are open."))
        return said

    @staticmethod
    def _refuse_call(call_id: str, name: str, why: str) -> Said:
        return Send((commands.response(call_id, name, {"error": why}, Scheduling.SILENT),))

    def _on_cancellation(self, message: dict[str, Any]) -> list[Said]:
        ids = reading.mapping(message, "toolCallCancellation").get("ids")
        known = [id for id in ids if isinstance(id, str)] if isinstance(ids, list) else []
        return [
            Observation(EventType.DELEGATION_CANCELLED, {"delegation_id": id}) for id in known if self.ledger.ended(id)
        ]

    # ---- the session

    def _on_usage(self, message: dict[str, Any]) -> list[Said]:
        usage = self.ledger.used(reading.mapping(message, "usageMetadata"), summed=self._options.usage_adds)
        return [Observation(EventType.USAGE_UPDATED, usage)]

    def _on_resumption(self, message: dict[str, Any]) -> list[Said]:
        update = reading.mapping(message, "sessionResumptionUpdate")
        handle = update.get("newHandle")
        if update.get("resumable") is True and isinstance(handle, str) and 0 < len(handle) <= _MAX_HANDLE:
            self.ledger.handle = reading.text(handle)
        return []

    def _on_go_away(self, message: dict[str, Any]) -> list[Said]:
        left_ms = reading.milliseconds(reading.mapping(message, "goAway").get("timeLeft"))
        if not self._speaking:
            return [self._leave()]
        self._leaving_ms = left_ms or 0
        return []
