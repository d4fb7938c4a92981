"""The two threads of the provider: one keeps time between the rings and the dialogue, one synthesizes beside it.

Speech is written at real-time pace and at most `LEAD_US` ahead, so that little is left to recall when the caller
interrupts. The synthesizer's tens of milliseconds never stall a frame.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final

from parlora.audio.port import AudioSink, AudioSource, WriteResult
from parlora.contract.adapter import EventSink
from parlora.errors import Backpressure, Closed, ParloraError
from parlora.events import EventType
from parlora.limits import Limits
from parlora.providers.offline.dialogue import SILENCE, Dialogue
from parlora.providers.offline.samples import FRAME_BYTES, FRAME_MS
from parlora.providers.offline.speaker import Phrase
from parlora.providers.offline.synthesizer import Speech, Synthesizer

FRAME_US: Final = FRAME_MS * 1_000
# A decoding turn takes up to 10 ms and the machine may be busy: 60 ms bridge that, and still leave 40 of the 100 ms
# in which an interruption must fall silent.
LEAD_US: Final = 60_000
# Caller audio missing for this long is heard as silence, so that an utterance ends when its channel has stopped.
# Shorter would put holes into words whenever a busy machine delivers them late.
MISSING_US: Final = 1_000_000
LEAST_WAIT_US: Final = 5_000  # no more than 200 turns a second, whatever the ports do
MAX_COMMANDS: Final = 64  # handled every 20 ms: more than these at once is a fault of the session
JOIN_S: Final = 0.4  # a phrase takes at most 0.2 s to synthesize; close waits for two threads and has one second


def now_us() -> int:
    """CLOCK_MONOTONIC in microseconds."""
    return time.monotonic_ns() // 1_000


class SynthesisThread:
    """Synthesizes one phrase at a time."""

    def __init__(self, synthesizer: Synthesizer) -> None:
        self._synthesizer = synthesizer
        self._wanted: queue.SimpleQueue[Phrase | None] = queue.SimpleQueue()  # bounded by the speaker: one is asked for
        self._done: queue.SimpleQueue[tuple[Phrase, Speech | Exception]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="offline-synthesis", daemon=True)
        self._thread.start()

    def ask(self, phrase: Phrase) -> None:
        """Begin with a phrase."""
        self._wanted.put(phrase)

    def finished(self) -> tuple[Phrase, Speech] | None:
        """A phrase that is ready, if any; raises what the synthesizer raised."""
        try:
            phrase, outcome = self._done.get_nowait()
        except queue.Empty:
            return None
        if isinstance(outcome, Exception):
            raise outcome
        return phrase, outcome

    def stop(self) -> None:
        """End the thread; waits for the phrase it is at, at most `JOIN_S`."""
        self._wanted.put(None)
        self._thread.join(JOIN_S)

    def _run(self) -> None:
        while (phrase := self._wanted.get()) is not None:
            try:
                self._done.put((phrase, self._synthesizer.speak(phrase.text)))
            except Exception as error:  # raised again in the media thread, which ends the provider
                self._done.put((phrase, error))


class MediaThread:
    """Moves audio between the ports and the dialogue until stopped, the ports close, or something fails."""

    def __init__(
        self,
        dialogue: Dialogue,
        synthesizer: Synthesizer,
        source: AudioSource,
        sink: AudioSink,
        events: EventSink,
        limits: Limits,
    ) -> None:
        assert limits.audio_queue_bytes is not None
        assert limits.max_frame_bytes is not None
        self._dialogue = dialogue
        self._synthesis = SynthesisThread(synthesizer)
        self._source = source
        self._sink = sink
        self._events = events
        self._read_bytes = limits.audio_queue_bytes
        self._chunk_bytes = min(FRAME_BYTES, limits.max_frame_bytes)
        self._commands: queue.Queue[Callable[[Dialogue], None]] = queue.Queue(MAX_COMMANDS)
        self._stopping = threading.Event()
        self._input = bytearray()
        self._heard_until_us = 0  # 0 until the first audio arrives
        self._spoken_until_us = 0
        self._unwritten = b""
        self._thread = threading.Thread(target=self._run, name="offline-media", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def post(self, command: Callable[[Dialogue], None]) -> None:
        """Have the media thread run `command` within some 20 ms; raises `Backpressure` if too many wait."""
        if self._stopping.is_set():
            raise Closed("the provider is closed")
        try:
            self._commands.put_nowait(command)
        except queue.Full:
            raise Backpressure(f"{MAX_COMMANDS} commands wait already", details={"most": MAX_COMMANDS}) from None

    def stop(self) -> None:
        """End both threads; what they held is dropped. Commands still waiting run first, so each gets its outcome."""
        self._stopping.set()
        self._thread.join(JOIN_S)
        self._synthesis.stop()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._turn()
        except Closed:
            pass  # the session has ended; its close follows
        except Exception as error:  # whatever it is, the session must hear of it
            self._fail(error)
        finally:
            self._stopping.set()
            self._dialogue.close()
            self._run_commands()
            self._report()

    def _turn(self) -> None:
        now = now_us()
        deadline_us = now + FRAME_US
        if self._dialogue.audible:  # when the lead is down to two frames; not at once if the sink takes nothing
            deadline_us = min(deadline_us, max(self._spoken_until_us - LEAD_US + FRAME_US, now + LEAST_WAIT_US))
        self._source.wait(deadline_us)
        self._listen()
        self._report()  # a cut must be known before anything else is done
        self._run_commands()
        self._synthesize()
        self._speak()
        self._report()

    def _listen(self) -> None:
        for frame in self._source.read(self._read_bytes):
            self._input += frame.data
        now = now_us()
        while len(self._input) >= FRAME_BYTES:
            self._hear(bytes(self._input[:FRAME_BYTES]), now)
            del self._input[:FRAME_BYTES]
        if self._heard_until_us and now - self._heard_until_us > MISSING_US:
            self._hear(SILENCE, now)

    def _hear(self, frame: bytes, now: int) -> None:
        if not self._heard_until_us:
            self._heard_until_us = now
        self._heard_until_us += FRAME_US
        self._dialogue.hear(frame)

    def _run_commands(self) -> None:
        while True:
            try:
                command = self._commands.get_nowait()
            except queue.Empty:
                return
            command(self._dialogue)

    def _synthesize(self) -> None:
        if done := self._synthesis.finished():
            self._dialogue.supply(*done)
        if phrase := self._dialogue.wanted():
            self._synthesis.ask(phrase)

    def _speak(self) -> None:
        now = now_us()
        self._spoken_until_us = max(self._spoken_until_us, now)
        while self._spoken_until_us < now + LEAD_US:
            if not self._unwritten:
                if not self._dialogue.audible:
                    return
                self._unwritten = self._dialogue.take(self._chunk_bytes // 2)
            if not self._write():
                return
            self._spoken_until_us += FRAME_US * self._chunk_bytes // FRAME_BYTES

    def _write(self) -> bool:
        result = self._sink.write(self._unwritten)
        if result is WriteResult.BACKPRESSURE:  # offered again next turn: speech waits, it is not dropped
            return False
        self._unwritten = b""
        if result is WriteResult.CLOSED:
            raise Closed("the generated-audio port is closed")
        return True  # a stale epoch means that a clear came between: what it would have dropped is dropped

    def _report(self) -> None:
        for emission in self._dialogue.poll():
            self._events.emit(emission.type, emission.payload, command_id=emission.command_id)

    def _fail(self, error: Exception) -> None:
        message = error.message if isinstance(error, ParloraError) else type(error).__name__
        self._events.emit(EventType.FAILED, {"error": {"code": "adapter_failed", "message": message, "details": {}}})
