"""Only plain data crosses the border of an adapter, and what nobody knows harms nobody."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from parlora.wire import pack, to_data
from tests.sessions import TRIVIAL, Call

Start = Callable[..., Call]
ROOT = Path(__file__).parents[2]


@pytest.mark.row("SL-51")
def test_an_error_leaves_its_adapter_as_plain_data_without_objects_or_audio(call: Start) -> None:
    session = call(**{**TRIVIAL, "channel": "tests.contract.adapters:Leaky"}).ready()
    session.session.control(("clear_output", "next"), "c1")
    failed = session.event("control_failed", "session")
    assert "object at 0x" not in repr(failed.payload)
    assert not any(isinstance(value, bytes) for value in flat(failed.payload))
    for told in (session.session.status(), to_data(session.session.snapshot()), *[e.payload for e in session.events]):
        pack(told)
        assert not any(isinstance(value, bytes) for value in flat(told))
    session.end()


def flat(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return [inner for each in value.values() for inner in flat(each)]
    if isinstance(value, list | tuple):
        return [inner for each in value for inner in flat(each)]
    return [value]


@pytest.mark.row("EV-12")
def test_the_host_api_and_a_policy_of_the_library_cope_with_what_they_do_not_know(call: Start) -> None:
    session = call(
        **{
            **TRIVIAL,
            "provider": "tests.contract.adapters:Martian",
            "backend": ("parlora.backends.trivial:TrivialBackend", {"summary": "It is on its way."}),
            "context_policy": "parlora.policies:Delegate",
        }
    )
    told = session.session.subscribe()
    session.ready()
    assert session.event("martian", "provider").payload["greeting"]
    session.event("result_delivery", "session", stage="accepted")
    assert session.session.snapshot().transcripts[0]["mood"] == "green"  # type: ignore[typeddict-item]
    session.session.close()
    types = [event.type for event in told]
    assert "martian" in types
    assert types[-1] == "closed"
    session.closed()


@pytest.mark.row("EV-12")
def test_the_command_line_copes_with_what_it_does_not_know(tmp_path: Path) -> None:
    parts = {
        "channel": "tests.contract.adapters:HangsUp",
        "provider": "tests.contract.adapters:Martian",
        "backend": TRIVIAL["backend"],
        "context_policy": "parlora.policies:Delegate",
    }
    config = tmp_path / "agent.toml"
    config.write_text("".join(f'[{name}]\nuse = "{use}"\n' for name, use in parts.items()))
    outcome = subprocess.run(
        [sys.executable, "-m", "parlora_actors.cli", "run", "--json", "--config", str(config)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'actors'}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    lines = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert "martian" in [line.get("type") for line in lines]
    assert lines[-1]["ok"] is True
