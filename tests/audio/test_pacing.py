"""Who keeps the time on a real session, what happens when nobody takes audio, and what a backend cannot disturb."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from parlora.limits import Limits
from tests.audio.adapters import ADAPTERS, FRAME_US, HoldsTheLock, taken
from tests.sessions import Call, wait_for

Start = Callable[..., Call]


def begin(call: Start, path: Path, pacing: str = "pipeline", hold: bool = False, **parts: object) -> Call:
    return call(
        channel=(f"{ADAPTERS}:NotingChannel", {"path": str(path), "pacing": pacing, "hold": hold}),
        provider=f"{ADAPTERS}:NumberingProvider",
        **parts,
    ).ready()


@pytest.mark.row("AU-17")
def test_without_a_clock_of_its_own_a_channel_gets_stored_audio_at_media_rate(call: Start, tmp_path: Path) -> None:
    path = tmp_path / "taken"
    session = begin(call, path)
    wait_for("two seconds of audio", lambda: len(taken(path)) >= 100)
    session.end()
    frames = taken(path)
    for number, frame in enumerate(frames):
        assert frame.at_us - frames[0].at_us >= (number - 1) * FRAME_US - FRAME_US, "taken every 20 ms by its tick"


@pytest.mark.row("AU-18")
def test_a_channel_with_its_own_clock_gets_audio_as_fast_as_it_takes_it(call: Start, tmp_path: Path) -> None:
    path = tmp_path / "taken"
    session = begin(call, path, "channel")
    wait_for("two seconds of audio", lambda: len(taken(path)) >= 100)
    session.end()
    frames = taken(path)[:100]
    assert frames[-1].at_us - frames[0].at_us < 100 * FRAME_US // 2


@pytest.mark.row("AU-13", "LM-11")
@pytest.mark.parametrize("pacing", ["pipeline", "channel"])
def test_a_channel_that_takes_nothing_for_500_ms_ends_the_session_with_its_reason(
    call: Start, tmp_path: Path, pacing: str
) -> None:
    channel = "NotingChannel" if pacing == "pipeline" else "DeafChannel"
    session = call(
        channel=(f"{ADAPTERS}:{channel}", {"path": str(tmp_path / "taken"), "pacing": pacing, "hold": True}),
        provider=f"{ADAPTERS}:NumberingProvider",
    ).ready()
    failed = session.event("failed", "session")
    assert failed.payload["error"]["code"] == "backpressure"
    assert failed.payload["error"]["details"]["blocked_us"] == 500_000
    assert (failed.payload["role"], failed.payload["pipeline"]) == ("channel", "output_pipeline")
    closed = session.closed()
    written = session.event("extension", "provider", name="written").payload["frames"]
    assert closed["audio_discontinuity"]["dropped_frames"] == written, "what nobody heard is counted, once"


@pytest.mark.row("PR-03", "PR-09", "PR-11", "PR-12")
def test_a_channel_that_holds_playback_back_is_asked_to_go_on_when_audio_piles_up(call: Start, tmp_path: Path) -> None:
    path = tmp_path / "taken"
    session = begin(call, path, "channel", hold=True)
    told = session.event("recovery_pressure", "session")
    assert told.payload["accepted"] is True
    assert told.payload["epoch"] == 0
    assert told.payload["queued_bytes"] >= told.payload["threshold_bytes"] == 9_600
    assert told.payload["capacity_bytes"] == 960_000
    session.event("extension", "channel", name="released", epoch=0)
    wait_for("audio", lambda: len(taken(path)) >= 10)
    session.end()
    assert [each.number for each in taken(path)[:10]] == list(range(10)), "nothing was dropped to make room"
    assert not session.of("failed", "session")


@pytest.mark.row("PR-09")
def test_a_channel_without_a_hold_to_release_goes_on_as_if_it_had_not_been_asked(call: Start, tmp_path: Path) -> None:
    session = call(
        channel=(f"{ADAPTERS}:DeafChannel", {"path": str(tmp_path / "taken"), "pacing": "channel", "hold": True}),
        provider=f"{ADAPTERS}:NumberingProvider",
        limits=Limits(backpressure_timeout_ms=1_500),
    ).ready()
    assert session.event("recovery_pressure", "session").payload["accepted"] is False
    assert session.event("failed", "session").payload["error"]["code"] == "backpressure"
    session.closed()


@pytest.mark.row("AU-12")
def test_audio_flows_at_its_rate_while_the_backend_holds_its_interpreter(call: Start, tmp_path: Path) -> None:
    path = tmp_path / "taken"
    session = begin(call, path, backend=f"{ADAPTERS}:HoldsTheLock")
    holding = session.event("extension", "backend", name="holding").at_us + 50_000
    wait_for("audio after it", lambda: taken(path)[-1].at_us > holding + HoldsTheLock.HELD_US)
    session.end()
    frames = [each.at_us for each in taken(path) if holding < each.at_us < holding + HoldsTheLock.HELD_US]
    assert len(frames) >= 0.8 * HoldsTheLock.HELD_US / FRAME_US
