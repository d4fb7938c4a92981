"""`run` against a scripted node: what it prints, how it ends, and what signals do."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parlora_actors.cli_exit import ExitCode

from .conftest import Outcome

pytestmark = pytest.mark.usefixtures("fake_node")


def config(folder: Path, **fake: Any) -> Path:
    if "script" in fake:
        fake["script"] = json.dumps(fake["script"])
    options = "\n".join(f"{name} = {json.dumps(value)}" for name, value in fake.items())
    rest = "".join(f'[{name}]\nuse = "a:B"\n' for name in ("provider", "backend", "context_policy"))
    path = folder / "agent.toml"
    path.write_text(f'[channel]\nuse = "a:B"\n{options}\n{rest}')
    return path


def signal_this_process_when(written: Callable[[], bool], *numbers: int) -> threading.Thread:
    def send() -> None:
        deadline = time.monotonic() + 30
        while not written() and time.monotonic() < deadline:
            time.sleep(0.02)
        for number in numbers:
            os.kill(os.getpid(), number)
            time.sleep(0.3)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_a_session_that_ends_by_itself_is_exit_code_0_and_its_events_are_lines(
    cli: Callable[..., Outcome], tmp_path: Path
) -> None:
    outcome = cli(
        "run", "--json", "--config", config(tmp_path, script=["ready", ["closed", {"reason": "finish"}]], ends=True)
    )
    lines = [json.loads(line) for line in outcome.out.splitlines()]
    assert [line.get("type") for line in lines] == ["ready", "closed", None]
    assert lines[-1]["ok"] is True
    assert lines[-1]["closed"]["reason"] == "finish"
    assert outcome.code == ExitCode.OK


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ({"code": "invalid_argument", "message": "no such file", "details": {"field": "channel"}}, ExitCode.BAD_INPUT),
        ({"code": "unsupported", "message": "format", "details": {"field": "audio_format"}}, ExitCode.BAD_INPUT),
        ({"code": "adapter_failed", "message": "it broke", "details": {}}, ExitCode.FAILED),
        ({"code": "timeout", "message": "too slow", "details": {}}, ExitCode.FAILED),
    ],
)
def test_a_failed_session_is_one_line_and_its_code(
    cli: Callable[..., Outcome], tmp_path: Path, error: dict[str, Any], code: ExitCode
) -> None:
    script = [["failed", {"error": error}], ["closed", {"reason": "failed"}]]
    outcome = cli("run", "--config", config(tmp_path, script=script, ends=True))
    assert outcome.code == code
    assert f"error: {error['message']}" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_closes_in_order(
    cli: Callable[..., Outcome], tmp_path: Path, number: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = watch_talk(monkeypatch)
    thread = signal_this_process_when(lambda: any("starts" in line for line in told), number)
    outcome = cli("run", "--json", "--config", config(tmp_path))
    thread.join()
    assert outcome.code == code
    assert json.loads(outcome.out.splitlines()[-1])["closed"]["reason"] == "finish"


def test_the_second_signal_kills(cli: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = watch_talk(monkeypatch)
    thread = signal_this_process_when(lambda: any("starts" in line for line in told), signal.SIGINT, signal.SIGINT)
    outcome = cli("run", "--config", config(tmp_path, mood="silent-close"))
    thread.join()
    assert outcome.code == ExitCode.INTERRUPTED
    assert "killed" in outcome.err


def watch_talk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from parlora_actors import cli_run

    told: list[str] = []
    monkeypatch.setattr(cli_run, "say", lambda text: (told.append(text), print(text, file=__import__("sys").stderr)))
    return told


def test_the_signal_handlers_are_back_afterwards(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    cli("run", "--config", config(tmp_path, script=["ready", ["closed", {}]], ends=True))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_node_that_cannot_start_is_exit_code_3(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    path = config(tmp_path)
    path.write_text(path.read_text() + '[node]\nenv_drop = ["refuse-config"]\n')
    outcome = cli("run", "--config", path)
    assert outcome.code == ExitCode.SYSTEM
    assert "error: this kernel is too old" in outcome.err


def test_version_prints_what_it_speaks(cli: Callable[..., Outcome]) -> None:
    outcome = cli("version", "--json")
    assert outcome.code == ExitCode.OK
    assert json.loads(outcome.out)["protocol"] == "1.0"
