"""Counts of what the coordinator observed, and the latest playback observation of each stage (spec 000 §10, §15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.contract.channel import PlaybackStage
from parlora.errors import InvalidArgument
from parlora.events import Event
from parlora.session.inputs import AudioCounters, Forwarded
from parlora.session.state import Expectation, Seen
from parlora.session.turn import Turn

OBSERVATIONS: Final = ("provider_events", "user_caption", "assistant_caption", "delegation", "channel_playback")
"""What is counted, whether or not it has been seen yet."""

_PLAYBACK_KEYS: Final = ("evidence", "stream", "sequence", "epoch", "first_sample", "last_sample", "sample_range")


def saw(turn: Turn, name: str) -> None:
    """Count one observation."""
    seen = turn.health.seen.get(name) or Seen()
    turn.health = replace(turn.health, seen=turn.health.seen.put(name, Seen(seen.count + 1, turn.now_us)))


def sampled(turn: Turn, counters: AudioCounters) -> None:
    """Keep a sample of the rings' counters; a counter never goes back."""
    kept = turn.health.counters
    if counters != kept:
        latest = AudioCounters(
            _later(kept.input_forwarded, counters.input_forwarded),
            _later(kept.output_forwarded, counters.output_forwarded),
        )
        turn.health = replace(turn.health, counters=latest)


def _later(kept: Forwarded, sample: Forwarded) -> Forwarded:
    return sample if sample.frames >= kept.frames else kept


def playback(turn: Turn, event: Event) -> None:
    """A channel's playback observation: only the latest of each stage is kept (acceptance ST-16)."""
    stage = event.payload.get("stage")
    if stage not in tuple(PlaybackStage):
        raise InvalidArgument(f"stage must be one of {', '.join(PlaybackStage)}", field="stage")
    entry: dict[str, Any] = {"stage": str(stage), "observed_at_us": event.at_us}
    entry.update((key, event.payload[key]) for key in _PLAYBACK_KEYS if event.payload.get(key) is not None)
    turn.health = replace(turn.health, playback=turn.health.playback.put(str(stage), entry))
    saw(turn, "channel_playback")


def project(turn: Turn) -> dict[str, Any]:
    """The `health` of status and of `closed`: no audio, no caption text."""
    health = turn.health
    current = health.expectations.get(health.current)
    return {
        "input_forwarded": _forwarded(health.counters.input_forwarded),
        "output_forwarded": _forwarded(health.counters.output_forwarded),
        "observations": {
            name: {"count": seen.count, "last_at_us": seen.last_at_us}
            for name in OBSERVATIONS
            for seen in (health.seen.get(name) or Seen(),)
        },
        "expectation": describe(current) if current is not None else None,
    }


def _forwarded(sample: Forwarded) -> dict[str, Any]:
    return {"frames": sample.frames, "bytes": sample.bytes, "last_at_us": sample.last_at_us}


def describe(expectation: Expectation) -> dict[str, Any]:
    """A progress deadline as the application sees it."""
    return {
        "id": expectation.id,
        "timeout_ms": expectation.timeout_ms,
        "until": expectation.until,
        "on_timeout": expectation.on_timeout,
        "armed_at_us": expectation.armed_at_us,
        "deadline_at_us": expectation.deadline_at_us,
        "status": expectation.status,
        "resolved_at_us": expectation.resolved_at_us,
    }
