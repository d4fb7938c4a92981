"""A standing node in the test's own process, and the command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from parlora_actors.host import ActorHost
from tests.cli.conftest import cli  # noqa: F401 - a fixture of these tests too

ROOT = Path(__file__).parents[2]
WAIT_S = 20.0

CONFIG = """
[channel]
use = "parlora.channels.trivial:TrivialChannel"
[provider]
use = "parlora.providers.trivial:TrivialProvider"
[backend]
use = "parlora.backends.trivial:TrivialBackend"
[context_policy]
use = "parlora.policies.trivial:no_decisions"
"""


class Command:
    """`parlora-actor` in another process."""

    def __init__(self, *arguments: str | Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "parlora_actors.cli", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'actors'}"},
        )

    def line(self) -> dict[str, Any]:
        """The next object on stdout."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline()
        assert text, self.process.communicate(timeout=WAIT_S)[1]
        found: dict[str, Any] = json.loads(text)
        return found

    def said(self, text: str) -> str:
        """The next line on stderr with that text."""
        assert self.process.stderr is not None
        while line := self.process.stderr.readline():
            if text in line:
                return line
        raise AssertionError(f"it ended without saying {text!r}")

    def end(self) -> tuple[int, str, str]:
        """Its exit code and the rest of what it wrote."""
        out, err = self.process.communicate(timeout=WAIT_S)
        assert "Traceback" not in err
        return self.process.returncode, out, err

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


@pytest.fixture
def command() -> Iterator[Callable[..., Command]]:
    """Start the command; it is killed at the end of the test if it still runs."""
    commands: list[Command] = []

    def start(*arguments: str | Path) -> Command:
        commands.append(Command(*arguments))
        return commands[-1]

    yield start
    for each in commands:
        each.close()


@pytest.fixture
def run_dir() -> Path:
    """A run directory that does not exist yet, with a path short enough for sockets."""
    return Path(os.environ["XDG_RUNTIME_DIR"]) / f"n{time.monotonic_ns() % 10**8}"


@pytest.fixture
def node(run_dir: Path) -> Iterator[ActorHost]:
    """A node that other hosts attach to."""
    with ActorHost(run_dir=run_dir, max_sessions=4) as host:
        yield host


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "agent.toml"
    path.write_text(CONFIG)
    return path
