"""Startup: one budget, every part, the drain last; abort without calling anybody."""

from dataclasses import replace
from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.contract.channel import OutputPacing
from parlora.contract.provider import ContextKind
from parlora.events import Event
from parlora.limits import Limits
from parlora.session import effects, inputs
from parlora.session.effects import Call
from parlora.session.roles import OWNERS, Role
from parlora.testing.session_model import CHANNEL, PROVIDER, SessionModel, session_spec

from .helpers import error_code

PARTS = (*OWNERS, Role.POLICY)


def bring_up(model: SessionModel, parts: tuple[Role, ...]) -> None:
    for role in parts:
        if role is Role.POLICY:
            model.feed(inputs.PolicyUp)
        else:
            model.adapter_ready(role)


def failed(model: SessionModel) -> dict[str, Any]:
    """The session failed before readiness, without calling an adapter, and everything is killed."""
    assert not model.events("ready"), model.story()
    assert not model.invoked(Call.CLOSE)
    assert not model.of(effects.OpenAudio)
    assert [reap.force for reap in model.of(effects.ReapChildren)] == [True]
    assert len(model.events("closed")) == 1
    return model.told("failed").payload


@pytest.mark.row("SL-16", "SL-20")
@pytest.mark.parametrize("last", PARTS)
def test_audio_opens_and_readiness_is_told_only_after_every_part_and_the_drain(last: Role) -> None:
    model = SessionModel()
    bring_up(model, tuple(part for part in PARTS if part is not last))
    assert not model.of(effects.DrainCapture)

    bring_up(model, (last,))
    assert model.of(effects.DrainCapture)
    assert not model.of(effects.OpenAudio)
    assert not model.events("ready")

    model.feed(inputs.PipelineDrained, loss=Loss())
    assert model.of(effects.OpenAudio) == [effects.OpenAudio(OutputPacing.PIPELINE)]
    assert model.events("ready")
    assert model.status()["status"] == "ready"


@pytest.mark.row("SL-35")
def test_what_the_drain_dropped_is_one_discontinuity_of_the_capture_before_readiness() -> None:
    model = SessionModel().ready(Loss(frames=7, bytes=6_720, duration_us=140_000))

    told = [event.type for event in model.events()]
    assert told == ["audio_discontinuity", "ready"]
    assert model.told("audio_discontinuity").payload == {
        "stream": "capture",
        "cause": "startup_buffer_discard",
        "dropped_frames": 7,
        "dropped_bytes": 6_720,
        "dropped_duration_us": 140_000,
    }


def test_a_drain_that_dropped_nothing_is_no_discontinuity() -> None:
    assert not SessionModel().ready().events("audio_discontinuity")


@pytest.mark.row("EV-07")
def test_readiness_tells_the_capabilities_of_all_three_adapters() -> None:
    capabilities = SessionModel().ready().told("ready").payload["capabilities"]

    assert set(capabilities) == {"channel", "provider", "backend"}
    assert capabilities["provider"]["context_acknowledgment"] is True
    assert capabilities["channel"]["clear_scope"] == "parlora_buffers"
    assert capabilities["backend"]["cancellation"] == "advisory"


@pytest.mark.row("SL-19")
@pytest.mark.parametrize("missing", [*PARTS, Role.INPUT_PIPELINE])
def test_one_absolute_deadline_covers_every_part_and_the_drain(missing: Role) -> None:
    model = SessionModel(session_spec(Limits(startup_timeout_ms=1_000)))
    for part in PARTS:
        if part is not missing:
            bring_up(model, (part,))
            model.advance(200)
    assert not model.events("failed")
    model.advance(400)

    payload = failed(model)
    assert payload["cause"] == "startup_timeout"
    assert payload["error"]["code"] == "timeout"
    assert payload["error"]["details"]["missing"] == [str(missing)]
    assert model.events("failed")[0].at_us == model.spec.deadline_us


def without(capability: str, value: Any) -> Any:
    return replace(PROVIDER, **{capability: value})


@pytest.mark.row("SL-29", "SL-30", "PC-03", "PC-05")
@pytest.mark.parametrize(
    ("capability", "value"),
    [
        ("full_duplex", False),
        ("audio_formats", (AudioFormat.pcmu(),)),
        ("delegation_modes", ("responses",)),
        ("context_update_kinds", (ContextKind.QUIET, ContextKind.INSTRUCTION)),
    ],
)
def test_each_required_provider_capability_missing_alone_fails_the_start(capability: str, value: Any) -> None:
    model = SessionModel()
    model.capabilities[Role.PROVIDER] = without(capability, value)
    bring_up(model, (Role.CHANNEL, Role.BACKEND, Role.POLICY, Role.PROVIDER))

    payload = failed(model)
    assert payload["error"]["code"] == "unsupported"
    assert payload["error"]["details"]["field"] == f"provider.{capability}"
    assert not model.of(effects.DrainCapture)


@pytest.mark.row("SL-31", "SL-32", "SL-34")
def test_what_is_not_required_may_be_absent() -> None:
    model = SessionModel()
    model.capabilities[Role.PROVIDER] = replace(
        PROVIDER,
        transcripts=(),
        context_update_kinds=(ContextKind.SPEAKABLE,),
        input_mute=False,
        usage=False,
        context_acknowledgment=False,
        same_format_both_directions=False,
    )
    model.ready()

    assert model.told("ready").payload["audio_format"] == AudioFormat().to_data()


@pytest.mark.row("SL-14")
def test_a_channel_without_the_sessions_format_and_an_adapter_that_agreed_to_another_fail_the_start() -> None:
    model = SessionModel()
    model.capabilities[Role.CHANNEL] = replace(CHANNEL, output_formats=(AudioFormat.pcmu(),))
    model.adapter_ready(Role.CHANNEL)
    assert failed(model)["error"]["details"]["field"] == "channel.output_formats"

    model = SessionModel()
    model.adapter_ready(Role.PROVIDER, audio_format=AudioFormat.pcmu().to_data())
    assert failed(model)["error"]["code"] == "unsupported"


@pytest.mark.parametrize("payload", [{}, {"capabilities": None}, {"capabilities": {"full_duplex": True}}])
def test_a_ready_event_without_usable_capabilities_fails_the_start(payload: dict[str, Any]) -> None:
    model = SessionModel()
    model.event(Role.PROVIDER, "ready", {"audio_format": AudioFormat().to_data(), **payload})

    assert failed(model)["error"]["code"] == "adapter_failed"


def adapter_failed(model: SessionModel, role: Role) -> None:
    error = {"code": "invalid_argument", "message": "no such device", "details": {"field": f"{role}.device"}}
    model.event(role, "failed", {"error": error})


def adapter_closed(model: SessionModel, role: Role) -> None:
    model.event(role, "closed")


def process_died(model: SessionModel, role: Role) -> None:
    model.feed(inputs.ProcessDown, role=role, cause="signal 11")


@pytest.mark.row("SL-23")
@pytest.mark.parametrize("role", OWNERS)
@pytest.mark.parametrize("end", [adapter_failed, adapter_closed, process_died])
def test_any_end_of_an_adapter_before_readiness_aborts_the_start(role: Role, end: Any) -> None:
    model = SessionModel()
    bring_up(model, tuple(part for part in PARTS if part is not role))
    end(model, role)

    payload = failed(model)
    assert payload["cause"] == "startup_failed"
    assert payload["role"] == str(role)


def test_an_adapters_own_words_are_the_reason_of_the_failure() -> None:
    model = SessionModel()
    adapter_failed(model, Role.CHANNEL)

    assert model.told("failed").payload["error"]["details"]["field"] == "channel.device"


def test_a_pipeline_that_dies_aborts_the_start_and_so_does_a_policy_that_cannot_be_imported() -> None:
    model = SessionModel()
    process_died(model, Role.OUTPUT_PIPELINE)
    assert failed(model)["cause"] == "startup_failed"

    model = SessionModel()
    error = {"code": "invalid_argument", "message": "cannot import", "details": {"field": "context_policy"}}
    model.feed(inputs.ProcessDown, role=Role.POLICY, cause="start_failed", error=error)
    assert failed(model)["error"]["details"]["field"] == "context_policy"


def test_a_policy_worker_that_crashes_during_startup_is_awaited_within_the_same_budget() -> None:
    model = SessionModel()
    bring_up(model, PARTS)
    model.feed(inputs.ProcessDown, role=Role.POLICY, cause="exit 1")
    model.feed(inputs.PipelineDrained, loss=Loss())
    model.advance(5_000)

    assert model.told("failed").payload["cause"] == "policy_failed"


@pytest.mark.row("SL-24")
def test_closing_before_readiness_kills_without_calling_an_adapter() -> None:
    model = SessionModel()
    bring_up(model, (Role.CHANNEL, Role.PROVIDER))
    answer = model.call("close")

    assert error_code(answer) is None
    assert not model.invoked(Call.CLOSE)
    assert [reap.force for reap in model.of(effects.ReapChildren)] == [True]
    assert not model.events("failed")
    assert model.told("closed").payload["cause"] == "close_requested"


@pytest.mark.row("SL-26")
def test_an_adapter_that_starts_after_the_abort_does_not_make_the_session_ready() -> None:
    model = SessionModel(auto_close=False)
    bring_up(model, (Role.CHANNEL, Role.PROVIDER, Role.POLICY))
    model.advance(15_000)
    assert model.events("failed")
    bring_up(model, (Role.BACKEND,))
    model.feed(inputs.PipelineDrained, loss=Loss())

    assert not model.events("ready")
    assert not model.of(effects.DrainCapture)
    assert model.status()["status"] == "closing"


def test_a_repeated_ready_is_passed_on_and_changes_nothing() -> None:
    model = SessionModel().ready()
    model.adapter_ready(Role.PROVIDER)

    assert len(model.events("ready", "provider")) == 2
    assert len(model.events("ready")) == 1


def test_calls_that_reach_an_adapter_are_refused_before_readiness_and_others_are_served() -> None:
    model = SessionModel()

    assert error_code(model.call("control", command=["mute_input", True], command_id="c1")) == "not_ready"
    update = {"kind": "quiet", "text": "hello"}
    assert error_code(model.call("append_context", update=update)) == "not_ready"
    assert model.status()["status"] == "starting"
    assert error_code(model.call("subscribe", subscription_id="a")) is None
    assert error_code(model.call("update_context", context={"name": "Ada"})) is None


def test_what_was_said_before_readiness_is_interpreted_once_the_session_is_ready() -> None:
    model = SessionModel()
    model.adapter_ready(Role.PROVIDER)
    model.say("hello")
    assert not model.of(effects.RunPolicy)
    model.ready()

    assert model.last(effects.RunPolicy).snapshot.transcripts[0]["delta"] == "hello"


@pytest.mark.row("SL-42")
def test_the_context_given_at_startup_is_in_the_first_snapshot() -> None:
    model = SessionModel(session_spec(context={"customer": "Ada"}))

    assert model.snapshot()["application_context"] == {"customer": "Ada"}


def test_an_event_of_another_generation_is_refused() -> None:
    model = SessionModel().ready()
    stale: Event = replace(model.adapter_event(Role.PROVIDER, "provider_speech", {"status": "idle"}), generation=4)
    model.feed(inputs.AdapterEvent, role=Role.PROVIDER, event=stale)

    assert model.told("event_rejected").payload["type"] == "provider_speech"
    assert model.snapshot()["provider_speech"] == "unknown"
