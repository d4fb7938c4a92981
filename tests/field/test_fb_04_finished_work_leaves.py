"""FB-04: the work was done and the session closed, yet its process stayed for a minute: a library left a thread."""

import time
from collections.abc import Callable

from tests.sessions import Call


def test_a_thread_that_stays_holds_up_nobody_and_spoils_no_outcome(call: Callable[..., Call]) -> None:
    session = call(backend="tests.field.actors:LeavesAThread", limits={"shutdown_timeout_ms": 30_000}).ready()
    began = time.monotonic()
    payload = session.end()
    assert time.monotonic() - began < 8
    assert (payload["reason"], payload["left"]) == ("requested", [])
