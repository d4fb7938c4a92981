"""What a session's events say was dropped, added up: each lost frame is in exactly one of them."""

from __future__ import annotations

from typing import Any

from tests.sessions import Call

FIELDS = ("dropped_frames", "dropped_bytes", "dropped_duration_us")


def told_as_dropped(session: Call) -> tuple[int, int, int]:
    """Frames, bytes and microseconds: by the output pipeline and the end (session), and by the channel."""
    told: list[dict[str, Any]] = []
    for type in ("control_completed", "control_failed", "audio_discontinuity"):
        told += [event.payload for event in session.of(type, "session")]
    told += [event.payload["audio_discontinuity"] for event in session.of("closed", "session")]
    for event in session.of("control_completed", "channel"):
        loss = event.payload.get("dropped", {})
        told.append({f"dropped_{name}": size for name, size in loss.items()})
    frames, size, duration = (sum(each.get(name, 0) for each in told) for name in FIELDS)
    return frames, size, duration
