"""The demonstration's call on real processes: as it should be, with the staleness check off, and interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import wave
from pathlib import Path
from typing import Any

import pytest

from parlora.testing import leftovers
from parlora_actors import procfs

ROOT = Path(__file__).parents[2]
RUN = "import sys; from pathlib import Path; from parlora_actors.cli_demo import run_demo; "


def start(code: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'actors'}"}
    return subprocess.Popen(
        [sys.executable, "-c", RUN + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


class Calls:
    """Both calls at once: they take real time, and a test for each of their sides should not."""

    def __init__(self, folder: Path) -> None:
        self.out = folder / "out"
        with leftovers.none_left():
            good = start(f"sys.exit(run_demo(Path({str(self.out)!r}), True))")
            unchecked = start("sys.exit(run_demo(None, True, preload=['tests.demo.no_staleness']))")
            outputs: dict[str, tuple[str, str]] = {}

            def collect(name: str, running: subprocess.Popen[str]) -> None:
                outputs[name] = running.communicate(timeout=100)

            threads = [
                threading.Thread(target=collect, args=each) for each in (("good", good), ("unchecked", unchecked))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.code, self.unchecked_code = good.returncode, unchecked.returncode
        self.talk = outputs["good"][1]
        self.result: dict[str, Any] = json.loads(outputs["good"][0].splitlines()[-1])
        self.unchecked: dict[str, Any] = json.loads(outputs["unchecked"][0].splitlines()[-1])


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Calls:
    return Calls(tmp_path_factory.mktemp("demo"))


def test_the_call_goes_as_it_should(calls: Calls) -> None:
    result = calls.result
    assert result["problems"] == []
    assert result["ok"] is True
    assert calls.code == 0
    answers = [(each["order"], each["operation"]) for each in result["answers"]]
    assert answers == [("123", "status"), ("123", "items")]
    assert (result["superseded"], result["late_results"], result["withheld"]) == (1, 1, 1)
    assert (result["stale_results_spoken"], result["interruptions"], result["leftovers"]) == (0, 1, [])
    assert result["processes"] >= 12
    assert result["ready_ms"] > 0


def test_nothing_but_the_startup_discard_was_lost(calls: Calls) -> None:
    assert {each["cause"] for each in calls.result["discontinuities"]} <= {"startup_buffer_discard", "interruption"}


def test_the_call_is_kept_as_recordings_and_events(calls: Calls) -> None:
    frames = {}
    for name in ("caller", "assistant", "call"):
        with wave.open(str(calls.out / f"{name}.wav"), "rb") as file:
            frames[name] = file.getnframes()
            assert file.getnchannels() == (2 if name == "call" else 1)
    assert frames["caller"] == frames["assistant"] == frames["call"] > 24_000 * 15
    events = [json.loads(line) for line in (calls.out / "events.jsonl").read_text().splitlines()]
    assert events[-1]["type"] == "closed"
    assert sorted(path.name for path in calls.out.iterdir()) == [
        "assistant.wav",
        "call.wav",
        "caller.wav",
        "events.jsonl",
    ]


def test_the_timeline_tells_the_story_on_stderr(calls: Calls) -> None:
    for told in ("ready after", "what is the status of order one two four", "too late, it is not told", "interrupts"):
        assert told in calls.talk


@pytest.mark.row("CM-16")
def test_without_the_staleness_check_the_demonstration_fails(calls: Calls) -> None:
    assert calls.unchecked["ok"] is False
    assert calls.unchecked_code == 1
    assert calls.unchecked["stale_results_spoken"] >= 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_leaves_no_process_and_says_so_in_one_line(number: int) -> None:
    running = start("sys.exit(run_demo(None, True))")
    assert running.stderr is not None
    for line in running.stderr:
        if "looks up" in line:
            break
    below = procfs.descendants(running.pid)
    running.send_signal(number)
    out, err = running.communicate(timeout=30)
    assert running.returncode == 128 + number
    assert out == ""
    assert "Traceback" not in err
    assert err.count("interrupted\n") == 1
    assert not [pid for pid in below if procfs.is_alive(pid)]


def test_a_second_signal_kills_and_leaves_no_process() -> None:
    running = start("sys.exit(run_demo(None, True))")
    assert running.stderr is not None
    for line in running.stderr:
        if "ready after" in line:
            break
    below = procfs.descendants(running.pid)
    running.send_signal(signal.SIGINT)
    time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "Traceback" not in err
    assert not [pid for pid in below if procfs.is_alive(pid)]


@pytest.mark.parametrize("place", ["/proc/nowhere", "/dev/null/x"])
def test_an_out_that_cannot_be_written_is_one_line_and_nothing_is_started(place: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'actors'}"}
    command = [sys.executable, "-m", "parlora_actors.cli", "demo", "--out", place]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert run.returncode == 2
    assert run.stdout == ""
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("error: --out: cannot write to")
