"""A clear on a real session: provider store, pipeline and channel are on the new epoch before it is told as done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.audio.adapters import ADAPTERS, FRAME_BYTES, FRAME_US, Taken, taken
from tests.audio.books import told_as_dropped
from tests.sessions import Call, wait_for

Start = Callable[..., Call]
STORE_FRAMES = 1_000
"""20 s."""


def begin(call: Start, path: Path, pacing: str) -> Call:
    return call(
        channel=(f"{ADAPTERS}:NotingChannel", {"path": str(path), "pacing": pacing}),
        provider=f"{ADAPTERS}:NumberingProvider",
    ).ready()


@pytest.mark.row("AU-22", "EP-02", "EP-04", "EP-07", "EP-09", "EP-12", "EP-13")
@pytest.mark.parametrize("pacing", ["pipeline", "channel"])
def test_nothing_of_an_old_epoch_reaches_the_channel_once_a_clear_of_20_stored_seconds_is_completed(
    call: Start, tmp_path: Path, pacing: str
) -> None:
    path = tmp_path / "taken"
    session = begin(call, path, pacing)
    for epoch in range(4):
        full = session.event("extension", "provider", name="stored", epoch=epoch)
        assert full.payload["queued_bytes"] > 0.9 * STORE_FRAMES * FRAME_BYTES
        wait_for("audio of this epoch", lambda: taken(path) and taken(path)[-1].epoch == epoch)  # noqa: B023
        session.session.control(("clear_output", "next"), f"clear-{epoch}")
        done = session.event("control_completed", "session", epoch=epoch + 1)
        assert done.command_id == f"clear-{epoch}"
        assert done.payload["scope"] == "parlora_buffers", "nothing that is still under way is claimed to be recalled"
        assert done.payload["dropped_frames"] > 0.8 * STORE_FRAMES

    def later(frames: list[Taken]) -> list[Taken]:
        return [each for each in frames if each.at_us > done.at_us]

    wait_for("audio of the last epoch", lambda: later(taken(path)))
    session.end()
    frames = taken(path)
    for event in session.of("control_completed", "session"):
        after = [each for each in frames if each.at_us > event.at_us]
        assert after, "what the provider makes after a clear is admitted under the new epoch"
        assert min(each.epoch for each in after) >= event.payload["epoch"]
    numbers = [each.number for each in frames]
    assert numbers == sorted(set(numbers)), "each at most once, in order"
    written = session.event("extension", "provider", name="written").payload["frames"]
    lost = written - len(frames)
    assert told_as_dropped(session) == (lost, lost * FRAME_BYTES, lost * FRAME_US)


@pytest.mark.row("EP-10", "EP-11")
def test_suppressed_output_is_thrown_away_counted_and_never_played_after_the_resume(
    call: Start, tmp_path: Path
) -> None:
    path = tmp_path / "taken"
    session = begin(call, path, "channel")
    wait_for("audio", lambda: taken(path))
    session.session.control(("suppress_output", True), "on")
    on = session.event("control_completed", "session", on=True)
    before = len(taken(path))
    session.session.control(("suppress_output", False), "off")
    off = session.event("control_completed", "session", on=False)
    assert off.payload["dropped_frames"] >= STORE_FRAMES / 2, "all that was stored when it began"
    wait_for("audio again", lambda: taken(path)[-1].at_us > off.at_us)
    session.end()
    frames = taken(path)
    written = session.event("extension", "provider", name="written").payload["frames"]
    lost = written - len(frames)
    assert told_as_dropped(session) == (lost, lost * FRAME_BYTES, lost * FRAME_US)
    assert on.at_us < off.at_us
    assert before < len(frames)


@pytest.mark.row("AU-15")
def test_generated_frames_carry_the_local_time_of_their_receipt(call: Start, tmp_path: Path) -> None:
    path = tmp_path / "taken"
    session = begin(call, path, "pipeline")
    ready = session.event("ready", "provider")
    wait_for("a second of audio", lambda: len(taken(path)) > 50)
    session.end()
    stamps = [each.receipt_us for each in taken(path)]
    assert stamps == sorted(stamps)
    assert all(ready.at_us <= each.receipt_us <= each.at_us for each in taken(path))
    assert stamps[40] - stamps[0] < 40 * FRAME_US / 4, "a burst is stamped when it came, not when it will be heard"
