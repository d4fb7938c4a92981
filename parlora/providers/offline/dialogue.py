"""What the provider does with what it hears and is told: a pure core without thread, clock or port.

    dialogue.hear(frame)                       # 20 ms of the caller
    dialogue.append(update, command_id)        # text from the session
    audio = dialogue.take(480)                 # what to play
    for emission in dialogue.poll(): ...       # events for the session

Rules. A recognized utterance becomes a user transcript and one delegation. Unknown speech becomes one spoken reprompt
and no delegation. Speakable text is spoken in order, as soon as the caller is silent. The caller's speech cuts what is
being said; texts that had not begun are kept and spoken afterwards, and a mere noise only pauses the sentence it cut.
After a cut nothing is said until the session has cleared its queues, or will not any more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from parlora.contract.provider import ContextKind, ContextUpdate, Speaker
from parlora.errors import Backpressure, Closed, ParloraError
from parlora.events import EventType
from parlora.limits import ADMISSION_DEADLINE_MS
from parlora.providers.offline.happenings import (
    AssistantSaid,
    AssistantStarted,
    AssistantStopped,
    CallerSaid,
    CallerStarted,
    CallerStopped,
    Happening,
)
from parlora.providers.offline.samples import FRAME_BYTES
from parlora.providers.offline.speaker import Phrase
from parlora.providers.offline.synthesizer import Speech
from parlora.providers.offline.voice import OfflineVoice
from parlora.providers.offline.words import spell_digits

MAX_WAITING_TEXTS: Final = 16  # speakable updates that wait for their turn; a minute of speech or more
MAX_CONTEXT_UPDATES: Final = 64  # quiet and instruction updates kept, oldest dropped
USAGE_EVERY_MS: Final = 10_000
# How long after a cut the end of the clear barrier is awaited: what is said before it would be cleared too. By then the
# session has let us resume or ends. Mostly this holds nothing up: the caller's own words take longer.
CLEAR_PATIENCE_MS: Final = ADMISSION_DEADLINE_MS
SILENCE: Final = bytes(FRAME_BYTES)


@dataclass(frozen=True, slots=True)
class Emission:
    """One event for the session."""

    type: str
    payload: dict[str, Any]
    command_id: str | None = None


class Dialogue:
    """One conversation. One thread at a time.

    `new_id` makes delegation ids and interruption tokens. `reprompt` answers unknown speech, None for silence;
    `greeting` is spoken when the first audio of the caller arrives.
    """

    def __init__(
        self,
        voice: OfflineVoice,
        new_id: Callable[[], str],
        *,
        reprompt: str | None,
        greeting: str | None = None,
    ) -> None:
        self._voice = voice
        self._new_id = new_id
        self._reprompt = reprompt
        self._greeting = greeting
        self._waiting: deque[str] = deque()
        self._context: deque[ContextUpdate] = deque(maxlen=MAX_CONTEXT_UPDATES)
        self._muted = False
        self._closed = False
        self._speaking = False  # as last reported
        self._begun = False  # whether a sample of the current text was handed out
        self._cut = ""  # what the caller's open utterance kept from being said
        self._clearing = ""  # token of the barrier that is awaited
        self._clear_by_ms = 0
        self._spoken_ms = 0
        self._usage_at_ms = USAGE_EVERY_MS
        self._emissions: list[Emission] = []

    @property
    def context(self) -> tuple[ContextUpdate, ...]:
        """The latest quiet and instruction updates. A grammar has no use for them: they are kept, not interpreted."""
        return tuple(self._context)

    @property
    def audible(self) -> bool:
        """Whether the next `take` has sound to give."""
        return self._voice.audible

    def hear(self, frame: bytes) -> None:
        """20 ms of the caller, mono PCM16 at 24 kHz; silence in its place while the input is muted."""
        if self._greeting:
            self._waiting.append(self._greeting)
            self._greeting = None
        self._follow(self._voice.feed(SILENCE if self._muted else frame))
        if self._voice.heard_ms >= self._usage_at_ms:
            self._usage_at_ms += USAGE_EVERY_MS
            self._emit(EventType.USAGE_UPDATED, self.usage(final=False))
        self._speak_next()

    def append(self, update: ContextUpdate, command_id: str) -> None:
        """Take one update: acknowledged, or rejected if too many texts wait or the provider is closing."""
        if self._closed:
            self._reject(Closed("the provider is closing"), command_id)
            return
        if update.kind is ContextKind.SPEAKABLE:
            if len(self._waiting) >= MAX_WAITING_TEXTS:
                error = Backpressure(
                    f"{MAX_WAITING_TEXTS} speakable updates wait already", details={"most": MAX_WAITING_TEXTS}
                )
                self._reject(error, command_id)
                return
            self._waiting.append(update.text)
        else:
            self.keep(update)
        self._emit(EventType.CONTEXT_ACKNOWLEDGED, {"kind": str(update.kind), "error": None}, command_id)
        self._speak_next()

    def keep(self, update: ContextUpdate) -> None:
        """Remember a quiet or instruction text; the oldest beyond 64 is forgotten."""
        self._context.append(update)

    def mute(self, on: bool, command_id: str) -> None:
        """Hear silence instead of the caller while on."""
        self._muted = on
        outcome = {"control": "mute_input", "scope": "provider", "on": on, "error": None}
        self._emit(EventType.CONTROL_COMPLETED, outcome, command_id)

    def clear(self) -> None:
        """The session dropped its queues: what is being said goes with them, texts that wait stay."""
        if self._voice.interrupt():
            self._follow(self._voice.poll())

    def resume(self, token: str) -> None:
        """The clear barrier of the interruption with this token is over; another token is ignored."""
        if token == self._clearing:
            self._clearing = ""
            self._speak_next()

    def wanted(self) -> Phrase | None:
        """The phrase to synthesize next, named once."""
        return self._voice.wanted()

    def supply(self, phrase: Phrase, speech: Speech) -> None:
        """The speech for a phrase that `wanted` named."""
        self._voice.supply(phrase, speech)

    def take(self, samples: int) -> bytes:
        """Exactly `samples` samples of mono PCM16 at 24 kHz."""
        audio = self._voice.take(samples)
        self._follow(self._voice.poll())
        self._speak_next()
        return audio

    def usage(self, *, final: bool) -> dict[str, Any]:
        """Seconds heard and spoken since the start."""
        return {"seconds": self._voice.heard_ms / 1000, "speech_seconds": self._spoken_ms / 1000, "final": final}

    def close(self) -> None:
        """Take no more texts: one that comes is rejected."""
        self._closed = True

    def poll(self) -> list[Emission]:
        """Events since the last call."""
        emissions, self._emissions = self._emissions, []
        return emissions

    def _follow(self, happened: list[Happening]) -> None:
        # The cut first: until the session hears of it, its queues still play.
        for item in sorted(happened, key=lambda item: not _is_cut(item)):
            match item:
                case CallerStarted():
                    pass  # it has cut what was said; what it says is known when it stops
                case CallerStopped():
                    unheard = not any(isinstance(other, CallerSaid) for other in happened)
                    if unheard and self._cut:
                        self._waiting.appendleft(self._cut)
                    self._cut = ""
                case CallerSaid():
                    self._caller_said(item)
                case AssistantStarted():
                    self._begun = True
                    self._report_speech(True)
                case AssistantStopped():
                    self._stopped(item)
                case AssistantSaid():
                    self._assistant_said(item)

    def _caller_said(self, said: CallerSaid) -> None:
        if not said.text:
            span = {"start_ms": said.start_ms, "end_ms": said.end_ms}
            self._emit(EventType.EXTENSION, {"name": "speech_rejected", **span})
            if self._reprompt and self._reprompt not in self._waiting:
                self._waiting.appendleft(self._reprompt)
            return
        self._transcript(Speaker.USER, said.text, said.start_ms, said.end_ms)
        request = {"delegation_id": self._new_id(), "target": "client", "offset_ms": said.end_ms}
        self._emit(EventType.DELEGATION_REQUESTED, request)

    def _assistant_said(self, said: AssistantSaid) -> None:
        self._spoken_ms += said.end_ms - said.start_ms
        if said.text:
            more = {"truncated": True} if said.cut else {}
            self._transcript(Speaker.ASSISTANT, said.text, said.start_ms, said.end_ms, more)

    def _stopped(self, stopped: AssistantStopped) -> None:
        begun, self._begun = self._begun, False
        if stopped.interrupted:
            if not begun:
                self._waiting.appendleft(self._voice.dropped)
            else:
                self._cut = self._voice.dropped if self._voice.caller_speaking else ""
                if self._voice.caller_speaking:
                    self._clearing = self._new_id()
                    self._clear_by_ms = self._voice.heard_ms + CLEAR_PATIENCE_MS
                    self._emit(EventType.OUTPUT_INTERRUPTED, {"token": self._clearing})
        self._report_speech(False)

    def _reject(self, error: ParloraError, command_id: str) -> None:
        self._emit(EventType.CONTEXT_REJECTED, {"error": error.to_data()}, command_id)

    def _report_speech(self, speaking: bool) -> None:
        if speaking != self._speaking:
            self._speaking = speaking
            self._emit(EventType.PROVIDER_SPEECH, {"status": "speaking" if speaking else "idle"})

    def _speak_next(self) -> None:
        if self._clearing and self._voice.heard_ms >= self._clear_by_ms:
            self._clearing = ""
        idle = not (self._voice.speaking or self._voice.caller_speaking or self._clearing)
        if idle and self._waiting:
            self._voice.say(spell_digits(self._waiting.popleft()))

    def _transcript(
        self, speaker: Speaker, text: str, start_ms: int, end_ms: int, more: Mapping[str, Any] | None = None
    ) -> None:
        entry = {"speaker": str(speaker), "delta": text, "start_ms": start_ms, "end_ms": end_ms, **(more or {})}
        self._emit(EventType.TRANSCRIPT_DELTA, entry)

    def _emit(self, type: EventType, payload: dict[str, Any], command_id: str | None = None) -> None:
        self._emissions.append(Emission(str(type), payload, command_id))


def _is_cut(item: Happening) -> bool:
    return isinstance(item, AssistantStopped) and item.interrupted
