"""Controls: the clear barrier, suppression, mute, and the provider's own interruption."""

from dataclasses import replace
from typing import Any

import pytest

from parlora.audio.port import Loss
from parlora.contract.channel import ClearScope
from parlora.limits import ADMISSION_DEADLINE_MS, CLEAR_TIMEOUT_MS
from parlora.session import effects, inputs
from parlora.session.commands import room
from parlora.session.effects import Call, Invoke
from parlora.session.roles import Role
from parlora.testing.session_model import CHANNEL, SessionModel

from .helpers import REFUSED, error_code, started


def open_model() -> SessionModel:
    """A ready session in which nobody acknowledges by itself."""
    return SessionModel(auto_acknowledge=False, auto_reply=False, auto_close=False).ready()


def clear(model: SessionModel, command_id: str = "c1") -> Any:
    return model.call("control", command=["clear_output", "next"], command_id=command_id)


def pipeline(model: SessionModel, position: int = -1, loss: Loss | None = None) -> None:
    control = model.of(effects.ControlPipeline)[position]
    model.feed(
        inputs.PipelineReplied,
        role=control.role,
        command_id=control.command_id,
        epoch=control.epoch or 0,
        loss=loss or Loss(),
    )


def channel(model: SessionModel, position: int = -1, type: str = "control_completed", **payload: Any) -> None:
    leg = model.invoked(Call.CONTROL, Role.CHANNEL)[position]
    model.event(Role.CHANNEL, type, payload, command_id=leg.command_id)


def provider(model: SessionModel, position: int = -1) -> None:
    model.reply(model.invoked(Call.CLEAR_OUTPUT)[position])


PARTS = [pipeline, channel, provider]


@pytest.mark.row("EP-01", "EP-06")
def test_the_epoch_starts_at_zero_and_each_clear_gives_every_role_a_higher_one() -> None:
    model = SessionModel().ready()
    assert model.state.controls.epoch == 0
    for epoch in (1, 2):
        assert error_code(clear(model, f"c{epoch}")) is None
        assert model.last(effects.ControlPipeline).epoch == epoch
        assert model.last_invoke(Call.CLEAR_OUTPUT).arguments == {"epoch": epoch}
        assert model.last_invoke(Call.CONTROL).arguments == {"command": {"epoch": epoch}}

    completed = model.told("control_completed")
    assert completed.command_id == "c2"
    assert (completed.payload["epoch"], completed.payload["scope"]) == (2, "parlora_buffers")


@pytest.mark.row("EP-04")
@pytest.mark.parametrize("last", PARTS)
def test_a_clear_completes_only_after_all_three_roles(last: Any) -> None:
    model = open_model()
    assert error_code(clear(model)) is None
    for part in PARTS:
        if part is not last:
            part(model)
    assert not model.events("control_completed")
    last(model)

    assert [event.command_id for event in model.events("control_completed")] == ["c1"]
    model.advance(CLEAR_TIMEOUT_MS)
    assert not model.events("control_failed")


def test_what_the_pipeline_dropped_is_told() -> None:
    model = open_model()
    clear(model)
    pipeline(model, loss=Loss(3, 2_880, 60_000))
    channel(model)
    provider(model)

    payload = model.told("control_completed").payload
    assert (payload["dropped_frames"], payload["dropped_bytes"], payload["dropped_duration_us"]) == (3, 2_880, 60_000)


@pytest.mark.row("EP-08")
def test_a_clear_that_is_not_adopted_in_time_fails_naming_who_is_missing_and_the_epoch_stays() -> None:
    model = open_model()
    clear(model)
    pipeline(model)
    model.advance(CLEAR_TIMEOUT_MS - 1)
    assert not model.events("control_failed")
    model.advance(1)

    failed = model.told("control_failed")
    assert failed.command_id == "c1"
    assert (failed.payload["error"]["code"], failed.payload["error"]["details"]["missing"]) == (
        "timeout",
        ["channel", "provider"],
    )
    channel(model)
    provider(model)
    assert not model.events("control_completed")
    clear(model, "c2")
    assert model.last(effects.ControlPipeline).epoch == 2


def test_clears_coalesce_upward_and_each_id_has_its_own_outcome() -> None:
    model = open_model()
    for name in ("a", "b", "c"):
        clear(model, name)
    assert [invoke.arguments["epoch"] for invoke in model.invoked(Call.CLEAR_OUTPUT)] == [1]
    pipeline(model)
    provider(model)
    model.reply(model.last_invoke(Call.CONTROL))
    assert [invoke.arguments["epoch"] for invoke in model.invoked(Call.CLEAR_OUTPUT)] == [1, 3]
    provider(model)
    channel(model)

    assert {event.command_id: event.payload["epoch"] for event in model.events("control_completed")} == {
        "a": 1,
        "b": 2,
        "c": 3,
    }


@pytest.mark.row("CM-14", "CM-06")
def test_a_repeated_clear_advances_nothing() -> None:
    model = SessionModel().ready()
    clear(model)
    assert error_code(clear(model)) is None

    assert model.state.controls.epoch == 1
    assert len(model.events("control_completed")) == 1


def test_a_clear_goes_before_what_waits_for_the_owner() -> None:
    model = open_model()
    for name in ("a", "b"):
        model.call("append_context", update={"kind": "quiet", "text": name}, command_id=name)
    clear(model)
    model.reply(model.last_invoke(Call.APPEND_CONTEXT))

    assert model.of(Invoke)[-1].call is Call.CLEAR_OUTPUT


@pytest.mark.parametrize("part", [channel, provider])
def test_a_role_that_refuses_fails_the_control_at_once(part: Any) -> None:
    model = open_model()
    clear(model)
    if part is channel:
        channel(model, type="control_failed", error=REFUSED)
    else:
        model.reply(model.last_invoke(Call.CLEAR_OUTPUT), REFUSED)

    error = model.told("control_failed").payload["error"]
    assert (error["code"], error["details"]["role"]) == ("unsupported", part.__name__)


def test_a_channel_that_cannot_clear_or_suppress_is_not_asked_to() -> None:
    model = SessionModel()
    model.capabilities[Role.CHANNEL] = replace(CHANNEL, clear_scope=ClearScope.NONE, output_suppression=False)
    model.ready()

    assert error_code(clear(model)) == "unsupported"
    assert error_code(model.call("control", command=["suppress_output", True], command_id="c2")) == "unsupported"
    assert model.state.controls.epoch == 0
    model.event(Role.PROVIDER, "output_interrupted", {"token": "t1"})
    assert not model.invoked(Call.CONTROL)
    assert model.last_invoke(Call.RESUME_OUTPUT).arguments == {"token": "t1"}


@pytest.mark.row("EP-18")
@pytest.mark.parametrize("on", [True, False])
def test_suppression_is_adopted_by_pipeline_and_channel(on: bool) -> None:
    model = open_model()
    assert error_code(model.call("control", command=["suppress_output", on], command_id="c1")) is None
    assert model.last(effects.ControlPipeline).suppress is on
    assert model.last_invoke(Call.CONTROL).arguments == {"command": {"on": on}}
    channel(model)
    assert not model.events("control_completed")
    pipeline(model)

    completed = model.told("control_completed")
    assert (completed.command_id, completed.payload["control"], completed.payload["on"]) == (
        "c1",
        "suppress_output",
        on,
    )
    assert not model.invoked(Call.CLEAR_OUTPUT)


@pytest.mark.row("EP-16")
def test_mute_is_the_providers_to_admit_or_refuse_and_its_outcome_is_the_providers_event() -> None:
    model = open_model()
    assert model.call("control", command=["mute_input", True], command_id="c1") is None
    (invoke,) = model.invoked(Call.CONTROL)
    assert (invoke.role, invoke.command_id, invoke.arguments) == (Role.PROVIDER, "c1", {"command": {"on": True}})
    model.reply(invoke, REFUSED)

    (answer,) = model.of(effects.Answer)
    assert answer.error == REFUSED
    model.call("control", command=["mute_input", False], command_id="c2")
    model.reply(model.last_invoke(Call.CONTROL))
    model.event(Role.PROVIDER, "control_completed", {"scope": "input"}, command_id="c2")
    assert model.told("control_completed", "provider").command_id == "c2"


@pytest.mark.parametrize(
    "command", [None, "clear_output", ["clear_output"], ["clear_output", 3], ["suppress_output", 1], ["mute", True]]
)
def test_a_control_that_is_none_is_refused(command: Any) -> None:
    answer = SessionModel().ready().call("control", command=command, command_id="c1")

    assert error_code(answer) == "invalid_argument"


@pytest.mark.row("GM-07", "GM-08")
def test_an_interruption_starts_the_barrier_and_resumes_with_its_token_only_after_it() -> None:
    model = open_model()
    model.event(Role.PROVIDER, "output_interrupted", {"token": "t1"})
    pipeline(model)
    channel(model)
    assert not model.invoked(Call.RESUME_OUTPUT)
    provider(model)

    assert [invoke.arguments for invoke in model.invoked(Call.RESUME_OUTPUT)] == [{"token": "t1"}]
    assert model.told("control_completed").payload["interruption"] is True


def test_an_interruptions_barrier_that_completes_late_still_resumes() -> None:
    model = open_model()
    model.event(Role.PROVIDER, "output_interrupted", {"token": "t1"})
    model.reply(model.last_invoke(Call.CONTROL))
    pipeline(model)
    provider(model)
    model.advance(CLEAR_TIMEOUT_MS)
    assert model.events("control_failed")
    channel(model)

    assert len(model.invoked(Call.RESUME_OUTPUT)) == 1
    assert not model.events("control_completed")


def test_an_interruption_whose_barrier_never_completes_ends_the_session() -> None:
    model = open_model()
    model.event(Role.PROVIDER, "output_interrupted", {"token": "t1"})
    model.reply(model.last_invoke(Call.CONTROL))
    pipeline(model)
    provider(model)
    model.advance(ADMISSION_DEADLINE_MS)

    assert model.told("failed").payload["cause"] == "clear_failed"
    assert not model.invoked(Call.RESUME_OUTPUT)


@pytest.mark.row("OA-07", "OA-10", "OA-11")
def test_a_recovery_clears_then_recovers_with_the_snapshot_and_holds_results_for_the_caller() -> None:
    model = started()
    model.event(Role.PROVIDER, "output_recovery_requested", {"token": "t1"})
    (recover,) = model.invoked(Call.RECOVER_OUTPUT)
    assert recover.arguments["token"] == "t1"
    assert recover.arguments["snapshot"]["session_id"] == "s1"
    model.complete(model.request(), summary="done")
    assert not model.appended_texts()
    model.say("are you there?")
    assert not model.appended_texts()
    model.settle()

    assert model.appended_texts() == ["done"]
    assert len(model.invoked(Call.SUBMIT)) == 1


def test_closing_gives_a_control_under_way_its_outcome() -> None:
    model = open_model()
    clear(model)
    model.call("close")
    model.advance(CLEAR_TIMEOUT_MS)

    assert model.told("control_failed").command_id == "c1"


def test_controls_under_way_are_bounded() -> None:
    model = open_model()
    codes = [
        error_code(model.call("control", command=["suppress_output", True], command_id=f"c{number}"))
        for number in range(room(model.spec.limits) + 1)
    ]

    assert codes[-1] == "backpressure"
    assert set(codes[:-1]) == {None}
    model.event(Role.PROVIDER, "output_interrupted", {"token": "t1"})
    assert model.told("event_rejected").payload["error"]["code"] == "backpressure"


def test_a_suppression_that_was_told_as_failed_is_not_carried_out_later() -> None:
    model = open_model()
    clear(model)
    model.call("control", command=["suppress_output", True], command_id="c2")
    model.advance(CLEAR_TIMEOUT_MS)
    assert [event.command_id for event in model.events("control_failed")] == ["c1", "c2"]
    model.reply(model.last_invoke(Call.CONTROL))

    assert len(model.invoked(Call.CONTROL)) == 1


LOST = Loss(3, 2_880, 60_000)
TOLD = {"dropped_frames": 3, "dropped_bytes": 2_880, "dropped_duration_us": 60_000}


def told_as_lost(model: SessionModel) -> list[dict[str, Any]]:
    kinds = ("control_completed", "control_failed", "audio_discontinuity")
    payloads = [event.payload for kind in kinds for event in model.events(kind)]
    return [payload for payload in payloads if payload.get("dropped_frames")]


@pytest.mark.row("AU-23")
@pytest.mark.parametrize("late", [False, True])
def test_what_a_clear_dropped_is_told_once_also_if_the_clear_fails(late: bool) -> None:
    model = open_model()
    clear(model)
    if not late:
        pipeline(model, loss=LOST)
    model.advance(CLEAR_TIMEOUT_MS)
    assert model.events("control_failed")
    if late:
        pipeline(model, loss=LOST)
    provider(model)
    channel(model)
    (told,) = told_as_lost(model)
    assert TOLD.items() <= told.items()
    assert told.get("cause") == ("late_control" if late else None)


@pytest.mark.row("AU-23")
@pytest.mark.parametrize("late", [False, True])
def test_what_an_interruption_dropped_is_told_once_also_if_its_clear_is_late(late: bool) -> None:
    model = open_model()
    model.event(Role.PROVIDER, "output_interrupted", {"token": "t"})
    if not late:
        pipeline(model, loss=LOST)
    model.advance(CLEAR_TIMEOUT_MS)
    if late:
        pipeline(model, loss=LOST)
    provider(model)
    channel(model)
    (told,) = told_as_lost(model)
    assert TOLD.items() <= told.items()
