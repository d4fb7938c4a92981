"""`run` on a real node: what only a session's own processes can find out, and how a call ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import pytest

from parlora.audio.format import AudioFormat
from parlora_actors import procfs
from parlora_actors.cli_exit import ExitCode

from .conftest import Outcome

REST = """
[provider]
use = "parlora.providers.trivial:TrivialProvider"
[backend]
use = "parlora.backends.trivial:TrivialBackend"
[context_policy]
use = "parlora.policies.trivial:no_decisions"
"""
OFFLINE = REST.replace("parlora.providers.trivial:TrivialProvider", "parlora.providers.offline:Offline").replace(
    "[backend]", 'grammar = "<user> = yes;"\n[backend]'
)
WAV = '[channel]\nuse = "parlora.channels.wav:WavChannel"\n'
TRIVIAL = '[channel]\nuse = "parlora.channels.trivial:TrivialChannel"\n'


def write_wav(path: Path, rate_hz: int = 24_000, seconds: float = 0.2) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(bytes(int(rate_hz * seconds) * 2))
    return path


@pytest.mark.parametrize(
    ("text", "named", "allowed"),
    [
        (TRIVIAL.replace("trivial:", "nowhere:") + REST, "channel: cannot import", "parlora.channels.nowhere"),
        (TRIVIAL + 'send = "noise"\n' + REST, "send must be", "silence"),
        (TRIVIAL + "colour = 1\n" + REST, "channel: parlora.channels.trivial:TrivialChannel", "colour"),
        (WAV + 'caller = "{folder}/missing.wav"\n' + REST, "cannot read", "missing.wav"),
        (WAV + 'caller = "{folder}/slow.wav"\n' + REST, "8000 Hz", "24000 Hz"),
        (
            WAV + 'caller = "{folder}/good.wav"\nrecord = "/proc/x.wav"\n' + REST,
            "record: cannot write",
            "/proc/x.wav",
        ),
        ('[session]\naudio_format = "pcmu"\n' + TRIVIAL + OFFLINE, "audio_format must be", "PCM16LE at 24 kHz"),
        (TRIVIAL + OFFLINE.replace("<user> = yes;", "<user> = ;"), "grammar", "user"),
    ],
)
def test_bad_input_that_only_a_process_of_the_session_can_find_is_one_line_and_exit_code_2(
    cli: Callable[..., Outcome], tmp_path: Path, text: str, named: str, allowed: str
) -> None:
    write_wav(tmp_path / "slow.wav", 8_000)
    write_wav(tmp_path / "good.wav")
    path = tmp_path / "agent.toml"
    path.write_text(text.replace("{folder}", str(tmp_path)))
    outcome = cli("run", "--config", path)
    errors = [line for line in outcome.err.splitlines() if line.startswith("error:")]
    assert len(errors) == 1, outcome.err
    assert named in errors[0]
    assert allowed in errors[0]
    assert "Traceback" not in outcome.err
    assert outcome.code == ExitCode.BAD_INPUT


def test_a_caller_who_hangs_up_ends_the_run_with_exit_code_0(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    write_wav(tmp_path / "caller.wav")
    path = tmp_path / "agent.toml"
    options = f'caller = "{tmp_path}/caller.wav"\nend = "disconnect"\nend_silence_ms = 100\n'
    path.write_text(WAV + options + REST)
    outcome = cli("run", "--json", "--config", path)
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert lines[-1]["ok"] is True, outcome.err
    assert any(line.get("type") == "disconnected" for line in lines)
    assert outcome.code == ExitCode.OK


@pytest.mark.parametrize(("signals", "code"), [([signal.SIGINT], 130), ([signal.SIGTERM], 143)])
def test_a_signal_closes_in_order_and_leaves_nothing(tmp_path: Path, signals: list[int], code: int) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(TRIVIAL + REST)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{root / 'actors'}"}
    command = [sys.executable, "-m", "parlora_actors.cli", "run", "--json", "--config", str(path)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if json.loads(line)["source"] == "session" and json.loads(line)["type"] == "ready":
                break
        below = procfs.descendants(running.pid)
        for number in signals:
            running.send_signal(number)
        out, err = running.communicate(timeout=30)
    assert running.returncode == code
    assert json.loads(out.splitlines()[-1])["closed"]["cause"] == "close_requested"
    assert "Traceback" not in err
    assert not [pid for pid in below if procfs.is_alive(pid)]


def test_audio_formats_have_the_names_that_the_configuration_uses() -> None:
    assert AudioFormat.from_data("pcm16le") == AudioFormat.pcm16()
    assert AudioFormat.from_data("pcmu") == AudioFormat.pcmu()
