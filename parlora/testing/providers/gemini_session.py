"""One connection of the fake Gemini Live: its timeline, its script, its answers and its faults."""

from __future__ import annotations

import base64
import json
import math
import secrets
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from parlora.testing.providers import gemini_rules as rules
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.websocket import BINARY, Peer, frame

if TYPE_CHECKING:
    from parlora.testing.providers.gemini import FakeGemini, Recording

PACKET_MS: Final = 250
MS_PER_WORD: Final = 250
OUTPUT_HZ: Final = 24_000
TONE_HZ: Final = 220
TOKENS_PER_WORD: Final = 8
_INPUT_HZ: Final = 16_000
_TICK_S: Final = 0.02
_GOODBYE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """Something at a time of the timeline, which runs on the caller's audio.

    what: `user` says `text`; `assistant` answers with `text`, all of it at once; `call` of the first declared function
    with id `text`; `cancel` of the calls in `text`; `interrupt`; `status` with `text` as the interaction's; `go_away`
    with `text` as the time left, after which the connection is closed; `close` with `text` as code.
    """

    at_ms: int
    what: str
    text: str = ""


class FakeGeminiSession:
    """For one thread."""

    def __init__(
        self, fake: FakeGemini, peer: Peer, recording: Recording, number: int, stopping: Callable[[], bool]
    ) -> None:
        self._fake, self._peer, self._recording, self._stopping = fake, peer, recording, stopping
        hits = [fault for fault in fake.faults if fault.hits(number)]
        self._faults = [fault for fault in hits if fault.kind is not FaultKind.REFUSED]
        self._script: deque[Step] = deque()
        self._began = time.monotonic()
        self._setup: dict[str, Any] | None = None
        self.handle: str | None = None
        """By which the session can be resumed."""
        self._input_us = 0
        self._history_comes = False
        self._speaking_until_ms: int | None = None
        self._to_say: deque[str] = deque()
        self._words = 0
        self._silent = self._done = False

    def run(self) -> None:
        """Serve until the session or its connection ends."""
        if not self._fake.lets_in(self._peer.request):
            self._close(rules.INVALID, "API key not valid. Please pass a valid API key.")
        while not self._done and not self._stopping():
            self._misbehave()
            self._advance()
            if self._is_deaf():
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
        try:
            kind, body = rules.check(_parse(data))
            if kind != "realtimeInput" or "audio" not in body:
                self._fake.note(self._recording, {kind: body})
            if (kind == "setup") is (self._setup is not None):
                raise rules.Refusal(rules.INVALID, "setup must be the first message, and the only one")
            self._act(kind, body)
        except rules.Refusal as refusal:
            self._close(refusal.code, refusal.reason)

    def _act(self, kind: str, body: dict[str, Any]) -> None:
        if kind == "setup":
            self._set_up(body)
        elif kind == "realtimeInput" and "audio" in body:
            self._hear(*rules.audio(body["audio"]))
        elif kind == "clientContent":
            self._read(body)
        elif kind == "toolResponse":
            for response in body.get("functionResponses", []):
                if response.get("scheduling", "WHEN_IDLE") != "SILENT":
                    self._to_say.append(str(response["response"].get("output", "")))

    def _set_up(self, setup: dict[str, Any]) -> None:
        for fault in self._faults:
            if fault.kind is FaultKind.SLOW_START:
                time.sleep(fault.at_ms / 1_000)
        handle = setup.get("sessionResumption", {}).get("handle")
        if handle is not None:
            takes = self._fake.takes(handle)
            if takes is None:
                raise rules.Refusal(rules.POLICY, "BidiGenerateContent session not found")
            if not takes:
                raise rules.Refusal(1011, "Internal error encountered.")
            self.handle = handle
        else:
            self._script.extend(sorted(self._fake.script, key=lambda step: step.at_ms))
        self._setup = setup
        self._history_comes = bool(setup.get("historyConfig", {}).get("initialHistoryInClientContent"))
        self._say({"setupComplete": {}})
        if "sessionResumption" in setup and self._fake.resumable:
            self.handle = secrets.token_urlsafe(24)
            self._fake.give(self.handle)
            self._say({"sessionResumptionUpdate": {"newHandle": self.handle, "resumable": True}})

    def _hear(self, data: bytes, rate: int) -> None:
        recording = self._recording
        recording.audio_bytes += len(data)
        recording.audio_messages += 1
        recording.rate = rate
        recording.loud_bytes += len(data) if data.strip(b"\x00") else 0
        self._input_us += len(data) * 500_000 // rate

    def _read(self, content: dict[str, Any]) -> None:
        if self._history_comes:
            self._history_comes = not content.get("turnComplete")
        elif content.get("turnComplete"):
            self._interrupt()
            self._to_say.append(content["turns"][-1]["parts"][0]["text"].rpartition(": ")[2])

    # ---- the timeline

    def _advance(self) -> None:
        if self._setup is None:
            return
        now = self._now_ms
        if self._speaking_until_ms is not None and now >= self._speaking_until_ms:
            self._end_turn()
        while self._script and self._script[0].at_ms <= now and not self._done:
            self._step(self._script.popleft())
        if self._to_say and self._speaking_until_ms is None:
            words = self._to_say.popleft()
            if self._fake.speaks and words:
                self._answer(words)

    def _step(self, step: Step) -> None:
        what, text = step.what, step.text
        if what == "user":
            for index, word in enumerate(text.split()):
                self._content(inputTranscription={"text": f" {word}" if index else word})
        elif what == "assistant":
            self._answer(text)
        elif what == "call":
            call = {"id": text, "name": self._function(), "args": {"request": "what the caller wants"}}
            self._say({"toolCall": {"functionCalls": [call]}})
        elif what == "cancel":
            self._say({"toolCallCancellation": {"ids": text.split()}})
        elif what == "interrupt":
            self._interrupt()
        elif what == "status":
            self._content(interactionStatus=text)
        elif what == "go_away":
            self._say({"goAway": {"timeLeft": text}})
            self._script.appendleft(Step(step.at_ms + int(float(text[:-1]) * 1_000), "close", "1000"))
        elif what == "close":
            self._close(int(text), "The operation was cancelled.")
        else:
            raise ValueError(f"no step {what}")

    def _function(self) -> str:
        assert self._setup is not None
        tools = self._setup.get("tools") or [{"functionDeclarations": [{"name": "none"}]}]
        return str(tools[0]["functionDeclarations"][0]["name"])

    def _answer(self, text: str) -> None:
        """Everything at once; the turn is over when it would have been heard."""
        words = text.split()
        duration_ms = max(PACKET_MS, len(words) * MS_PER_WORD)
        for at_ms in range(0, duration_ms, PACKET_MS):
            self._say_audio(tone(PACKET_MS, at_ms))
        for index, word in enumerate(words[:-1]):
            self._content(outputTranscription={"text": f"{' ' if index else ''}{word}"})
        # several things in one message, as the service does at times
        last = f" {words[-1]}" if len(words) > 1 else text
        self._content(outputTranscription={"text": last}, generationComplete=True)
        self._speaking_until_ms = max(self._now_ms, self._speaking_until_ms or 0) + duration_ms
        self._words = len(words)

    def _end_turn(self) -> None:
        self._speaking_until_ms = None
        tokens = self._words * TOKENS_PER_WORD
        usage = {"promptTokenCount": 10, "responseTokenCount": tokens, "totalTokenCount": 10 + tokens}
        content = {"turnComplete": True, "interactionStatus": "IDLE"}
        self._say({"serverContent": content, "usageMetadata": usage})

    def _interrupt(self) -> None:
        if self._speaking_until_ms is None:
            return
        self._speaking_until_ms = None
        self._content(interrupted=True)
        self._content(turnComplete=True)

    # ---- what the server says

    def _content(self, **fields: Any) -> None:
        self._say({"serverContent": fields})

    def _say_audio(self, data: bytes) -> None:
        inline = {"mimeType": f"audio/pcm;rate={OUTPUT_HZ}", "data": base64.b64encode(data).decode()}
        turn = {"role": "model", "parts": [{"inlineData": inline}]}
        self._say({"serverContent": {"modelTurn": turn}}, keep=len(self._recording.sent) < 100)

    def _say(self, message: dict[str, Any], *, keep: bool = True) -> None:
        if self._silent:
            return
        text = json.dumps(message)
        if keep:
            self._recording.sent.append(text)
        self._peer.send(text, BINARY)

    def _close(self, code: int, reason: str = "") -> None:
        if not self._silent:
            self._peer.close(code, reason)
            deadline = time.monotonic() + _GOODBYE_S
            while time.monotonic() < deadline and not self._stopping():
                self._peer.receive(_TICK_S)  # ends with the client's own close
        self._peer.drop()
        self._done = True

    # ---- faults

    def _is_deaf(self) -> bool:
        return any(fault.kind is FaultKind.DEAF and self._is_due(fault) for fault in self._faults)

    def _is_due(self, fault: Fault) -> bool:
        now_ms = self._now_ms if self._setup is not None else int((time.monotonic() - self._began) * 1_000)
        return now_ms >= fault.at_ms

    def _misbehave(self) -> None:
        for fault in list(self._faults):
            early = fault.kind in (FaultKind.WRONG_ORDER, FaultKind.SLOW_START, FaultKind.DEAF)
            started = self._setup is not None
            if (started and not early and self._is_due(fault)) or (fault.kind is FaultKind.WRONG_ORDER):
                self._faults.remove(fault)
                _FAULTS[fault.kind](self, fault)

    def _silence(self, fault: Fault) -> None:
        self._silent, self._peer.answers_pings = True, False

    def _half_frame(self, fault: Fault) -> None:
        whole = frame(b'{"serverContent":{"modelTurn":{"parts":[{"text":"' + b"A" * 4_000 + b'"}]}}}', BINARY)
        self._peer.send_raw(whole[: len(whole) // 2])
        self._silence(fault)

    def _wrong_order(self, fault: Fault) -> None:
        self._say_audio(tone(PACKET_MS))
        self._content(outputTranscription={"text": "too early"})
        self._say({"toolCall": {"functionCalls": [{"id": "early", "name": "ask_application", "args": {}}]}})

    def _unknown_event(self, fault: Fault) -> None:
        self._peer.send(json.dumps({"telepathy": {"thought": {}}}), BINARY)
        self._peer.send("this is no JSON {")
        self._peer.send(b"\xff\xfe\x00", BINARY)

    def _odd_pcm(self, fault: Fault) -> None:
        self._say_audio(tone(PACKET_MS)[:-1])

    def _huge_message(self, fault: Fault) -> None:
        self._peer.send(b'{"' + b"x" * (32 * 1024 * 1024) + b'":1}', BINARY)

    def _server_error(self, fault: Fault) -> None:
        self._say({"error": {"code": 500, "status": fault.text, "message": "something went wrong"}})

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


_FAULTS: Final[dict[FaultKind, Callable[[FakeGeminiSession, Fault], None]]] = {
    FaultKind.SILENT: FakeGeminiSession._silence,
    FaultKind.HALF_FRAME: FakeGeminiSession._half_frame,
    FaultKind.WRONG_ORDER: FakeGeminiSession._wrong_order,
    FaultKind.UNKNOWN_EVENT: FakeGeminiSession._unknown_event,
    FaultKind.ODD_PCM: FakeGeminiSession._odd_pcm,
    FaultKind.HUGE_MESSAGE: FakeGeminiSession._huge_message,
    FaultKind.ERROR: FakeGeminiSession._server_error,
    FaultKind.CLOSE_CODE: FakeGeminiSession._close_code,
    FaultKind.NO_CLOSE_FRAME: FakeGeminiSession._drop,
    FaultKind.RESET: FakeGeminiSession._reset,
    FaultKind.FLOOD: FakeGeminiSession._flood,
}


def tone(duration_ms: int, at_ms: int = 0) -> bytes:
    """PCM16 at 24 kHz, from a time of a continuous tone."""
    first, count = OUTPUT_HZ * at_ms // 1_000, OUTPUT_HZ * duration_ms // 1_000
    wave = (int(6_000 * math.sin(2 * math.pi * TONE_HZ * n / OUTPUT_HZ)) for n in range(first, first + count))
    return struct.pack(f"<{count}h", *wave)


def _parse(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        raise rules.Refusal(rules.INVALID, "a message is JSON") from None
