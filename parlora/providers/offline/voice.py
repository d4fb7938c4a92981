"""The voice: a listener and a speaker that give way to each other. Sans-I/O.

    voice = OfflineVoice(Listener(GrammarRecognizer(Grammar.parse(RULES)), WebRtcVoiceActivity()))
    happenings = voice.feed(frame)      # 20 ms of mono PCM16 at 24 kHz in
    audio = voice.take(480)             # exactly as many samples out
    voice.say("Order one two three has shipped.")
    while phrase := voice.wanted():     # synthesis is the owner's: inline here, or on another thread
        voice.supply(phrase, synthesizer.speak(phrase.text))

Nothing in here opens a device, sleeps, reads a clock or starts a thread: time is counted in samples.
"""

from __future__ import annotations

from parlora.providers.offline.happenings import CallerStarted, Happening
from parlora.providers.offline.listener import Listener
from parlora.providers.offline.speaker import Phrase, Speaker
from parlora.providers.offline.synthesizer import Speech


class OfflineVoice:
    """Hears and speaks at the same time; the caller's speech cuts its own. One thread at a time."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._speaker = Speaker()
        self._dropped = ""

    @property
    def heard_ms(self) -> int:
        """Audio heard so far."""
        return self._listener.now_ms

    @property
    def spoken_ms(self) -> int:
        """Where the speaking half is on the common timeline."""
        return self._speaker.now_ms

    @property
    def dropped(self) -> str:
        """What the last interruption kept from being said; the phrase it cut counts whole."""
        return self._dropped

    @property
    def caller_speaking(self) -> bool:
        """Whether an utterance of the caller is open."""
        return self._listener.caller_speaking

    @property
    def speaking(self) -> bool:
        """Whether anything is left to say."""
        return self._speaker.speaking

    @property
    def audible(self) -> bool:
        """Whether the next `take` has sound to give."""
        return self._speaker.audible

    def feed(self, frame: bytes) -> list[Happening]:
        """Hear 20 ms; the onset of the caller's speech interrupts ours in the same call."""
        happened = self._listener.feed(frame)
        self._speaker.advance_to(self._listener.now_ms)
        if any(isinstance(item, CallerStarted) for item in happened):
            self.interrupt()
        return happened + self._speaker.poll()

    def finish(self) -> list[Happening]:
        """The caller's audio ends here: what was said so far is decided at once."""
        return self._listener.finish() + self._speaker.poll()

    def say(self, text: str) -> None:
        """Speak `text` after everything said before."""
        self._speaker.say(text)

    def wanted(self) -> Phrase | None:
        """The phrase to synthesize next, named once; None while enough is ready."""
        return self._speaker.wanted()

    def supply(self, phrase: Phrase, speech: Speech) -> None:
        """The speech for a phrase that `wanted` named."""
        self._speaker.supply(phrase, speech)

    def take(self, count: int) -> bytes:
        """Exactly `count` samples of mono PCM16 at 24 kHz."""
        return self._speaker.take(count)

    def interrupt(self) -> bool:
        """Stop speaking at once; False if nothing was being said."""
        self._dropped = self._speaker.interrupt()
        return bool(self._dropped)

    def poll(self) -> list[Happening]:
        """What the speaking half reported since the last call."""
        return self._speaker.poll()
