"""The trivial channel keeps the channel contract."""

import struct
import time

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.frame import AudioFrame
from parlora.channels.trivial import TrivialChannel
from parlora.contract.channel import ClearOutput, SuppressOutput
from parlora.errors import Closed, Conflict, InvalidArgument
from parlora.testing.adapters import AdapterHarness
from parlora.testing.ports import MemoryPort


def frames(port: MemoryPort, count: int) -> list[AudioFrame]:
    deadline_us = time.monotonic_ns() // 1_000 + 5_000_000
    got: list[AudioFrame] = []
    while len(got) < count and port.wait(deadline_us):
        got += port.read(9_600)
    return got


@pytest.mark.parametrize("format", [AudioFormat.pcm16(), AudioFormat.pcmu()])
def test_it_sends_numbered_frames_of_20_ms_in_order(format: AudioFormat) -> None:
    with AdapterHarness(TrivialChannel(send="counter", frames=5), audio_format=format) as harness:
        ready = harness.start()
        got = frames(harness.audio_out, 5)
        closed = harness.close_adapter()

    assert ready.payload["audio_format"] == format.to_data()
    assert [struct.unpack_from("<I", frame.data)[0] for frame in got] == [0, 1, 2, 3, 4]
    assert {frame.duration_us for frame in got} == {20_000}
    assert closed.payload["sent_frames"] == 5


def test_silence_is_the_silence_of_the_format() -> None:
    with AdapterHarness(TrivialChannel(frames=1), audio_format=AudioFormat.pcmu()) as harness:
        harness.start()

        assert frames(harness.audio_out, 1)[0].data == b"\xff" * 160


def test_it_counts_what_it_played_and_not_what_was_suppressed() -> None:
    with AdapterHarness(TrivialChannel(send="idle")) as harness:
        harness.start()
        harness.audio_in.write(bytes(960))
        wait_until_empty(harness.audio_in)
        harness.call("control", SuppressOutput(True), "c1")
        harness.audio_in.write(bytes(960))
        wait_until_empty(harness.audio_in)
        closed = harness.close_adapter()

    assert closed.payload["played_bytes"] == 960


def wait_until_empty(port: MemoryPort) -> None:
    assert port.wait_space(port.status().capacity_bytes, time.monotonic_ns() // 1_000 + 5_000_000)


def test_a_clear_adopts_the_epoch_and_reports_it_under_its_command() -> None:
    with AdapterHarness(TrivialChannel(send="idle")) as harness:
        harness.start()
        harness.call("control", ClearOutput(3), "c1")
        done = harness.wait_for("control_completed", command_id="c1")

        assert (done.payload["control"], done.payload["epoch"]) == ("clear_output", 3)
        assert harness.audio_in.epoch == 3


def test_a_repeated_command_acts_once_and_a_changed_one_is_a_conflict() -> None:
    with AdapterHarness(TrivialChannel(send="idle")) as harness:
        harness.start()
        harness.call("control", ClearOutput(1), "c1")
        harness.call("control", ClearOutput(1), "c1")
        with pytest.raises(Conflict):
            harness.call("control", ClearOutput(2), "c1")

        assert len(harness.sink.events("control_completed")) == 1


def test_after_close_controls_are_refused() -> None:
    with AdapterHarness(TrivialChannel(send="idle")) as harness:
        harness.start()
        harness.close_adapter()
        with pytest.raises(Closed):
            harness.call("control", ClearOutput(1), "c1")


@pytest.mark.parametrize(("options", "field"), [({"send": "noise"}, "send"), ({"frames": -1}, "frames")])
def test_bad_options_name_their_field(options: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        TrivialChannel(**options)  # type: ignore[arg-type]

    assert caught.value.details["field"] == field
