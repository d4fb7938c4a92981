"""The local channel on a real sound server: both directions, clear, devices by name, and a server that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from parlora.errors import ParloraError
from parlora_actors.cli_exit import ExitCode
from parlora_actors.host import ActorHost
from tests.local.adapters import TONE_HZ
from tests.local.pulse import INSTALL_LINE, Pulse, missing
from tests.sessions import Call, wait_for

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"needs {missing()}: {INSTALL_LINE}")

CHANNEL = "parlora.channels.local:LocalAudio"
PROVIDER = "tests.local.adapters:ToneProvider"
Start = Callable[..., Call]


@pytest.fixture
def pulse(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pulse]:
    server = Pulse()
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.stop()


@pytest.fixture
def start(pulse: Pulse) -> Iterator[Start]:
    with ActorHost() as host:

        def begin(options: dict[str, object] | None = None, **parts: object) -> Call:
            return Call(host, channel=(CHANNEL, options or {}), provider=PROVIDER, **parts)

        yield begin


def heard(call: Call) -> list[dict[str, object]]:
    """What the provider heard each second, but for the first two, in which streams and cushions fill."""
    told = [event.payload for event in call.of("extension", "provider") if event.payload.get("name") == "heard"]
    return told[2:]


@pytest.mark.row("LA-01", "LA-04", "LA-05")
@pytest.mark.parametrize("format", ["pcm16le", "pcmu"])
def test_what_is_played_comes_back_through_the_microphone(start: Start, format: str) -> None:
    call = start({"output_device": "speaker", "input_device": "microphone"}, audio_format=format).ready()
    ready = call.event("ready", "channel").payload
    assert ready["devices"]["output"]["name"] == "speaker"
    assert ready["capabilities"]["output_pacing"] == "channel"
    assert ready["capabilities"]["full_duplex"]
    told = wait_for("what was heard", lambda: heard(call))[0]
    assert abs(int(str(told["hz"])) - TONE_HZ) <= 2
    assert int(str(told["level"])) > 1_000
    call.event("playback_observed", "channel", stage="handed_off")
    call.session.control(("clear_output", "next"), "clear")
    done = call.event("control_completed", "session", epoch=1)
    assert done.payload["scope"] == "parlora_buffers"
    call.session.control(("suppress_output", True), "off")
    call.event("control_completed", "session", on=True)
    wait_for("silence", lambda: int(str(heard(call)[-1]["level"])) < 100)
    call.session.control(("suppress_output", False), "on")
    call.event("control_completed", "session", on=False)
    count = len(heard(call))
    wait_for("the tone again", lambda: any(int(str(each["level"])) > 1_000 for each in heard(call)[count + 1 :]))
    closed = call.end()
    assert closed["cause"] is None or closed["reason"]
    assert not call.of("failed", "channel")


def test_a_sound_server_that_dies_ends_the_call_with_its_reason_within_two_seconds(start: Start, pulse: Pulse) -> None:
    call = start().ready()
    wait_for("sound", lambda: heard(call))
    killed_us = time.monotonic_ns() // 1_000
    pulse.kill()
    failed = call.event("failed", "channel")
    assert failed.payload["error"]["code"] == "device_lost"
    assert failed.at_us - killed_us < 2_000_000
    call.closed()


def test_a_device_that_is_not_there_is_named_with_those_that_are(start: Start) -> None:
    call = start({"input_device": "Grandma's gramophone"})
    with pytest.raises(ParloraError, match=r"input_device.*gramophone.*speaker"):
        call.session.wait_ready(20)
    call.closed()


@pytest.mark.usefixtures("pulse")
def test_the_command_line_lists_the_devices() -> None:
    command = [sys.executable, "-m", "parlora_actors.cli", "devices"]
    shown = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == ExitCode.OK, shown.stderr
    names = {each["name"]: each for each in map(json.loads, shown.stdout.splitlines())}
    assert names["speaker"]["output_channels"] > 0
    assert names["default"]["is_default_input"]
    people = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "speaker" in people.stdout
    assert "ALSA" not in people.stderr
    mic = [sys.executable, "-m", "parlora_actors.cli", "demo", "--mic", "--input-device", "nothing", "--json"]
    refused = subprocess.run(mic, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == ExitCode.BAD_INPUT
    assert json.loads(refused.stdout)["error"]["details"]["field"] == "input_device"
    nowhere = {**os.environ, "PULSE_SERVER": "unix:/nonexistent"}
    lacking = subprocess.run(mic, capture_output=True, text=True, timeout=60, env=nowhere, check=False)
    assert "no input device" in lacking.stderr
    assert lacking.returncode not in (ExitCode.OK, ExitCode.INTERRUPTED)


@pytest.mark.usefixtures("pulse")
def test_a_person_can_call_the_order_desk_from_the_command_line() -> None:
    pytest.importorskip("pocketsphinx", reason="needs the extra offline")
    command = [sys.executable, "-m", "parlora_actors.cli", "demo", "--mic"]
    command += ["--input-device", "silence", "--output-device", "speaker"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    timer = threading.Timer(60, process.kill)  # then the lines end, too
    timer.start()
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any("order desk" in line.lower() for line in lines), "the desk greets its caller"
        process.send_signal(signal.SIGINT)
        _, talk = process.communicate(timeout=30)
    finally:
        timer.cancel()
        process.kill()
        process.wait(10)
    assert process.returncode == ExitCode.INTERRUPTED, talk
    assert "ALSA" not in talk
