"""Every way in which the TOML file of `run` can be wrong: exit code 2, one line that names the key, no traceback."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parlora.limits import Limits
from parlora_actors.cli_exit import ExitCode
from parlora_actors.config import load_config

from .conftest import Outcome

GOOD = """
[session]
instructions = "Be brief."
audio_format = "pcmu"
close = "cancel"
context = { customer = 7 }
[channel]
use = "shop:Channel"
input = "caller.wav"
[provider]
use = "shop:Provider"
[backend]
use = "shop:Backend"
[context_policy]
use = "parlora.policies:Delegate"
[limits]
max_jobs = 2
"""


def with_line(table: str, line: str) -> str:
    return GOOD.replace(f"[{table}]\n", f"[{table}]\n{line}\n")


def test_a_good_file_becomes_the_arguments_of_a_session(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(GOOD)
    config = load_config(path)
    assert config.directory == str(tmp_path)
    assert config.close_policy == "cancel"
    assert config.session["channel"] == ("shop:Channel", {"input": "caller.wav"})
    assert config.session["context_policy"] == ("parlora.policies:Delegate", {})
    assert config.session["limits"] == Limits(max_jobs=2)
    assert config.session["context"] == {"customer": 7}


@pytest.mark.parametrize(
    ("text", "named", "allowed"),
    [
        (GOOD + "[sesion]\n", "sesion", "session, channel"),
        ("channel = 3\n", "channel", "a table"),
        (with_line("session", "instruction = 'x'"), "session.instruction", "instructions, audio_format"),
        (with_line("session", "history = ['x']"), "session.history", "an array of tables"),
        (GOOD.replace('"Be brief."', "3"), "session.instructions", "a string"),
        (GOOD.replace('"pcmu"', '"mp3"'), "session.audio_format", "pcmu"),
        (GOOD.replace('close = "cancel"', 'close = "kill"'), "session.close", "finish, cancel"),
        (GOOD.replace("{ customer = 7 }", "7"), "session.context", "a table"),
        (GOOD.replace('use = "shop:Backend"', ""), "backend.use", "package.module:Name"),
        (GOOD.replace('use = "shop:Backend"', "use = 7"), "backend.use", "package.module:Name"),
        (GOOD.replace('use = "shop:Backend"', 'use = "shop"'), "backend", "package.module:Name"),
        (GOOD.replace("max_jobs = 2", "max_job = 2"), "limits.max_job", "max_jobs"),
        (GOOD.replace("max_jobs = 2", "max_jobs = true"), "limits.max_jobs", "integer"),
        (GOOD.replace("max_jobs = 2", "max_jobs = 0"), "limits.max_jobs", "from 1 to 64"),
        (GOOD + "[node]\npreload = 'json'\n", "node.preload", "an array of strings"),
        (GOOD + "[node]\npreload = [1]\n", "node.preload", "an array of strings"),
        (GOOD + "[node]\nrun_dir = '/tmp'\n", "node.run_dir", "preload"),
        (GOOD + "[node]\nstartup_timeout_ms = 0\n", "startup_timeout_ms", "positive"),
        ("[channel\n", "not valid TOML", "line 1"),
    ],
)
def test_a_wrong_file_is_one_line_and_exit_code_2(
    cli: Callable[..., Outcome], fake_node: None, tmp_path: Path, text: str, named: str, allowed: str
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(text)
    outcome = cli("run", "--config", path)
    assert outcome.code == ExitCode.BAD_INPUT
    assert outcome.out == ""
    lines = [line for line in outcome.err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    assert named in lines[0]
    assert allowed in lines[0]
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("name", ["missing.toml", "."])
def test_a_file_that_cannot_be_read_is_exit_code_2(cli: Callable[..., Outcome], tmp_path: Path, name: str) -> None:
    outcome = cli("run", "--config", tmp_path / name)
    assert outcome.code == ExitCode.BAD_INPUT
    assert outcome.err.startswith("error: cannot read")
    assert len(outcome.err.splitlines()) == 1


def test_a_file_that_is_no_text_is_exit_code_2(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "noise.toml"
    path.write_bytes(b"\xff\xfe\x00")
    assert cli("run", "--config", path).code == ExitCode.BAD_INPUT


def test_with_json_the_error_is_also_an_object_on_stdout(cli: Callable[..., Outcome], tmp_path: Path) -> None:
    outcome = cli("run", "--json", "--config", tmp_path / "missing.toml")
    assert '"ok": false' in outcome.out
    assert '"field": "--config"' in outcome.out


@pytest.mark.parametrize("arguments", [["run"], ["run", "--colour"], ["dance"], ["version", "--verbose"]])
def test_a_wrong_command_line_is_exit_code_2(cli: Callable[..., Outcome], arguments: list[str]) -> None:
    outcome = cli(*arguments)
    assert outcome.code == ExitCode.BAD_INPUT
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
