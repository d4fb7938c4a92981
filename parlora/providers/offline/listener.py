"""The hearing half: 20 ms frames in; when the caller starts, stops, and what was said come out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from parlora.audio.resample import Resampler
from parlora.errors import InvalidArgument
from parlora.providers.offline.grammar import Grammar
from parlora.providers.offline.happenings import CallerSaid, CallerStarted, CallerStopped, Happening
from parlora.providers.offline.recognizer import Recognition
from parlora.providers.offline.samples import (
    FRAME_BYTES,
    FRAME_MS,
    LISTEN_RATE_HZ,
    WIRE_RATE_HZ,
)
from parlora.providers.offline.vad import Onset, VoiceActivity

# The onset is known some 60 ms late and weak first consonants hide before it: the decoder hears this much from before.
PREROLL_FRAMES: Final = 300 // FRAME_MS
# Decoding the whole pre-roll at once would cost 25 ms; three frames a turn catch up within eight turns.
FRAMES_PER_TURN: Final = 3


class Recognizer(Protocol):
    """What the listener needs of `GrammarRecognizer`."""

    grammar: Grammar

    def start(self) -> None:
        """Begin an utterance."""

    def feed(self, audio: bytes) -> None:
        """Add mono PCM16 at 16 kHz."""

    def partial_is_whole(self) -> bool:
        """Whether what was heard so far is a whole sentence."""

    def stop(self) -> Recognition:
        """End the utterance."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """When an utterance is over, in frames of silence."""

    # "cancel" is a whole sentence and the start of "cancel order ...": less than 360 ms would cut the longer one.
    whole: int = 360 // FRAME_MS
    unfinished: int = 600 // FRAME_MS  # a pause inside a sentence
    look: int = 240 // FRAME_MS  # when the partial is looked at
    least_voiced: int = 100 // FRAME_MS  # an unknown noise shorter than this is no utterance
    longest: int = 20_000 // FRAME_MS  # steady noise that sounds like speech must end too


class _Utterance:
    """One stretch of speech on its way into the recognizer."""

    def __init__(self, began_ms: int, frame: int, voiced: int, waiting: deque[bytes]) -> None:
        self.began_ms = began_ms
        self.last_speech = frame
        self.voiced = voiced
        self.waiting = waiting
        self.frames = 0
        self.quiet = 0
        self.whole: bool | None = None


class Listener:
    """Counts time in frames; holds no clock and no thread. One thread at a time."""

    def __init__(self, recognizer: Recognizer, activity: VoiceActivity, endpoint: Endpoint | None = None) -> None:
        self._recognizer = recognizer
        self._activity = activity
        self._endpoint = endpoint or Endpoint()
        self._to_listen_rate = Resampler(WIRE_RATE_HZ, LISTEN_RATE_HZ)
        self._onset = Onset()
        self._before: deque[bytes] = deque(maxlen=PREROLL_FRAMES)
        self._utterance: _Utterance | None = None
        self._frames = 0

    @property
    def now_ms(self) -> int:
        """Audio heard so far."""
        return self._frames * FRAME_MS

    @property
    def caller_speaking(self) -> bool:
        """Whether an utterance of the caller is open."""
        return self._utterance is not None

    def feed(self, frame: bytes) -> list[Happening]:
        """Hear 20 ms of mono PCM16 at 24 kHz. Raises `InvalidArgument` for any other length."""
        if len(frame) != FRAME_BYTES:
            raise InvalidArgument(f"frame must have {FRAME_BYTES} bytes, got {len(frame)}", field="frame")
        audio = self._to_listen_rate.process(frame)
        self._frames += 1
        speech = self._activity(audio)
        if self._utterance is None:
            self._before.append(audio)
            return self._open() if self._onset.add(speech) else []
        return self._follow(self._utterance, audio, speech)

    def finish(self) -> list[Happening]:
        """The caller's audio ends here: close an open utterance at once."""
        return self._close(self._utterance) if self._utterance else []

    def _open(self) -> list[Happening]:
        began_ms = self.now_ms - self._onset.window_ms
        waiting = deque(self._before)
        self._utterance = _Utterance(began_ms, self._frames, self._onset.voiced, waiting)
        self._before.clear()
        self._recognizer.start()
        return [CallerStarted(self.now_ms, began_ms)]

    def _follow(self, utterance: _Utterance, audio: bytes, speech: bool) -> list[Happening]:
        utterance.waiting.append(audio)
        utterance.frames += 1
        self._decode(utterance, FRAMES_PER_TURN)
        if speech:
            utterance.voiced += 1
            utterance.quiet = 0
            utterance.whole = None
            utterance.last_speech = self._frames
        else:
            utterance.quiet += 1
            if utterance.quiet == self._endpoint.look:
                utterance.whole = self._recognizer.partial_is_whole()
        patience = self._endpoint.whole if utterance.whole else self._endpoint.unfinished
        if utterance.quiet >= patience or utterance.frames >= self._endpoint.longest:
            return self._close(utterance)
        return []

    def _decode(self, utterance: _Utterance, most: int) -> None:
        for _ in range(min(most, len(utterance.waiting))):
            self._recognizer.feed(utterance.waiting.popleft())

    def _close(self, utterance: _Utterance) -> list[Happening]:
        self._decode(utterance, len(utterance.waiting))
        heard = self._recognizer.stop()
        self._utterance = None
        self._onset.reset()
        end_ms = utterance.last_speech * FRAME_MS
        found: list[Happening] = [CallerStopped(self.now_ms, utterance.began_ms, end_ms)]
        if heard.text or utterance.voiced >= self._endpoint.least_voiced:
            found.append(CallerSaid(self.now_ms, utterance.began_ms, end_ms, heard.text, heard.margin))
        return found
