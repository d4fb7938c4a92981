"""Recovery pressure: the channel is asked to end its hold, and what came of asking is told."""

from typing import Any

import pytest

from parlora.session import inputs
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.testing.session_model import SessionModel

from .helpers import REFUSED, error_code

MEASURED = {"queued_bytes": 9_600, "capacity_bytes": 33_600, "pending_bytes": 0, "threshold_bytes": 9_600}


def press(model: SessionModel, epoch: int = 0) -> None:
    model.feed(inputs.PipelinePressed, role=Role.OUTPUT_PIPELINE, epoch=epoch, **MEASURED)


def asked(model: SessionModel) -> list[Any]:
    return model.invoked(Call.RELEASE_OUTPUT_RECOVERY, Role.CHANNEL)


def open_model() -> SessionModel:
    """A ready session in which nobody replies by itself."""
    return SessionModel(auto_acknowledge=False, auto_reply=False, auto_close=False).ready()


@pytest.mark.row("PR-11", "PR-12")
@pytest.mark.parametrize("accepted", [True, False])
def test_the_event_tells_what_was_measured_and_whether_the_channel_took_the_hint(accepted: bool) -> None:
    model = open_model()
    press(model)
    assert asked(model)[-1].arguments["epoch"] == 0
    assert not model.events("recovery_pressure"), "nothing is claimed before the channel has answered"
    model.reply(asked(model)[-1], None if accepted else REFUSED)
    told = model.told("recovery_pressure")
    assert told.payload == {"epoch": 0, **MEASURED, "accepted": accepted}
    assert not model.events("playback_observed")


def test_a_channel_that_is_being_asked_is_not_asked_again() -> None:
    model = open_model()
    press(model)
    press(model)
    assert len(asked(model)) == 1
    model.reply(asked(model)[-1])
    press(model)
    assert len(asked(model)) == 2


@pytest.mark.row("PR-13")
def test_pressure_of_an_epoch_that_a_clear_has_ended_asks_for_nothing() -> None:
    model = SessionModel().ready()
    assert error_code(model.call("control", command=["clear_output", "next"], command_id="c1")) is None
    press(model, epoch=0)
    assert not asked(model)
    press(model, epoch=1)
    assert len(asked(model)) == 1


@pytest.mark.row("PR-13")
def test_a_hint_that_still_waits_when_its_epoch_ends_is_withdrawn() -> None:
    model = open_model()
    model.call("control", command=["suppress_output", True], command_id="s1")  # the channel is busy with this
    press(model)
    model.call("control", command=["clear_output", "next"], command_id="c1")
    for leg in model.invoked(Call.CONTROL, Role.CHANNEL):
        model.reply(leg)
    for leg in model.invoked(Call.CONTROL, Role.CHANNEL):
        model.reply(leg)
    assert not asked(model)
    assert model.told("recovery_pressure").payload["accepted"] is False
