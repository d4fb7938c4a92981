"""One session of the fake Grok Voice: its timeline, its script, its answers and its faults."""

from __future__ import annotations

import base64
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from parlora.audio import mulaw
from parlora.testing.providers import grok_rules as rules
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.gemini_session import OUTPUT_HZ, tone
from parlora.testing.providers.websocket import Peer, frame

if TYPE_CHECKING:
    from parlora.testing.providers.grok import FakeGrok, Recording

PACKET_MS: Final = 250
MS_PER_WORD: Final = 250
LATE_DELTAS: Final = 2
_TICK_S: Final = 0.02
_GOODBYE_S: Final = 2.0
_FASTER: Final = 2  # than it is spoken, is an answer generated: `response.done` comes when half of it was heard


@dataclass(frozen=True, slots=True)
class Step:
    """Something at a time of the timeline, which runs on the caller's audio.

    what: `user` says `text`, in one committed item; `assistant` answers with `text`, all of it at once; `call` of the
    first declared function with id `text`; `interrupt`: the caller speaks over the answer; `ping`; `end` with `text` as
    the error that ends the session: timeout or max_duration; `say` a message, as JSON in `text`.
    """

    at_ms: int
    what: str
    text: str = ""


class FakeGrokSession:
    """For one thread."""

    def __init__(
        self, fake: FakeGrok, peer: Peer, recording: Recording, faults: Sequence[Fault], stopping: Callable[[], bool]
    ) -> None:
        self._fake, self._peer, self._recording, self._stopping = fake, peer, recording, stopping
        self._faults = [fault for fault in faults if fault.kind is not FaultKind.REFUSED]
        self._script = deque(sorted(fake.script, key=lambda step: step.at_ms))
        self._began = time.monotonic()
        self._session: dict[str, Any] | None = None
        self._input_us = 0
        self._counts: dict[str, int] = {}
        self._active: str | None = None
        self._item = ""
        self._done_at_ms = 0
        self._to_say = ""
        self._silent = self._done = False

    def run(self) -> None:
        """Serve until the session or its connection ends."""
        for kind in self._fake.greets:
            name = kind.partition(".")[0]
            greeting: dict[str, Any] = {name: {"object": f"realtime.{name}", "id": f"{name}_1"}}
            self._say(kind, **greeting)
        while not self._done and not self._stopping():
            self._misbehave()
            self._advance()
            if any(fault.kind is FaultKind.DEAF and self._is_due(fault) for fault in self._faults):
                time.sleep(_TICK_S)
                continue
            received = self._peer.receive(_TICK_S)
            if received is not None:
                self._take(received[1])

    @property
    def _now_ms(self) -> int:
        return self._input_us // 1_000

    # ---- what the client says

    def _take(self, data: bytes) -> None:
        message: Any = None
        try:
            message = json.loads(data)
            kind = rules.check(message)
            if kind != "input_audio_buffer.append":
                self._fake.note(self._recording, message)
            _TAKES.get(kind, FakeGrokSession._overlook)(self, message)
        except ValueError:
            self._error("invalid_event", "a message is JSON", None)
        except rules.Refusal as refusal:
            event_id = message.get("event_id") if isinstance(message, dict) else None
            self._error(refusal.code, refusal.message, event_id)

    def _overlook(self, message: dict[str, Any]) -> None:
        """Documented, and nothing that the script needs."""

    def _on_update(self, message: dict[str, Any]) -> None:
        for fault in self._faults:
            if fault.kind is FaultKind.SLOW_START:
                time.sleep(fault.at_ms / 1_000)
        self._session = message["session"]
        shown = {name: value for name, value in message["session"].items() if name != "audio"}
        shown.setdefault("model", "grok-voice-3.0")
        self._say("session.updated", session={"id": "sess_1", "object": "realtime.session", "voice": "eve", **shown})

    def _on_audio(self, message: dict[str, Any]) -> None:
        kind, rate = rules.format_of(self._session or {}, "input")
        data = rules.audio(message["audio"], 2 if kind == "audio/pcm" else 1)
        recording = self._recording
        recording.early_audio += self._session is None
        recording.audio_bytes += len(data)
        recording.audio_messages += 1
        recording.loud_bytes += len(data) if data.strip(b"\x00" if kind == "audio/pcm" else b"\xff") else 0
        self._input_us += len(data) * 1_000_000 // (rate * (2 if kind == "audio/pcm" else 1))

    def _on_item(self, message: dict[str, Any]) -> None:
        item = dict(message["item"])
        item.setdefault("id", self._id("item"))
        text = item.get("output") or "".join(part.get("text", "") for part in item.get("content", []))
        self._to_say = text.rpartition(": ")[2]
        self._say("conversation.item.added", item={"object": "realtime.item", "status": "completed", **item})

    def _on_truncate(self, message: dict[str, Any]) -> None:
        kept = {name: message[name] for name in ("item_id", "content_index", "audio_end_ms")}
        self._say("conversation.item.truncated", **kept, transcript="")

    def _on_create(self, message: dict[str, Any]) -> None:
        if self._active is not None:
            code = "conversation_already_has_active_response"
            raise rules.Refusal(code, "the conversation already has an active response in progress")
        if not self._fake.answers:
            return
        metadata = message.get("response", {}).get("metadata")
        self._answer(self._to_say if self._fake.speaks else "", metadata)

    def _on_cancel(self, message: dict[str, Any]) -> None:
        if self._active is None:
            raise rules.Refusal("response_cancel_not_active", "there is no active response")
        self._finish("cancelled")

    # ---- the timeline

    def _advance(self) -> None:
        if self._session is None:
            return
        if self._active is not None and self._now_ms >= self._done_at_ms:
            self._finish("completed")
        while self._script and self._script[0].at_ms <= self._now_ms and not self._done:
            step = self._script.popleft()
            self._step(step.what, step.text)

    def _step(self, what: str, text: str) -> None:
        if what == "user":
            self._hear(text)
        elif what == "assistant":
            self._answer(text, None)
        elif what == "call":
            self._call(text)
        elif what == "interrupt":
            self._interrupt()
        elif what == "ping":
            self._say("ping", timestamp=int(time.time() * 1_000))
        elif what == "end":
            self._error(text, "the session is over", None)
            self._close(1000)
        elif what == "say":
            message = json.loads(text)
            self._say(message.pop("type"), **message)
        else:
            raise ValueError(f"no step {what}")

    def _hear(self, text: str) -> None:
        item, words = self._id("msg"), text.split()
        if self._detects:
            self._say("input_audio_buffer.speech_started", item_id=item)
        for count in range(1, len(words)):
            self._candidate("updated", item, " ".join(words[:count]))
        self._candidate("completed", item, " ".join(words[:-1]), status="in_progress")
        if self._detects:
            self._say("input_audio_buffer.speech_stopped", item_id=item)
        self._say("input_audio_buffer.committed", item_id=item)
        content = [{"type": "input_audio", "transcript": text}]
        shown = {"id": item, "object": "realtime.item", "type": "message", "role": "user", "status": "completed"}
        self._say("conversation.item.added", item={**shown, "content": content})
        self._candidate("completed", item, text, status="completed")

    def _candidate(self, kind: str, item: str, text: str, **more: Any) -> None:
        self._say(f"conversation.item.input_audio_transcription.{kind}", item_id=item, transcript=text, **more)

    @property
    def _detects(self) -> bool:
        """Not without turn detection at the top level of the configuration."""
        return bool((self._session or {}).get("turn_detection"))

    def _answer(self, text: str, metadata: Any) -> None:
        """Everything at once; generated faster than it would be heard."""
        self._begin(metadata)
        words = text.split()
        duration_ms = len(words) * MS_PER_WORD
        for at_ms in range(0, duration_ms, PACKET_MS):
            self._say_audio(tone(PACKET_MS, at_ms))
        for index, word in enumerate(words):
            self._say_part("response.output_audio_transcript.delta", delta=f" {word}" if index else word)
        if words:
            self._say_part("response.output_audio_transcript.done", transcript=text)
            self._say_part("response.output_audio.done")
        self._done_at_ms = self._now_ms + duration_ms // _FASTER

    def _begin(self, metadata: Any) -> None:
        self._finish("completed")
        self._active, self._item = self._id("resp"), self._id("msg")
        body: dict[str, Any] = {"id": self._active, "object": "realtime.response", "output": []}
        self._say("response.created", response={**body, "status": "in_progress", "metadata": metadata})

    def _finish(self, status: str) -> None:
        if self._active is None:
            return
        usage = {"input_tokens": 10, "output_tokens": 20, "total_tokens": 30}
        body: dict[str, Any] = {
            "id": self._active,
            "object": "realtime.response",
            "status": status,
            "output": [],
            "metadata": None,
        }
        self._say("response.done", response={**body, "usage": usage})
        self._active = None

    def _call(self, call_id: str) -> None:
        """Two messages of one call, at the end of a response."""
        if self._active is None:
            self._begin(None)
        names = rules.function_names(self._session or {}) or ["none"]
        arguments = json.dumps({"request": "what the caller wants"})
        call: dict[str, Any] = {"call_id": call_id, "name": names[0], "arguments": arguments}
        item = self._id("fc")
        self._say(
            "response.function_call_arguments.done", response_id=self._active, item_id=item, output_index=1, **call
        )
        shown = {"id": item, "object": "realtime.item", "type": "function_call", "status": "completed", **call}
        self._say("response.output_item.done", response_id=self._active, output_index=1, item=shown)
        self._finish("completed")

    def _interrupt(self) -> None:
        item, response, spoken = self._id("msg"), self._active, self._item
        for _ in range(2):  # seen: more than once a turn
            self._say("input_audio_buffer.speech_started", item_id=item)
        self._finish("cancelled")
        for at in range(LATE_DELTAS if response is not None else 0):
            self._active, self._item = response, spoken
            self._say_audio(tone(PACKET_MS))
            self._say_part("response.output_audio_transcript.delta", delta=f" late{at}")
        self._active = None
        self._say("input_audio_buffer.speech_stopped", item_id=item)

    # ---- what the server says

    def _say_part(self, kind: str, *, keep: bool = True, **fields: Any) -> None:
        ids = {"response_id": self._active or "resp_0", "item_id": self._item or "msg_0"}
        self._say(kind, keep=keep, **ids, output_index=0, content_index=0, **fields)

    def _say_audio(self, pcm: bytes) -> None:
        kind, _ = rules.format_of(self._session or {}, "output")
        data = pcm if kind == "audio/pcm" else mulaw.encode(_every_third(pcm))
        delta = base64.b64encode(data).decode()
        self._say_part("response.output_audio.delta", keep=len(self._recording.sent) < 200, delta=delta)

    def _error(self, code: str, message: str, event_id: Any) -> None:
        error = {"type": "invalid_request_error", "code": code, "message": message, "param": None}
        if isinstance(event_id, str):
            error["event_id"] = event_id
        self._say("error", error=error)

    def _say(self, kind: str, *, keep: bool = True, **fields: Any) -> None:
        if self._silent:
            return
        text = json.dumps({"event_id": self._id("event"), "type": kind, **fields})
        if keep:
            self._recording.sent.append(text)
        self._peer.send(text)

    def _id(self, prefix: str) -> str:
        self._counts[prefix] = self._counts.get(prefix, 0) + 1
        return f"{prefix}_{self._counts[prefix]}"

    def _close(self, code: int) -> None:
        self._peer.close(code)
        deadline = time.monotonic() + _GOODBYE_S
        self._done = True
        while time.monotonic() < deadline and not self._stopping():
            self._peer.receive(_TICK_S)  # ends with the client's own close
        self._peer.drop()

    # ---- faults

    def _is_due(self, fault: Fault) -> bool:
        now_ms = self._now_ms if self._session is not None else int((time.monotonic() - self._began) * 1_000)
        return now_ms >= fault.at_ms

    def _misbehave(self) -> None:
        for fault in list(self._faults):
            early = fault.kind in (FaultKind.WRONG_ORDER, FaultKind.SLOW_START, FaultKind.DEAF)
            started = self._session is not None
            if (started and not early and self._is_due(fault)) or (fault.kind is FaultKind.WRONG_ORDER):
                self._faults.remove(fault)
                _FAULTS[fault.kind](self, fault)

    def _silence(self, fault: Fault) -> None:
        self._silent, self._peer.answers_pings = True, False

    def _half_frame(self, fault: Fault) -> None:
        whole = frame(b'{"type":"response.output_audio.delta","delta":"' + b"A" * 4_000 + b'"}', 1)
        self._peer.send_raw(whole[: len(whole) // 2])
        self._silence(fault)

    def _wrong_order(self, fault: Fault) -> None:
        self._say_audio(tone(PACKET_MS))
        self._say_part("response.output_audio_transcript.delta", delta="too early")
        call: dict[str, Any] = {"call_id": "early", "name": "ask_application", "arguments": "{}"}
        self._say("response.function_call_arguments.done", response_id="resp_0", item_id="fc_0", output_index=0, **call)

    def _unknown_event(self, fault: Fault) -> None:
        self._peer.send(json.dumps({"type": "telepathy", "thought": {}}))
        self._peer.send("this is no JSON {")
        self._peer.send(b"\xff\xfe\x00", 2)

    def _odd_pcm(self, fault: Fault) -> None:
        delta = base64.b64encode(tone(PACKET_MS)[:-1]).decode()
        self._say_part("response.output_audio.delta", delta=delta)

    def _huge_message(self, fault: Fault) -> None:
        self._peer.send(b'{"' + b"x" * (32 * 1024 * 1024) + b'":1}')

    def _server_error(self, fault: Fault) -> None:
        self._error(fault.text, "something went wrong", None)

    def _close_code(self, fault: Fault) -> None:
        self._close(fault.code)

    def _drop(self, fault: Fault) -> None:
        self._peer.drop()
        self._done = True

    def _reset(self, fault: Fault) -> None:
        self._peer.reset()
        self._done = True

    def _flood(self, fault: Fault) -> None:
        for at_ms in range(0, 30_000, PACKET_MS):
            self._say_audio(tone(PACKET_MS, at_ms))


_TAKES: Final[dict[str, Callable[[FakeGrokSession, dict[str, Any]], None]]] = {
    "session.update": FakeGrokSession._on_update,
    "input_audio_buffer.append": FakeGrokSession._on_audio,
    "conversation.item.create": FakeGrokSession._on_item,
    "conversation.item.truncate": FakeGrokSession._on_truncate,
    "response.create": FakeGrokSession._on_create,
    "response.cancel": FakeGrokSession._on_cancel,
}
_FAULTS: Final[dict[FaultKind, Callable[[FakeGrokSession, Fault], None]]] = {
    FaultKind.SILENT: FakeGrokSession._silence,
    FaultKind.HALF_FRAME: FakeGrokSession._half_frame,
    FaultKind.WRONG_ORDER: FakeGrokSession._wrong_order,
    FaultKind.UNKNOWN_EVENT: FakeGrokSession._unknown_event,
    FaultKind.ODD_PCM: FakeGrokSession._odd_pcm,
    FaultKind.HUGE_MESSAGE: FakeGrokSession._huge_message,
    FaultKind.ERROR: FakeGrokSession._server_error,
    FaultKind.CLOSE_CODE: FakeGrokSession._close_code,
    FaultKind.NO_CLOSE_FRAME: FakeGrokSession._drop,
    FaultKind.RESET: FakeGrokSession._reset,
    FaultKind.FLOOD: FakeGrokSession._flood,
}


def _every_third(pcm: bytes) -> bytes:
    """24 kHz as 8 kHz: no filter, for a tone far below either limit needs none."""
    assert OUTPUT_HZ == 3 * 8_000
    return b"".join(pcm[at : at + 2] for at in range(0, len(pcm), 6))
