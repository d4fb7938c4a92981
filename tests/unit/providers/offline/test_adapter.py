"""The provider as a session sees it: options, capabilities, and a short call in real time through its ports."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pocketsphinx", reason="needs the extra offline")
pytest.importorskip("espeakng_loader", reason="needs the extra offline")

from parlora.audio.format import AudioFormat
from parlora.contract.adapter import ClosePolicy
from parlora.contract.provider import ContextKind, ContextUpdate, MuteInput
from parlora.errors import Closed, Conflict, InvalidArgument, Unsupported
from parlora.providers.offline import Offline
from parlora.providers.offline.media import LEAD_US
from parlora.testing import leftovers
from parlora.testing.adapters import AdapterHarness
from parlora.testing.caller import CallerVoice

RULES = "<user> = check order (one two three | one two four) | what items are in that order | yes | no;"
FRAME_BYTES = 960


class Line:
    """The caller's and the listener's end: writes 20 ms frames at media rate, and notes when what arrived."""

    def __init__(self, harness: AdapterHarness) -> None:
        self._harness = harness
        self._noise = CallerVoice().noise(10_000)
        self._noise_at = 0
        self._pending = bytearray()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.quiet = threading.Event()
        self.arrivals: list[tuple[float, bytes]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def speak(self, audio: bytes) -> None:
        with self._lock:
            self._pending += audio + bytes(-len(audio) % FRAME_BYTES)
            self.quiet.clear()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += 0.02
            self._harness.audio_in.write(self._next())
            now = time.monotonic()
            self.arrivals += [(now, frame.data) for frame in self._harness.audio_out.read(48_000)]

    def _next(self) -> bytes:
        with self._lock:
            if self._pending:
                frame, self._pending = bytes(self._pending[:FRAME_BYTES]), self._pending[FRAME_BYTES:]
                return frame
            self.quiet.set()
        self._noise_at = (self._noise_at + FRAME_BYTES) % (len(self._noise) - FRAME_BYTES)
        return self._noise[self._noise_at : self._noise_at + FRAME_BYTES]


@pytest.fixture(scope="module")
def caller() -> CallerVoice:
    return CallerVoice()


@pytest.fixture
def harness() -> Iterator[AdapterHarness]:
    with AdapterHarness(Offline(RULES, greeting=None)) as started:
        started.start()
        yield started


@pytest.fixture
def line(harness: AdapterHarness) -> Iterator[Line]:
    opened = Line(harness)
    yield opened
    opened.stop()


def speakable(text: str) -> ContextUpdate:
    return ContextUpdate(ContextKind.SPEAKABLE, text)


def test_ready_states_what_the_provider_can_do() -> None:
    with AdapterHarness(Offline(RULES)) as harness:
        payload = harness.start().payload

    assert payload["audio_format"] == AudioFormat.pcm16().to_data()
    capabilities = payload["capabilities"]
    assert capabilities["audio_formats"] == [AudioFormat.pcm16().to_data()]
    assert capabilities["transcripts"] == ["user", "assistant"]
    assert capabilities["delegation_modes"] == ["client"]
    assert sorted(capabilities["context_update_kinds"]) == ["instruction", "quiet", "speakable"]
    for name in ("full_duplex", "input_mute", "usage", "context_acknowledgment"):
        assert capabilities[name] is True


def test_mu_law_is_refused_as_unsupported() -> None:
    with (
        AdapterHarness(Offline(RULES), audio_format=AudioFormat.pcmu()) as harness,
        pytest.raises(Unsupported) as caught,
    ):
        harness.start()

    assert caught.value.details == {"field": "audio_format"}


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"grammar": None}, "grammar"),
        ({"grammar": "<user> = zzyx;"}, "grammar"),
        ({"voice": "nobody"}, "voice"),
        ({"speed": 10}, "speed"),
        ({"reject_below": 3}, "reject_below"),
        ({"reject_below": "low"}, "reject_below"),
        ({"reprompt": ""}, "reprompt"),
        ({"greeting": 3}, "greeting"),
        ({"vad_mode": 7}, "vad_mode"),
        ({"pronounce": {"yes": "QQ"}}, "pronounce.yes"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], field: str) -> None:
    def build_and_start() -> None:
        with AdapterHarness(Offline(**{"grammar": RULES, **options})) as harness:
            harness.start()

    with pytest.raises(InvalidArgument) as caught:
        build_and_start()

    assert caught.value.details["field"] == field


def test_an_order_becomes_a_delegation_and_its_answer_is_spoken(
    harness: AdapterHarness, line: Line, caller: CallerVoice
) -> None:
    line.speak(caller.noise(300) + caller.say("check order one two three"))

    request = harness.wait_for("delegation_requested").payload
    assert request["target"] == "client"
    harness.call("append_context", speakable("Order 123 has shipped."), "a1")
    harness.wait_for("context_acknowledged", command_id="a1")
    harness.wait_for("provider_speech", nth=2)

    user, assistant = (event.payload for event in harness.sink.events("transcript_delta"))
    assert (user["speaker"], user["delta"]) == ("user", "check order one two three")
    assert (assistant["speaker"], assistant["delta"]) == ("assistant", "Order one two three has shipped.")
    assert user["end_ms"] == request["offset_ms"] < assistant["start_ms"] < assistant["end_ms"]


def test_barge_in_is_told_at_once_and_little_audio_is_under_way(
    harness: AdapterHarness, line: Line, caller: CallerVoice
) -> None:
    text = "Order one two three contains two lamps, one chair, three books and a very long list of other things."
    harness.call("append_context", speakable(text), "a1")
    harness.wait_for("provider_speech")
    line.speak(caller.noise(1_000) + caller.say("what items are in that order"))

    interrupted = harness.wait_for("output_interrupted")
    harness.wait_for("delegation_requested")
    line.stop()
    loud = [at for at, data in line.arrivals if np.abs(np.frombuffer(data, "<i2")).max() > 50]
    # On an idle machine nothing but the 5 ms fade follows; a busy one may take its time to write down the event.
    assert loud[-1] <= interrupted.at_us / 1e6 + 0.1
    first = line.arrivals[0][0]
    sent_us = 1e6 * sum(len(data) for _, data in line.arrivals) / 48_000
    assert sent_us <= (loud[-1] - first) * 1e6 + LEAD_US + 60_000
    assert harness.sink.events("transcript_delta")[0].payload["truncated"]


def test_a_muted_caller_is_not_heard(harness: AdapterHarness, line: Line, caller: CallerVoice) -> None:
    harness.call("control", MuteInput(True), "m1")
    assert harness.wait_for("control_completed", command_id="m1").payload["control"] == "mute_input"
    line.speak(caller.say("yes") + caller.noise(700))
    assert line.quiet.wait(5)
    harness.call("control", MuteInput(False), "m2")
    harness.wait_for("control_completed", command_id="m2")

    line.speak(caller.say("no"))
    harness.wait_for("delegation_requested")
    assert [event.payload["delta"] for event in harness.sink.events("transcript_delta")] == ["no"]


def test_an_utterance_ends_although_the_callers_audio_stops(harness: AdapterHarness, caller: CallerVoice) -> None:
    line = Line(harness)
    line.speak(caller.noise(100) + caller.say("yes"))
    time.sleep(0.9)  # the word is on its way; then nothing comes any more
    line.stop()

    harness.wait_for("delegation_requested")


def test_a_repeated_command_acts_once_and_an_id_used_again_is_a_conflict(harness: AdapterHarness) -> None:
    harness.call("append_context", ContextUpdate(ContextKind.QUIET, "one"), "a1")
    harness.call("append_context", ContextUpdate(ContextKind.QUIET, "one"), "a1")
    with pytest.raises(Conflict):
        harness.call("append_context", ContextUpdate(ContextKind.QUIET, "two"), "a1")
    harness.call("append_context", ContextUpdate(ContextKind.QUIET, "two"), "a2")
    harness.wait_for("context_acknowledged", command_id="a2")

    assert [event.command_id for event in harness.sink.events("context_acknowledged")] == ["a1", "a2"]


@pytest.mark.parametrize("text", ["", "  ", "x" * 16_385])
def test_a_malformed_update_is_refused_at_once(harness: AdapterHarness, text: str) -> None:
    with pytest.raises(InvalidArgument, match="text must have 1 to 16384 characters"):
        harness.call("append_context", speakable(text), "a1")


def test_close_stops_speech_reports_usage_and_leaves_no_thread(caller: CallerVoice) -> None:
    before = leftovers.snapshot()
    with AdapterHarness(Offline(RULES, greeting="Welcome to a very long greeting that goes on and on.")) as harness:
        harness.start()
        line = Line(harness)
        harness.wait_for("provider_speech")
        asked = time.monotonic()
        closed = harness.close_adapter(ClosePolicy.FINISH)
        took = time.monotonic() - asked
        line.stop()
        with pytest.raises(Closed):
            harness.call("append_context", speakable("Too late."), "a1")

    assert took < 0.9
    assert closed.payload == {"finalization_observed": True}
    final = harness.sink.events("usage_final")[0].payload
    assert final["final"] is True
    assert final["seconds"] > 0
    assert harness.sink.events()[-1].type == "closed"
    leftovers.check(before)
