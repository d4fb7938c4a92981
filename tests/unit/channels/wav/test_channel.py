"""The WAV channel as a session sees it, in real time through its ports."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.port import WriteResult
from parlora.channels.wav import WavChannel
from parlora.channels.wav.files import AudioFile, Recorder
from parlora.contract.channel import ClearOutput, SuppressOutput
from parlora.contract.provider import MuteInput
from parlora.errors import Closed, InvalidArgument, Unsupported
from parlora.testing import leftovers
from parlora.testing.adapters import AdapterHarness

PCM16, PCMU = AudioFormat.pcm16(), AudioFormat.pcmu()


def tone(number: int, duration_ms: int, format: AudioFormat = PCM16) -> bytes:
    """Loud, and telling: PCM16 samples of 256 x number, or the mu-law code `number`."""
    sample = bytes([0, number]) if format == PCM16 else bytes([number])
    return sample * (len(format.silence(duration_ms * 1_000)) // len(sample))


@pytest.fixture
def clip(tmp_path: Path) -> Callable[..., str]:
    def write(number: int, duration_ms: int, format: AudioFormat = PCM16) -> str:
        path = str(tmp_path / f"clip{number}.wav")
        recorder = Recorder(path, format, "clip")
        recorder.write(tone(number, duration_ms, format))
        recorder.close()
        return path

    return write


class Session:
    """The session's side of the ports: takes what the caller says, and plays what it is told to at media rate."""

    def __init__(self, harness: AdapterHarness) -> None:
        self._harness = harness
        self._stop = threading.Event()
        self.heard = bytearray()
        self.play = bytearray()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(5)

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.wait(max(0.0, due - time.monotonic())):
            due += 0.02
            for frame in self._harness.audio_out.read(48_000):
                self.heard += frame.data
            size = len(self._harness.format.silence(20_000))
            if self.play and self._harness.audio_in.write(bytes(self.play[:size])) is WriteResult.OK:
                del self.play[:size]


@pytest.fixture
def opened() -> Iterator[Callable[..., tuple[AdapterHarness, Session]]]:
    harnesses: list[tuple[AdapterHarness, Session]] = []

    def open_one(format: AudioFormat = PCM16, **options: Any) -> tuple[AdapterHarness, Session]:
        harness = AdapterHarness(WavChannel(**options), audio_format=format)
        harness.__enter__()
        harness.start()
        harnesses.append((harness, Session(harness)))
        return harnesses[-1]

    yield open_one
    for harness, session in harnesses:
        session.stop()
        harness.__exit__(None, None, None)


Open = Callable[..., tuple[AdapterHarness, Session]]
MakeClip = Callable[..., str]


@pytest.mark.parametrize("pacing", ["channel", "pipeline"])
def test_ready_states_format_pacing_and_evidence(opened: Open, clip: MakeClip, pacing: str) -> None:
    harness, _ = opened(caller=clip(8, 100), pacing=pacing)
    payload = harness.wait_for("ready").payload

    assert payload["audio_format"] == PCM16.to_data()
    capabilities = payload["capabilities"]
    assert capabilities["output_pacing"] == pacing
    assert capabilities["playback_evidence"] == ["queue", "handoff"]
    assert capabilities["output_suppression"] is True
    assert capabilities["clear_scope"] == "parlora_buffers"


@pytest.mark.parametrize("format", [PCM16, PCMU])
def test_the_file_arrives_whole_and_the_caller_hangs_up(opened: Open, clip: MakeClip, format: AudioFormat) -> None:
    harness, session = opened(format, caller=clip(8, 500, format), end="disconnect", end_silence_ms=100)
    disconnected = harness.wait_for("disconnected")
    session.stop()

    assert disconnected.payload["reason"] == "the caller hung up"
    heard = bytes(session.heard)
    assert heard.strip(bytes([format.silence_byte])).strip(b"\0") in tone(8, 500, format)
    assert heard.count(tone(8, 500, format)) == 1


def test_nothing_is_lost_while_the_session_does_not_listen_yet(clip: MakeClip) -> None:
    with AdapterHarness(WavChannel(caller=clip(8, 300), end="disconnect", end_silence_ms=100)) as harness:
        harness.start()
        assert harness.audio_out.wait_space(1, time.monotonic_ns() // 1_000)
        deadline = time.monotonic() + 5
        while harness.audio_out.status().queued_bytes < 2 * 960:  # silence, which nobody takes yet
            assert time.monotonic() < deadline
            time.sleep(0.02)
        session = Session(harness)
        harness.wait_for("disconnected")
        session.stop()

    assert bytes(session.heard).count(tone(8, 300)) == 1


def test_silence_is_left_out_until_a_backlog_is_gone_and_speech_is_not(clip: MakeClip) -> None:
    clips = [{"path": clip(8, 100), "after_silence_ms": 0}, {"path": clip(9, 100), "after_silence_ms": 400}]
    clips[1]["after_utterances"] = 0
    with AdapterHarness(WavChannel(clips=clips)) as harness:
        harness.start()
        harness.audio_out.wait(time.monotonic_ns() // 1_000 + 5_000_000)
        heard = [frame.data for frame in harness.audio_out.read(48_000)]
        harness.wait_for("extension", nth=4)  # nobody has listened since the first frame
        queued = harness.audio_out.status().queued_bytes
        heard += [frame.data for frame in harness.audio_out.read(48_000)]

    assert queued <= (1 + 5 + 5 + 1) * 960
    assert b"".join(heard).replace(bytes(960), b"") == tone(8, 100) + tone(9, 100)


def test_clips_follow_the_assistant_and_both_sides_are_recorded_alike(
    opened: Open, clip: MakeClip, tmp_path: Path
) -> None:
    record, record_caller = str(tmp_path / "assistant.wav"), str(tmp_path / "caller.wav")
    clips = [
        {"path": clip(8, 100), "after_silence_ms": 100},
        {"path": clip(9, 100), "while_speaking_ms": 200},
        {"path": clip(10, 100), "after_silence_ms": 600, "after_utterances": 0},
    ]
    harness, session = opened(
        clips=clips, record=record, record_caller=record_caller, end="disconnect", end_silence_ms=100, end_utterances=0
    )
    harness.wait_for("extension", nth=2)  # the first clip has ended
    session.play += tone(20, 800)
    harness.wait_for("disconnected")
    harness.close_adapter()
    session.stop()

    steps = [(event.payload["name"], event.payload["clip"]) for event in harness.sink.events("extension")]
    assert steps == [(name, index) for index in range(3) for name in ("clip_started", "clip_ended")]
    played = AudioFile.load(record, "record").audio(PCM16, "record")
    caller = AudioFile.load(record_caller, "record_caller").audio(PCM16, "record_caller")
    assert len(played) == len(caller)
    assert played.replace(bytes(960), b"") == tone(20, 800)
    assert caller.replace(bytes(960), b"") == tone(8, 100) + tone(9, 100) + tone(10, 100)
    spoke, interrupted = played.index(tone(20, 20)), caller.index(tone(9, 20))
    assert 200 <= (interrupted - spoke) // 48 <= 240


def test_a_clear_silences_the_queue_and_tells_what_was_dropped(opened: Open, clip: MakeClip) -> None:
    harness, session = opened(caller=clip(8, 20))
    session.stop()
    while harness.audio_in.write(tone(20, 20)) is WriteResult.OK:
        pass
    harness.call("control", ClearOutput(1), "c1")

    completed = harness.wait_for("control_completed", command_id="c1").payload
    assert (completed["control"], completed["epoch"], completed["scope"]) == ("clear_output", 1, "parlora_buffers")
    assert completed["error"] is None
    assert completed["dropped"]["bytes"] >= 5 * 960
    cleared = [
        event.payload for event in harness.sink.events("playback_observed") if event.payload["stage"] == "cleared"
    ]
    assert cleared[0]["epoch"] == 1
    assert cleared[0]["evidence"] == "queue"


def test_suppression_is_acknowledged_and_repeated_commands_act_once(opened: Open, clip: MakeClip) -> None:
    harness, _ = opened(caller=clip(8, 20))
    for _ in range(2):
        harness.call("control", SuppressOutput(True), "c1")
    harness.call("control", SuppressOutput(False), "c2")
    harness.wait_for("control_completed", command_id="c2")

    outcomes = [(event.command_id, event.payload["on"]) for event in harness.sink.events("control_completed")]
    assert outcomes == [("c1", True), ("c2", False)]


def test_another_control_is_unsupported(opened: Open, clip: MakeClip) -> None:
    harness, _ = opened(caller=clip(8, 20))

    with pytest.raises(Unsupported, match="MuteInput is no channel control"):
        harness.call("control", MuteInput(True), "c1")


def test_an_answer_that_never_comes_fails_by_name(opened: Open, clip: MakeClip) -> None:
    clips = [{"path": clip(8, 20), "after_silence_ms": 0}, {"path": clip(9, 20), "after_silence_ms": 0}]
    harness, _ = opened(clips=clips, patience_ms=1_000)

    error = harness.wait_for("failed").payload["error"]
    assert error["code"] == "timeout"
    assert error["details"] == {"clip": 1, "waited_ms": 1_000}


def test_close_finishes_the_recording_and_leaves_nothing(clip: MakeClip, tmp_path: Path) -> None:
    before = leftovers.snapshot()
    record = str(tmp_path / "assistant.wav")
    with AdapterHarness(WavChannel(caller=clip(8, 100), record=record)) as harness:
        harness.start()
        session = Session(harness)
        harness.wait_for("extension", nth=2)
        closed = harness.close_adapter()
        session.stop()
        with pytest.raises(Closed):
            harness.call("control", ClearOutput(1), "c1")

    assert closed.payload["sent_ms"] >= 300
    assert (closed.payload["reason"], closed.payload["played_ms"], closed.payload["underruns"]) == ("closed", 0, 0)
    assert len(AudioFile.load(record, "record").data) >= 4 * 960
    leftovers.check(before)


def test_a_file_in_another_format_than_the_sessions_is_refused_at_start(clip: MakeClip) -> None:
    with (
        AdapterHarness(WavChannel(caller=clip(8, 100)), audio_format=PCMU) as harness,
        pytest.raises(
            InvalidArgument, match=r"is 16-bit PCM, 24000 Hz, mono; the session needs 8-bit mu-law"
        ) as caught,
    ):
        harness.start()

    assert caught.value.details["field"] == "caller"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({}, "caller"),
        ({"caller": "CLIP", "clips": []}, "caller"),
        ({"caller": 3}, "caller"),
        ({"clips": []}, "clips"),
        ({"clips": ["CLIP"]}, "clips[0]"),
        ({"clips": [{"path": "CLIP"}]}, "clips[0]"),
        ({"clips": [{"path": "CLIP", "after_silence_ms": 0, "while_speaking_ms": 0}]}, "clips[0]"),
        ({"clips": [{"path": "CLIP", "after_silence_ms": -1}]}, "clips[0].after_silence_ms"),
        ({"clips": [{"path": "CLIP", "after_silence_ms": 0, "after_utterances": 1.5}]}, "clips[0].after_utterances"),
        ({"clips": [{"path": "CLIP", "while_speaking_ms": 0, "after_utterances": 0}]}, "clips[0].after_utterances"),
        ({"clips": [{"after_silence_ms": 0}]}, "clips[0].path"),
        ({"clips": [{"path": "CLIP", "after_silence_ms": 0, "volume": 3}]}, "clips[0].volume"),
        ({"caller": "CLIP", "pacing": "fast"}, "pacing"),
        ({"caller": "CLIP", "pacing": ["channel"]}, "pacing"),
        ({"caller": "CLIP", "end": "later"}, "end"),
        ({"caller": "CLIP", "end_silence_ms": "1"}, "end_silence_ms"),
        ({"caller": "CLIP", "end_utterances": -1}, "end_utterances"),
        ({"caller": "CLIP", "patience_ms": 0}, "patience_ms"),
        ({"caller": "CLIP", "record": 3}, "record"),
        ({"caller": "CLIP", "record": "/nonexistent-directory/a.wav"}, "record"),
        ({"caller": "CLIP", "record_caller": "/nonexistent-directory/a.wav"}, "record_caller"),
    ],
)
def test_a_bad_option_is_named(clip: MakeClip, options: dict[str, Any], field: str) -> None:
    path = clip(8, 20)

    def real(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: real(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [real(inner) for inner in value]
        return path if value == "CLIP" else value

    def build_and_start() -> None:
        with AdapterHarness(WavChannel(**real(options))) as harness:
            harness.start()

    with pytest.raises(InvalidArgument) as caught:
        build_and_start()

    assert caught.value.details["field"] == field


@pytest.mark.parametrize("field", ["record", "record_caller"])
def test_a_recording_never_overwrites_what_the_caller_says(
    clip: Callable[..., str], tmp_path: Path, field: str
) -> None:
    path = clip(1, 100)
    before = Path(path).read_bytes()
    (tmp_path / "link.wav").symlink_to(path)
    channel = WavChannel(caller=path, **{field: str(tmp_path / "link.wav")})
    with (
        AdapterHarness(channel) as harness,
        pytest.raises(InvalidArgument, match="record to another file") as caught,
    ):
        harness.start()
    assert caught.value.details["field"] == field
    assert Path(path).read_bytes() == before
