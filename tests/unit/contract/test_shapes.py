"""What the contracts of the three adapters are made of."""

from dataclasses import fields

import pytest

from parlora.audio.port import Loss
from parlora.channels.trivial import TrivialChannel
from parlora.contract.adapter import Adapter
from parlora.contract.backend import Backend
from parlora.contract.channel import (
    Channel,
    ChannelCapabilities,
    ClearOutput,
    ClearScope,
    PlaybackEvidence,
    PlaybackStage,
    SuppressOutput,
)
from parlora.contract.provider import Provider
from parlora.session import inputs
from parlora.session.roles import Role
from parlora.testing.adapters import AdapterHarness
from parlora.testing.session_model import SessionModel

COMMON = {"start", "close"}


def callbacks(contract: type) -> set[str]:
    return {name for name in dir(contract) if not name.startswith("_") and callable(getattr(contract, name))}


@pytest.mark.row("SL-52")
@pytest.mark.parametrize(
    ("contract", "own"),
    [
        (Channel, {"control", "release_output_recovery"}),
        (
            Provider,
            {
                "append_context", "control", "audio_limits", "clear_output", "resume_output", "recover_output",
                "resolve_delegation",
            },
        ),
        (Backend, {"submit", "update", "cancel"}),
    ],
)  # fmt: skip
def test_every_contract_is_the_common_one_and_its_own_callbacks(contract: type[Adapter], own: set[str]) -> None:
    assert callbacks(Adapter) == COMMON == Adapter.__abstractmethods__
    assert callbacks(contract) == COMMON | own
    assert contract.__abstractmethods__ > COMMON
    assert all(getattr(contract, name) is getattr(Adapter, name) for name in COMMON)


@pytest.mark.row("CC-01")
def test_a_channel_declares_seven_capabilities_and_the_ready_event_holds_them_all() -> None:
    declared = {
        "input_formats", "output_formats", "full_duplex", "output_suppression", "clear_scope", "playback_evidence",
        "output_pacing",
    }  # fmt: skip
    assert {field.name for field in fields(ChannelCapabilities)} == declared
    with AdapterHarness(TrivialChannel("idle")) as channel:
        assert set(channel.start().payload["capabilities"]) == declared
    model = SessionModel().ready()
    assert set(model.told("ready", "channel").payload["capabilities"]) == declared


@pytest.mark.row("CC-02", "CC-08")
def test_evidence_and_stages_are_these_and_none_says_heard() -> None:
    assert set(PlaybackEvidence) == {"queue", "handoff", "device_report", "estimated_device_time"}
    assert set(PlaybackStage) == {
        "queued", "handed_off", "cleared", "estimated_playback", "device_reported_playback", "unknown",
    }  # fmt: skip
    assert set(ClearScope) == {"none", "parlora_buffers", "remote_buffer"}
    model = SessionModel().ready()
    model.event(Role.CHANNEL, "playback_observed", {"stage": "heard", "evidence": "queue"})
    assert model.told("event_rejected").payload["error"]["details"]["field"] == "stage"


@pytest.mark.row("CC-06")
def test_the_outcome_of_a_control_names_command_control_scope_epoch_and_error() -> None:
    with AdapterHarness(TrivialChannel("idle")) as channel:
        channel.start()
        channel.call("control", ClearOutput(3), "c1")
        channel.call("control", SuppressOutput(True), "c2")
        cleared = channel.wait_for("control_completed", command_id="c1").payload
        suppressed = channel.wait_for("control_completed", command_id="c2").payload
    assert {key: cleared[key] for key in ("control", "scope", "epoch", "error")} == {
        "control": "clear_output", "scope": "parlora_buffers", "epoch": 3, "error": None,
    }  # fmt: skip
    assert {key: suppressed[key] for key in ("control", "scope", "epoch", "error")} == {
        "control": "suppress_output", "scope": "parlora_buffers", "epoch": 3, "error": None,
    }  # fmt: skip
    model = SessionModel(auto_acknowledge=False).ready()
    model.call("control", command=["clear_output", "next"], command_id="c1")
    model.advance(200)
    failed = model.told("control_failed")
    assert failed.command_id == "c1"
    assert failed.payload["error"]["code"] == "timeout"
    assert {"control", "scope", "epoch", "error"} <= set(failed.payload)


@pytest.mark.row("CC-09")
def test_a_discontinuity_names_its_stream_cause_and_how_much_was_lost() -> None:
    model = SessionModel().ready()
    model.feed(
        inputs.PipelineLost,
        role=Role.OUTPUT_PIPELINE,
        stream="output",
        cause="stale_epoch",
        loss=Loss(2, 1_920, 40_000),
    )
    assert model.told("audio_discontinuity").payload == {
        "stream": "output", "cause": "stale_epoch", "dropped_frames": 2, "dropped_bytes": 1_920,
        "dropped_duration_us": 40_000,
    }  # fmt: skip
