"""What every scenario of this folder checks at its end: the scripts were followed and no frame was lost."""

from typing import Any

from parlora.testing import scripted
from tests.sessions import Call, wait_for

EVERYTHING: dict[str, Any] = {
    "channel": scripted.channel(),
    "provider": scripted.provider(),
    "backend": scripted.backend(),
    "context_policy": "tests.misbehaving:start_everything",
}

LEAST_FRAMES = 20
ON_THE_WAY = 10
"""Frames of the playback queue that the channel may not have taken yet."""

LONGEST_PAUSE_US = 1_000_000
"""A pause that a loaded machine may cause; what the scenarios would cause lasts longer."""


def heard_frames(call: Call) -> int:
    """Frames that have reached the caller so far."""
    health = call.session.status()["health"]
    frames: int = health["output_forwarded"]["frames"]
    return frames


def end(call: Call) -> dict[str, Any]:
    """Close, and check that the scripts were followed and the audio never stopped."""
    before = heard_frames(call)
    wait_for("audio after all that", lambda: heard_frames(call) >= before + LEAST_FRAMES + ON_THE_WAY)
    closed = call.end()
    check(call)
    return closed


def check(call: Call) -> None:
    scripted.check_scripts(call.events)
    for source in ("channel", "provider"):
        counts = scripted.audio_counts(call.events, source)
        assert counts["frames"] >= LEAST_FRAMES, counts
        assert (counts["missing"], counts["repeated"]) == (0, 0), counts
        assert counts["longest_pause_us"] < LONGEST_PAUSE_US, counts
