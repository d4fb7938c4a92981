"""FB-13: a stop in the first second waited behind "started", and the worker was busy for ever."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.sessions import MISBEHAVING, TRIVIAL, Call

SLOW: dict[str, Any] = {**TRIVIAL, "provider": (f"{MISBEHAVING}:SlowProvider", {"delay_ms": 700})}


@pytest.mark.parametrize("moment", ["at once", "while the provider connects", "when ready"])
def test_a_stop_ends_the_session_whenever_it_comes(call: Callable[..., Call], moment: str) -> None:
    session = call(**(TRIVIAL if moment == "when ready" else SLOW))
    if moment == "while the provider connects":
        session.event("ready", "channel")
    elif moment == "when ready":
        session.ready()
    closed = session.end()
    assert (closed["reason"], closed["jobs"]) == ("requested", {})
    assert not session.of("failed", "session")
