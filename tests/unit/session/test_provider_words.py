"""What a session takes a provider's words for, and what it does not."""

import pytest

from parlora.events import EventType
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel

from .helpers import started


@pytest.mark.row("PC-08")
def test_speech_status_is_the_providers_own_report_and_nothing_else_changes_it() -> None:
    model = started()
    model.event(Role.PROVIDER, "provider_activity", {"status": "in_progress"})
    model.event(Role.PROVIDER, "transcript_delta", {"speaker": "assistant", "delta": "hello"})
    model.event(Role.CHANNEL, "playback_observed", {"stage": "handed_off", "evidence": "handoff"})
    model.complete(model.request(), summary="done")
    assert model.snapshot()["provider_speech"] == "unknown"
    for status in ("speaking", "idle"):
        model.event(Role.PROVIDER, "provider_speech", {"status": status})
        model.event(Role.PROVIDER, "provider_activity", {"status": "idle"})
        assert model.snapshot()["provider_speech"] == status


@pytest.mark.row("PC-19")
def test_captions_are_no_playback_and_no_turn_is_needed() -> None:
    assert not [type for type in EventType if "turn" in type]
    model = SessionModel().ready()
    for delta in ("your order", " has left"):
        model.event(Role.PROVIDER, "transcript_delta", {"speaker": "assistant", "delta": delta})
    assert not model.events("playback_observed")
    assert len(model.state.health.playback) == 0
    assert [entry["delta"] for entry in model.snapshot()["transcripts"]] == [" has left", "your order"]
