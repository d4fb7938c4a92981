"""Telemetry of whole sessions: each process tells what it moved, and a bad handler costs no frame."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from parlora_actors.host import ActorHost
from tests.contract.listeners import FILE
from tests.contract.whole import EVERYTHING, end, heard_frames
from tests.sessions import Call, wait_for


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "telemetry"
    path.touch()
    monkeypatch.setenv(FILE, str(path))
    return path


def lines(path: Path) -> dict[str, list[tuple[dict[str, int], dict[str, Any]]]]:
    found = defaultdict(list)
    for line in path.read_text().splitlines():
        event, measured, who = json.loads(line)
        found[f"{event}.{who['stream']}" if "stream" in who else event].append((measured, who))
    return found


@pytest.mark.row("TM-04", "TM-05")
def test_reads_ticks_and_playout_tell_the_same_bytes_on_one_clock(told: Path) -> None:
    with ActorHost() as host:
        call = Call(host, **EVERYTHING, telemetry="tests.contract.listeners:record").ready()
        wait_for("a second of audio", lambda: heard_frames(call) > 50)
        session_id = call.session.id
        end(call)
    found = lines(told)
    names = {"parlora.provider.audio_read", "parlora.channel.playout", "parlora.pipeline.tick.output"}
    assert names | {"parlora.pipeline.tick.input"} == set(found)
    totals = {name: sum(measured["bytes"] for measured, _ in found[name]) for name in names}
    assert min(totals.values()) >= 30 * 960
    assert max(totals.values()) - min(totals.values()) <= 20 * 960  # what was on its way at the last tick
    for entries in found.values():
        times = [measured["at_us"] for measured, _ in entries]
        assert times == sorted(times)
        assert {who["session_id"] for _, who in entries} == {session_id}
    spans = [(found[name][0][0]["at_us"], found[name][-1][0]["at_us"]) for name in names]
    assert max(first for first, _ in spans) < min(last for _, last in spans)  # one clock, so they overlap
    ready = call.event("ready", "provider")
    identity = found["parlora.provider.audio_read"][0][1]
    assert (identity["adapter_id"], identity["generation"]) == (ready.adapter_id, ready.generation)
    assert all(measured["queue_bytes"] >= 0 for measured, _ in found["parlora.provider.audio_read"])


@pytest.mark.parametrize("handler", ["slow", "raising"])
def test_a_bad_handler_costs_no_frame(told: Path, handler: str) -> None:
    with ActorHost() as host:
        call = Call(host, **EVERYTHING, telemetry=f"tests.contract.listeners:{handler}").ready()
        wait_for("half a second of audio", lambda: heard_frames(call) > 25)
        closed = end(call)
    assert closed["killed"] == 0
    assert len(lines(told)) == 4  # it was called in every process
