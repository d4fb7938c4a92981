"""Audio files: read and written in the session's own format, or refused with the option and what is allowed."""

import shutil
import subprocess
import wave
from pathlib import Path

import pytest

from parlora.audio.format import AudioFormat
from parlora.channels.wav.files import AudioFile, Recorder
from parlora.errors import InvalidArgument

FORMATS = [AudioFormat.pcm16(), AudioFormat.pcmu()]


def wav(path: Path, rate_hz: int = 24_000, channels: int = 1, width: int = 2, frames: int = 480) -> str:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(rate_hz)
        file.writeframes(bytes(frames * channels * width))
    return str(path)


@pytest.mark.parametrize("format", FORMATS)
def test_what_is_recorded_reads_back_and_is_readable_at_any_time(tmp_path: Path, format: AudioFormat) -> None:
    path = str(tmp_path / "record.wav")
    recorder = Recorder(path, format, "record")
    second = format.silence(1_000_000)
    recorder.write(second)
    assert AudioFile.load(path, "caller").audio(format, "caller") == second  # not closed yet

    recorder.write(b"\x01\x02")
    recorder.close()
    recorder.close()
    assert AudioFile.load(path, "caller").audio(format, "caller") == second + b"\x01\x02"


def test_others_read_what_is_recorded(tmp_path: Path) -> None:
    path = str(tmp_path / "record.wav")
    recorder = Recorder(path, AudioFormat.pcm16(), "record")
    recorder.write(b"\x01\x00" * 2_400)
    recorder.close()

    with wave.open(path) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes()) == (
            1,
            2,
            24_000,
            2_400,
        )


@pytest.mark.skipif(shutil.which("file") is None, reason="needs the program file")
def test_a_mu_law_recording_declares_itself(tmp_path: Path) -> None:
    path = str(tmp_path / "record.wav")
    recorder = Recorder(path, AudioFormat.pcmu(), "record")
    recorder.write(b"\xff" * 800)
    recorder.close()

    told = subprocess.run(["file", path], capture_output=True, text=True, timeout=10, check=True).stdout
    assert "ITU G.711 mu-law, mono 8000 Hz" in told


@pytest.mark.parametrize(
    ("change", "described"),
    [
        ({"rate_hz": 16_000}, "16-bit PCM, 16000 Hz, mono"),
        ({"channels": 2}, "16-bit PCM, 24000 Hz, 2 channels"),
        ({"width": 1}, "8-bit PCM, 24000 Hz, mono"),
    ],
)
def test_another_format_is_refused_with_both_formats(tmp_path: Path, change: dict[str, int], described: str) -> None:
    file = AudioFile.load(wav(tmp_path / "a.wav", **change), "caller")

    with pytest.raises(InvalidArgument) as caught:
        file.audio(AudioFormat.pcm16(), "caller")
    assert caught.value.details["field"] == "caller"
    assert f"is {described}; the session needs 16-bit PCM, 24000 Hz, mono" in caught.value.message


def test_a_raw_file_is_taken_in_the_format_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "caller.raw"
    path.write_bytes(b"\x01\x02\x03")
    file = AudioFile.load(str(path), "caller")

    assert file.audio(AudioFormat.pcmu(), "caller") == b"\x01\x02\x03"
    with pytest.raises(InvalidArgument, match="half a sample"):
        file.audio(AudioFormat.pcm16(), "caller")


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("missing.wav", None, "cannot read"),
        ("text.wav", b"hello", "is not a WAV file"),
        ("cut.wav", b"RIFF\x00\x00\x00\x00WAVE", "damaged"),
        ("no-data.wav", b"RIFF\x00\x00\x00\x00WAVEfmt \x02\x00\x00\x00\x01\x00", "damaged"),
        ("empty.raw", b"", "no audio"),
    ],
)
def test_an_unusable_file_is_named(tmp_path: Path, name: str, content: bytes | None, complaint: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)

    with pytest.raises(InvalidArgument, match=complaint) as caught:
        AudioFile.load(str(tmp_path / name), "clips[1].path")
    assert caught.value.details["field"] == "clips[1].path"


@pytest.mark.parametrize("path", ["", 3, "/nonexistent-directory/a.wav"])
def test_a_recording_that_cannot_be_written_is_named(path: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Recorder(path, AudioFormat.pcm16(), "record")
    assert caught.value.details["field"] == "record"
