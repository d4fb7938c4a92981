"""Running `parlora-actor` inside the test, and on the fake node of the host library's tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from parlora_actors import host_launch
from parlora_actors.cli import app


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command in this process; returns how it ended and what it wrote."""

    def run(*arguments: str | Path) -> Outcome:
        with pytest.raises(SystemExit) as stop:
            app([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        return Outcome(int(stop.value.code or 0), out, err)

    return run


@pytest.fixture
def fake_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's node is the fake of `tests/host/fake_node.py`."""
    folder = Path(__file__).parent.parent / "host"
    boot = (
        "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
        f"sys.path.insert(0, {str(folder)!r}); from fake_node import main; main(int(sys.argv[2]))"
    )
    monkeypatch.setattr(host_launch, "_BOOT", boot)
