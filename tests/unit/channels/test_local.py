"""The local channel without a sound card: the device is the test, and time is what it says."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parlora.audio import mulaw
from parlora.audio.format import AudioFormat
from parlora.audio.playback_buffer import Buffering, PlaybackOptions
from parlora.audio.port import Loss, WriteResult
from parlora.audio.ring import now_us
from parlora.channels.local import LocalAudio
from parlora.channels.local.convert import FromDevice, ToDevice
from parlora.channels.local.devices import Device, Direction, choose, list_devices
from parlora.channels.local.microphone import Microphone
from parlora.channels.local.speaker import Speaker
from parlora.channels.local.streams import DeviceFormat, Stream, negotiate
from parlora.errors import InvalidArgument, ParloraError, Unsupported
from parlora.testing.ports import MemoryPort

PCM = AudioFormat.pcm16()
FRAME = 960
FRAME_US = 20_000
AT_ONCE = PlaybackOptions(Buffering.FIXED, 0, 0)
QUIET = bytes(FRAME)


def port(format: AudioFormat = PCM) -> MemoryPort:
    return MemoryPort(format, format.bytes_for_us(200_000), format.bytes_for_us(100_000))


def speaker(
    source: MemoryPort, options: PlaybackOptions = AT_ONCE, rate_hz: int = 24_000, channels: int = 1
) -> Speaker:
    return Speaker(source, source.format, rate_hz, channels, source.format.bytes_for_us(100_000), options)


def numbered(number: int) -> bytes:
    return bytes([number + 1]) * FRAME


def play(out: Speaker, ticks: range) -> list[bytes]:
    """What the device gets, 20 ms at a time."""
    return [out.fill(FRAME, tick * FRAME_US) for tick in ticks]


@pytest.mark.row("LA-02", "PB-16")
@pytest.mark.parametrize("piece", [240, 480, 960, 2_048])
def test_pieces_of_any_size_are_filled_with_each_sample_once_and_in_order(piece: int) -> None:
    source = port()
    out = speaker(source)
    for number in range(10):
        source.write(numbered(number))
    wanted = b"".join(numbered(number) for number in range(10))
    got = b"".join(out.fill(piece, tick * 1_000) for tick in range(len(wanted) // piece + 1))
    assert got[: len(wanted)] == wanted
    assert not any(got[len(wanted) :])


@pytest.mark.row("PB-01", "PB-07")
def test_output_waits_for_its_cushion_and_then_plays_everything() -> None:
    source = port()
    out = speaker(source, PlaybackOptions())
    for number in range(6):
        source.write(numbered(number))
        assert play(out, range(number, number + 1)) == ([QUIET] if number < 5 else [numbered(0)])
    assert play(out, range(6, 11)) == [numbered(number) for number in range(1, 6)]


@pytest.mark.row("PB-19", "PB-20")
def test_running_dry_is_told_once_with_its_epoch_and_silence_is_counted_apart_from_the_source() -> None:
    source = port()
    out = speaker(source)
    source.clear(4)
    source.write(numbered(0))
    assert play(out, range(4)) == [numbered(0), QUIET, QUIET, QUIET]
    (starved,) = out.starved()
    assert (starved.epoch, starved.at_us, out.suppressed) == (4, FRAME_US, False)
    assert not out.starved()
    assert out.played_bytes == FRAME
    assert out.silence_us == 3 * FRAME_US


@pytest.mark.row("PB-14", "PR-03", "PR-04")
def test_pressure_releases_a_recovery_hold_of_its_own_epoch_and_nothing_else() -> None:
    def starved() -> tuple[MemoryPort, Speaker]:
        source = port()
        out = speaker(source, PlaybackOptions(Buffering.FIXED, 40, 200))
        out.release(0)
        source.write(numbered(0))
        assert play(out, range(1)) == [QUIET], "outside recovery a hint leaves initial buffering as it is"
        source.write(numbered(1))
        assert play(out, range(1, 10)) == [numbered(0), numbered(1), *[QUIET] * 7]
        source.write(numbered(2))
        assert play(out, range(10, 11)) == [QUIET], "held to refill what was missing"
        return source, out

    _, out = starved()
    out.release(7)
    assert play(out, range(11, 12)) == [QUIET], "another epoch's hint"
    out.release(0)
    out.release(0)
    assert play(out, range(12, 13)) == [numbered(2)]


def comes_for_audio(out: Speaker, over: threading.Event) -> None:
    tick = 100
    while not over.wait(0.001):
        tick += 1
        out.fill(FRAME, tick * FRAME_US)


@pytest.mark.row("EP-05", "EP-07", "EP-08", "EP-15")
def test_a_clear_completes_when_the_device_has_come_with_the_new_epoch_and_counts_everything() -> None:
    source = port()
    out = speaker(source)
    for number in range(5):
        source.write(numbered(number))
    assert out.fill(480, 0) == numbered(0)[:480]
    over = threading.Event()
    device = threading.Thread(target=comes_for_audio, args=(out, over))
    answers: list[Loss | None] = []
    clearing = threading.Thread(target=lambda: answers.append(out.clear(1, now_us() + 10_000_000)))
    clearing.start()
    assert not answers, "not before the device has come"
    device.start()
    clearing.join(10)
    over.set()
    device.join()
    (loss,) = answers
    assert loss is not None
    assert loss.bytes == 5 * FRAME - 480, "half a frame was handed over before: that is the operating system's"
    assert out.epoch == 1


@pytest.mark.row("EP-08")
def test_a_clear_fails_when_the_device_does_not_come_in_time() -> None:
    source = port()
    out = speaker(source)
    source.write(numbered(0))
    assert out.clear(1, 0) is None
    assert out.untold().bytes == FRAME, "what it dropped is still told"


@pytest.mark.row("EP-10", "EP-11")
def test_suppressed_output_is_thrown_away_and_drained_once_more_on_resume() -> None:
    source = port()
    out = speaker(source)
    source.write(numbered(0))
    assert out.suppress(True) == Loss()
    assert play(out, range(1)) == [QUIET]
    source.write(numbered(1))
    assert out.suppress(False) == Loss(2, 2 * FRAME, 2 * FRAME_US)
    source.write(numbered(2))
    assert play(out, range(1, 2)) == [numbered(2)]
    assert out.played_bytes == FRAME


@pytest.mark.row("LA-03")
@pytest.mark.parametrize("format", [PCM, AudioFormat.pcmu()])
@pytest.mark.parametrize(("rate_hz", "channels"), [(48_000, 2), (44_100, 1), (16_000, 2)])
def test_whatever_the_device_takes_a_tone_stays_that_tone_in_both_directions(
    format: AudioFormat, rate_hz: int, channels: int
) -> None:
    def tone(rate: int) -> bytes:
        return (8_000 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)).astype("<i2").tobytes()

    def pitch(pcm: bytes, rate: int) -> float:
        samples = np.frombuffer(pcm, "<i2").astype(float)
        spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
        return float(np.fft.rfftfreq(len(samples), 1 / rate)[spectrum.argmax()])

    session = tone(format.sample_rate)
    sent = ToDevice(format, rate_hz, channels).convert(mulaw.encode(session) if format != PCM else session)
    assert len(sent) == pytest.approx(rate_hz * channels * 2, rel=0.01)
    sides = np.frombuffer(sent, "<i2").reshape(-1, channels)
    assert (sides == sides[:, :1]).all()
    assert pitch(sides[:, 0].tobytes(), rate_hz) == pytest.approx(440, abs=2)
    heard = FromDevice(format, rate_hz, channels).convert(sent)
    assert pitch(mulaw.decode(heard) if format != PCM else heard, format.sample_rate) == pytest.approx(440, abs=2)


@pytest.mark.row("AU-23", "CC-10")
def test_captured_audio_that_does_not_fit_is_counted_and_the_rest_is_sent_in_whole_frames() -> None:
    sink = port()
    microphone = Microphone(sink, PCM, 24_000, 1)
    for number in range(24):
        microphone.hear(bytes(480), number)
    assert microphone.lost() == Loss(2, 2 * FRAME, 2 * FRAME_US)
    assert microphone.lost() == Loss()
    assert [len(frame.data) for frame in sink.read(9_600)] == [FRAME] * 10
    assert microphone.sent_bytes == 10 * FRAME


def card(index: int, name: str, inputs: int, outputs: int, *, default: bool = False) -> Device:
    return Device(index, name, "ALSA", inputs, outputs, 44_100, default and inputs > 0, default and outputs > 0)


CARDS = [card(0, "hdmi", 0, 8), card(1, "usb", 1, 2), card(2, "default", 2, 2, default=True)]


@pytest.mark.row("LA-04")
def test_a_device_is_chosen_by_name_or_index_or_is_the_systems_default() -> None:
    assert choose(CARDS, None, Direction.OUTPUT).name == "default"
    assert choose(CARDS, "usb", Direction.INPUT).index == 1
    assert choose(CARDS, 0, Direction.OUTPUT).name == "hdmi"
    for wanted in ("hdmi", 0, "nothing"):
        with pytest.raises(InvalidArgument, match=r"input_device.*1 \(usb\), 2 \(default\)"):
            choose(CARDS, wanted, Direction.INPUT)
    with pytest.raises(Unsupported, match="no input device"):
        choose(CARDS[:1], None, Direction.INPUT)


class Fussy:
    """A library whose devices take only these (rate, channels)."""

    def __init__(self, *taken: tuple[int, int]) -> None:
        self.taken = taken

    def is_format_supported(self, rate: int, **asked: Any) -> bool:
        if (rate, asked["output_channels"]) not in self.taken:
            raise ValueError("Invalid sample rate")
        return True


@pytest.mark.row("LA-03")
@pytest.mark.parametrize(
    ("taken", "agreed"),
    [
        ([(24_000, 1), (48_000, 2)], (24_000, 1)),
        ([(48_000, 2), (44_100, 1)], (44_100, 1)),
        ([(48_000, 2)], (48_000, 2)),
    ],
)
def test_a_format_is_agreed_that_the_device_takes(taken: list[tuple[int, int]], agreed: tuple[int, int]) -> None:
    pyaudio = SimpleNamespace(paInt16=8)
    assert negotiate(Fussy(*taken), pyaudio, CARDS[1], Direction.OUTPUT, 24_000) == DeviceFormat(*agreed)
    with pytest.raises(ParloraError) as refused:
        negotiate(Fussy(), pyaudio, CARDS[1], Direction.OUTPUT, 24_000)
    assert refused.value.code == "device_format"


@pytest.mark.row("LA-09")
@pytest.mark.parametrize("error", [OSError(-9996, "Invalid input device"), ValueError("odd"), RuntimeError("callback")])
def test_whatever_the_native_library_raises_becomes_one_error_with_the_option(error: Exception) -> None:
    def refuse(**_: object) -> None:
        raise error

    library, pyaudio = SimpleNamespace(open=refuse), SimpleNamespace(paInt16=8, paContinue=0, paComplete=1)
    with pytest.raises(ParloraError) as raised:
        Stream(Direction.INPUT, lambda *_: None).open(library, pyaudio, CARDS[1], DeviceFormat(24_000, 1))
    assert raised.value.code == "device_unavailable"
    assert raised.value.details["field"] == "input_device"


def test_a_callback_that_raises_ends_its_stream_and_is_kept() -> None:
    opened: dict[str, Callable[..., Any]] = {}

    def run(**options: Any) -> Any:
        opened["callback"] = options["stream_callback"]
        return SimpleNamespace(is_active=lambda: True, close=lambda: None)

    def fail(*_: object) -> None:
        raise RuntimeError("broken")

    stream = Stream(Direction.OUTPUT, fail)
    pyaudio = SimpleNamespace(paInt16=8, paContinue=0, paComplete=1)
    stream.open(SimpleNamespace(open=run), pyaudio, CARDS[1], DeviceFormat(24_000, 1))
    assert stream.is_alive()
    assert opened["callback"](None, 240, {}, 0) == (None, 1)
    assert str(stream.failure) == "broken"
    assert not stream.is_alive()
    stream.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input_device", -1),
        ("output_device", ""),
        ("input_device", 1.5),
        ("playback_buffering", "lazy"),
        ("playback_buffer_ms", -1),
        ("playback_recovery_ms", 201),
    ],
)
def test_a_bad_option_is_named(field: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        LocalAudio(**{field: value})
    assert refused.value.details["field"] == field


def test_without_the_package_the_install_line_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyaudio", None)
    with pytest.raises(Unsupported, match=r"apt-get install portaudio19-dev && pip install 'parlora\[local\]'"):
        list_devices()


def test_a_write_result_of_an_ended_session_is_noticed() -> None:
    sink = port()
    microphone = Microphone(sink, PCM, 24_000, 1)
    sink.close()
    assert sink.write(QUIET) is WriteResult.CLOSED
    microphone.hear(QUIET, 0)
    assert microphone.is_over
