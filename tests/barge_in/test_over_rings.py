"""An interruption through the real audio path: wav channel, rings, native pumps and the offline voice.

The adapters share this process, everything between them is what a session has. No clear barrier runs here: the queues
must be shallow enough without it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pocketsphinx", reason="needs the extra offline")
pytest.importorskip("espeakng_loader", reason="needs the extra offline")

from parlora.audio.format import AudioFormat
from parlora.audio.frame import AudioFrame
from parlora.audio.pump import InputPump, OutputPump, Pacing, Pump
from parlora.audio.ring import Ring, RingSpec
from parlora.channels.wav import WavChannel
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.events import Event
from parlora.ids import new_id
from parlora.limits import Limits
from parlora.providers.offline import Offline
from parlora.testing.adapters import RecordingSink
from parlora.testing.caller import CallerVoice, write_wav
from parlora_actors.ports import RingSink, RingSource

FORMAT = AudioFormat.pcm16()
LIMITS = Limits().resolve(FORMAT)
LOUD = 200
RULES = "<user> = check order (one two three | one two four) | what items are in that order;"
LONG_ANSWER = (
    "Order 123 has left the warehouse, and it will be delivered to your door on Friday before noon, or so we hope."
)


class Played:
    """The playback port of the channel, which notes what was taken for playing and when."""

    def __init__(self, port: RingSource) -> None:
        self._port = port
        self.pieces: list[tuple[int, bytes]] = []

    def __getattr__(self, name: str) -> object:
        return getattr(self._port, name)

    def read(self, max_bytes: int) -> Sequence[AudioFrame]:
        frames = self._port.read(max_bytes)
        now_us = time.monotonic_ns() // 1_000
        self.pieces += [(now_us, frame.data) for frame in frames]
        return frames

    def last_loud_us(self) -> int:
        """When the last loud sample was played."""
        for at_us, data in reversed(self.pieces):
            loud = np.flatnonzero(np.abs(np.frombuffer(data, "<i2").astype(int)) > LOUD)
            if len(loud):
                return at_us + int(loud[-1]) * 1_000_000 // FORMAT.sample_rate
        return 0


class Call:
    """Both adapters, joined by rings and pumps."""

    def __init__(self, channel: WavChannel, provider: Offline, pacing: Pacing, stack: ExitStack) -> None:
        capture, uplink, playback = (stack.enter_context(_ring(LIMITS.audio_queue_bytes)) for _ in range(3))
        generated = stack.enter_context(_ring(LIMITS.provider_audio_queue_bytes))
        self.channel_events = RecordingSink("channel", "session", "channel-1")
        self.provider_events = RecordingSink("provider", "session", "provider-1")
        self.played = Played(RingSource(playback, FORMAT))
        init = AdapterInit(
            session_id="session",
            adapter_id="provider-1",
            generation=0,
            event_sink=self.provider_events,
            audio_format=FORMAT,
            limits=LIMITS,
            audio_in=RingSource(uplink, FORMAT),
            audio_out=RingSink(generated, FORMAT),
            instructions=None,
            history=(),
            deadline_us=time.monotonic_ns() // 1_000 + 15_000_000,
        )
        self.provider = provider
        provider.start(init)
        stack.callback(provider.close, ClosePolicy.FINISH, "close")
        channel.start(
            replace(
                init,
                adapter_id="channel-1",
                event_sink=self.channel_events,
                audio_in=self.played,
                audio_out=RingSink(capture, FORMAT),
            )
        )
        stack.callback(channel.close, ClosePolicy.FINISH, "close")
        listening = InputPump(capture, uplink, FORMAT, backpressure_timeout_ms=2_000)
        speaking = OutputPump(generated, playback, FORMAT, backpressure_timeout_ms=2_000, pacing=pacing)
        for pump in (listening, speaking):
            pump.start()
            stack.callback(_close, pump)
        listening.go(drain=True)
        speaking.go()

    def answer(self, text: str) -> None:
        self.provider.append_context(ContextUpdate(ContextKind.SPEAKABLE, text), new_id())

    def barge_in(self) -> Event:
        return self.provider_events.wait_for("output_interrupted", timeout_ms=20_000)


def _close(pump: Pump) -> None:
    pump.close(time.monotonic_ns() // 1_000 + 2_000_000)


def _ring(size: int | None) -> Ring:
    assert size is not None
    assert LIMITS.max_frame_bytes is not None
    return Ring.create(RingSpec(max_bytes=size, max_age_ms=0, max_frame_bytes=LIMITS.max_frame_bytes))


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Callable[[Pacing], Call]]:
    voice = CallerVoice()
    lines = [
        ("check order one two three", {"after_silence_ms": 300}),
        ("what items are in that order", {"while_speaking_ms": 1_500}),
    ]
    clips = []
    for index, (text, release) in enumerate(lines):
        write_wav(tmp_path / f"{index}.wav", voice.say(text))
        clips.append({"path": str(tmp_path / f"{index}.wav"), **release})
    with ExitStack() as stack:
        yield lambda pacing: Call(WavChannel(clips=clips, pacing=str(pacing)), Offline(RULES), pacing, stack)


@pytest.mark.parametrize("pacing", list(Pacing))
def test_the_last_loud_sample_is_played_within_100_ms_of_detected_speech(
    call: Callable[[Pacing], Call], pacing: Pacing
) -> None:
    spoken = call(pacing)
    spoken.provider_events.wait_for("delegation_requested", timeout_ms=20_000)
    spoken.answer(LONG_ANSWER)
    detected = spoken.barge_in()
    spoken.provider_events.wait_for("delegation_requested", nth=2, timeout_ms=20_000)

    assert -500_000 < spoken.played.last_loud_us() - detected.at_us <= 100_000
    said = [event.payload["delta"] for event in spoken.provider_events.events("transcript_delta")]
    assert said[0] == "check order one two three"
    assert said[2] == "what items are in that order"
    assert "Order one two three has left" in said[1]
    assert "hope" not in said[1]
