"""FB-16: a service that closed politely left its consumer waiting, or half a turn was taken for a whole one."""

from collections.abc import Callable

import pytest

from parlora.testing import scripted
from parlora.testing.script import delegate, emit, expect, pause, started
from tests.contract.whole import EVERYTHING
from tests.sessions import Call

GOODBYE = emit("closed", {"finalization_observed": False})


@pytest.mark.parametrize("moment", ["idle", "mid-audio", "job open"])
def test_a_clean_close_ends_the_session_once_and_an_open_job_is_uncertain(
    call: Callable[..., Call], moment: str
) -> None:
    if moment == "job open":
        provider = scripted.provider(delegate("d1"), pause(400), GOODBYE, allow=("control", "append_context"))
        backend = scripted.backend(expect("submit", name="work"), started("work"), allow=("cancel",))
    else:
        provider = scripted.provider(pause(200), GOODBYE, speak=moment == "mid-audio")
        backend = scripted.backend()
    session = call(**{**EVERYTHING, "provider": provider, "backend": backend}).ready()
    closed = session.closed()

    assert (closed["reason"], closed["cause"]) == ("failed", "provider_closed")
    assert [event.source for event in session.of("failed")] == ["session"]
    assert closed["finalization_observed"] is False
    assert [job["status"] for job in closed["jobs"].values()] == (["uncertain"] if moment == "job open" else [])
