"""One session of the fake GPT-Live: its timeline, its script, its answers and its faults."""

from __future__ import annotations

import base64
import json
import math
import secrets
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from parlora.audio import mulaw
from parlora.testing.providers import openai_rules as rules
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.websocket import BINARY, CLOSE, Peer, frame

if TYPE_CHECKING:
    from parlora.testing.providers.openai import FakeOpenAI, Recording

DELTA_MS: Final = 100
ACK_MS: Final = 700
USAGE_MS: Final = 15_000
SPEECH_DELAY_MS: Final = 150
CAPTION_MS: Final = 200
MS_PER_WORD: Final = 250
TONE_HZ: Final = 220
_TICK_S: Final = 0.05
_DROP_S: Final = 2.0
_EXPIRES_S: Final = 7_200


@dataclass(frozen=True, slots=True)
class Step:
    """Something at a time of the timeline. what: `user` or `assistant` says `text`, or a `delegation` with id `text`.

    `cut` ends what the assistant is saying, as moderation does, with an error that does not end the session; `end` ends
    the session with `text` as its reason: expired, content, remote_hangup or connection_lost.
    """

    at_ms: int
    what: str
    text: str = ""


class FakeLiveSession:
    """For one thread."""

    def __init__(
        self, fake: FakeOpenAI, peer: Peer, recording: Recording, faults: Sequence[Fault], stopping: Callable[[], bool]
    ) -> None:
        self._fake, self._peer, self._recording, self._stopping = fake, peer, recording, stopping
        self._faults = [fault for fault in faults if fault.kind is not FaultKind.REFUSED]
        self._began = time.monotonic()
        self._heard_at = self._began
        self._session: dict[str, Any] | None = None
        self._id = f"live_{secrets.token_hex(8)}"
        self._sample_bytes, self._rate = 2, 24_000
        self._input_bytes = 0
        self._sent_ms = 0
        self._script = deque(sorted(fake.script, key=lambda step: step.at_ms))
        self._captions: deque[tuple[int, str, str, int]] = deque()  # at, speaker, text, end
        self._speaking_until_ms = 0
        self._pending: deque[tuple[int, str, dict[str, Any]]] = deque()  # acknowledged at, type, message
        self._delegations: set[str] = set()
        self._usage_ms = 0
        self._silent = self._done = False

    def run(self) -> None:
        """Serve until the session or its connection ends."""
        while not self._done and not self._stopping():
            self._misbehave()
            received = None if self._is_deaf() else self._peer.receive(_TICK_S)
            if self._is_deaf():
                time.sleep(_TICK_S)
            if received is not None:
                self._take(received[1])
            elif self._session is not None and self._idle_ms() >= self._fake.deaf_ms:
                self._end("expired")

    @property
    def _now_ms(self) -> int:
        return self._input_bytes * 1_000 // (self._rate * self._sample_bytes)

    def _idle_ms(self) -> int:
        return int((time.monotonic() - self._heard_at) * 1_000)

    # ---- what the client says

    def _take(self, data: bytes) -> None:
        try:
            message = json.loads(data)
        except ValueError:
            self._refuse(rules.Refusal("invalid_json", "a message is JSON"), None)
            return
        event_id = message.get("event_id") if isinstance(message, dict) else None
        try:
            kind = rules.check(message)
            if kind != "session.input_audio.append":
                self._fake.note(self._recording, message)
            self._act(kind, message, event_id)
        except rules.Refusal as refusal:
            self._refuse(refusal, event_id)

    def _act(self, kind: str, message: dict[str, Any], event_id: Any) -> None:
        if kind == "session.start":
            self._start(message["session"], event_id)
        elif self._session is None:
            raise rules.Refusal("session_not_started", "session.start comes first", "type")
        elif kind == "session.input_audio.append":
            self._hear(rules.check_audio(message["audio"], self._sample_bytes))
        elif kind == "session.close":
            self._close(event_id)
        elif kind.endswith(".append"):
            rules.check_append(message, self._delegations)
            self._pending.append((self._now_ms + ACK_MS, kind, message))
        else:
            self._event(f"{kind}d", event_id)

    def _start(self, session: dict[str, Any], event_id: Any) -> None:
        if self._session is not None:
            raise rules.Refusal("session_already_started", "the session has started", "type")
        for fault in self._faults:
            if fault.kind is FaultKind.SLOW_START:
                time.sleep(fault.at_ms / 1_000)
        format = session.get("audio", {}).get("format", {"type": "audio/pcm", "rate": 24_000})
        self._sample_bytes, self._rate = (2 if format["type"] == "audio/pcm" else 1), format["rate"]
        voice = session.get("audio", {}).get("output", {}).get("voice", "marin")
        self._session = {
            "id": self._id,
            "expires_at": int(time.time()) + _EXPIRES_S,
            "status": "active",
            "model": session["model"],
            "audio": {"format": format, "output": {"voice": voice}},
            "delegation": session.get("delegation") or {"type": "client"},
        }
        self._heard_at = time.monotonic()
        self._event("session.started", event_id, session=self._session)

    def _hear(self, data: bytes) -> None:
        recording = self._recording
        recording.audio_bytes += len(data)
        recording.audio_messages += 1
        recording.loud_bytes += len(data) if data.strip(b"\x00" if self._sample_bytes == 2 else b"\xff") else 0
        self._heard_at = time.monotonic()
        self._input_bytes += len(data)
        while self._sent_ms + DELTA_MS <= self._now_ms:
            self._advance()

    # ---- the timeline

    def _advance(self) -> None:
        now = self._sent_ms
        while self._script and self._script[0].at_ms <= now:
            self._step(self._script.popleft())
        while self._captions and self._captions[0][0] <= now:
            at_ms, speaker, text, end_ms = self._captions.popleft()
            kind = {"user": "input", "assistant": "output"}[speaker]
            self._event(f"session.{kind}_transcript.delta", delta=text, start_ms=at_ms, end_ms=end_ms)
        while self._pending and self._pending[0][0] <= now:
            self._acknowledge(*self._pending.popleft())
        if now - self._usage_ms >= USAGE_MS:
            self._usage_ms = now
            self._event("session.usage.updated", usage={"seconds": now // 1_000}, context_window={"usage_ratio": 0.01})
        self._send_audio(self._sound(now < self._speaking_until_ms))
        self._sent_ms += DELTA_MS

    def _step(self, step: Step) -> None:
        if step.what in ("user", "assistant"):
            self._say(step.what, step.text)
        elif step.what == "delegation":
            self._delegations.add(step.text)
            delegation = {"id": step.text, "type": "delegation", "target": "client"}
            self._event("session.delegation.created", offset_ms=self._sent_ms, delegation=delegation)
        elif step.what == "cut":
            self._speaking_until_ms = 0
            self._captions = deque(caption for caption in self._captions if caption[1] == "user")
            self._error("content_policy", "the utterance was cut", kind="moderation_error")
        elif step.what == "end":
            self._end(step.text)
        else:
            raise ValueError(f"no step {step.what}")

    def _say(self, speaker: str, text: str) -> None:
        at_ms = self._sent_ms
        for index, word in enumerate(text.split()):
            start = at_ms + index * MS_PER_WORD // CAPTION_MS * CAPTION_MS
            self._captions.append((start, speaker, f" {word}" if index else word, start + MS_PER_WORD))
        self._captions = deque(sorted(self._captions, key=lambda caption: caption[0]))
        if speaker == "assistant":
            self._speaking_until_ms = at_ms + len(text.split()) * MS_PER_WORD

    def _acknowledge(self, at_ms: int, kind: str, message: dict[str, Any]) -> None:
        self._event(f"{kind}ed", message.get("event_id"), start_ms=at_ms - ACK_MS, end_ms=at_ms)
        if kind == "session.commentary.append" and self._fake.speaks_commentary:
            self._script.appendleft(Step(self._sent_ms + SPEECH_DELAY_MS, "assistant", message["content"]))

    def _sound(self, speaking: bool) -> bytes:
        samples = self._rate * DELTA_MS // 1_000
        if not speaking:
            return bytes(2 * samples) if self._sample_bytes == 2 else b"\xff" * samples
        wave = [int(6_000 * math.sin(2 * math.pi * TONE_HZ * n / self._rate)) for n in range(samples)]
        pcm = struct.pack(f"<{samples}h", *wave)
        return pcm if self._sample_bytes == 2 else mulaw.encode(pcm)

    # ---- the end

    def _close(self, event_id: Any) -> None:
        for _, _, message in self._pending:
            self._error("context_injection_incomplete", "the append was pending", event_id=message.get("event_id"))
        self._pending.clear()
        self._end("close_requested", event_id)

    def _end(self, reason: str, event_id: Any = None) -> None:
        usage = {"seconds": self._now_ms // 1_000}
        if self._silent:
            return
        self._event("session.closed", event_id, reason=reason, session=self._session, usage=usage)
        variant = str(self._fake.close_variant)
        if variant == "normal":
            self._peer.close(1000)
        elif variant == "no_code":
            self._peer.send(b"", CLOSE)
        deadline = time.monotonic() + _DROP_S
        while time.monotonic() < deadline and not self._stopping():
            self._peer.receive(_TICK_S)  # ends with the client's own end; what it still sends is rejected
        self._peer.drop()
        self._done = True

    # ---- what the server says

    def _refuse(self, refusal: rules.Refusal, event_id: Any) -> None:
        self._error(refusal.code, refusal.message, refusal.param, event_id)
        if self._session is None:
            self._peer.drop()  # there is no session, and the real one ends the connection soon after
            self._done = True

    def _error(
        self, code: str, text: str, param: str | None = None, event_id: Any = None, kind: str = "invalid_request_error"
    ) -> None:
        error = {"type": kind, "code": code, "message": text, "param": param}
        if isinstance(event_id, str):
            error["client_event_id"] = event_id
        self._event("error", error=error)

    def _event(self, type: str, client_event_id: Any = None, **fields: Any) -> None:
        message: dict[str, Any] = {"type": type, "event_id": f"event_{secrets.token_hex(6)}"}
        if isinstance(client_event_id, str):
            message["client_event_id"] = client_event_id
        self._say_text(json.dumps({**message, **fields}))

    def _send_audio(self, data: bytes) -> None:
        delta = base64.b64encode(data).decode()
        self._say_text(json.dumps({"type": "session.output_audio.delta", "delta": delta}), keep=False)

    def _say_text(self, text: str, *, keep: bool = True) -> None:
        if self._silent:
            return
        if keep:
            self._recording.sent.append(text)
        self._peer.send(text)

    # ---- faults

    def _is_deaf(self) -> bool:
        return any(fault.kind is FaultKind.DEAF and self._is_due(fault) for fault in self._faults)

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
        whole = frame(b'{"type":"session.output_audio.delta","delta":"' + b"A" * 4_000 + b'"}', 1)
        self._peer.send_raw(whole[: len(whole) // 2])
        self._silence(fault)

    def _wrong_order(self, fault: Fault) -> None:
        self._send_audio(self._sound(True))
        self._event("session.output_transcript.delta", delta="too early", start_ms=0, end_ms=100)
        delegation = {"id": "item_early", "type": "delegation", "target": "client"}
        self._event("session.delegation.created", offset_ms=0, delegation=delegation)

    def _unknown_event(self, fault: Fault) -> None:
        self._peer.send(json.dumps({"type": "session.telepathy.started", "event_id": "event_x", "thought": {}}))
        self._peer.send("this is no JSON {")
        self._peer.send(b"\xff\xfe\x00", BINARY)

    def _odd_pcm(self, fault: Fault) -> None:
        self._send_audio(self._sound(True)[:-1])

    def _huge_message(self, fault: Fault) -> None:
        self._peer.send(b'{"type":"' + b"x" * (32 * 1024 * 1024) + b'"}')

    def _server_error(self, fault: Fault) -> None:
        self._error(fault.text, "something went wrong", kind="server_error")

    def _close_code(self, fault: Fault) -> None:
        self._peer.close(fault.code)
        self._drop(fault)

    def _drop(self, fault: Fault) -> None:
        self._peer.drop()
        self._done = True

    def _reset(self, fault: Fault) -> None:
        self._peer.reset()
        self._done = True

    def _flood(self, fault: Fault) -> None:
        sound = self._sound(True)
        for _ in range(30_000 // DELTA_MS):
            self._send_audio(sound)


_FAULTS: Final[dict[FaultKind, Callable[[FakeLiveSession, Fault], None]]] = {
    FaultKind.SILENT: FakeLiveSession._silence,
    FaultKind.HALF_FRAME: FakeLiveSession._half_frame,
    FaultKind.WRONG_ORDER: FakeLiveSession._wrong_order,
    FaultKind.UNKNOWN_EVENT: FakeLiveSession._unknown_event,
    FaultKind.ODD_PCM: FakeLiveSession._odd_pcm,
    FaultKind.HUGE_MESSAGE: FakeLiveSession._huge_message,
    FaultKind.ERROR: FakeLiveSession._server_error,
    FaultKind.CLOSE_CODE: FakeLiveSession._close_code,
    FaultKind.NO_CLOSE_FRAME: FakeLiveSession._drop,
    FaultKind.RESET: FakeLiveSession._reset,
    FaultKind.FLOOD: FakeLiveSession._flood,
}
