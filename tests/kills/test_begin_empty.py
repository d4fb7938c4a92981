"""A session's state is in memory and nowhere else: what crashed does not come back by itself."""

import os
import signal

import pytest

from parlora_actors.host import ActorHost
from tests.sessions import MISBEHAVING, Call

WORKING = {
    "provider": f"{MISBEHAVING}:Delegating",
    "backend": f"{MISBEHAVING}:StubbornBackend",
    "context_policy": f"{MISBEHAVING}:start_everything",
}


@pytest.mark.row("SL-50")
def test_a_node_that_is_started_again_after_a_crash_begins_empty() -> None:
    with ActorHost() as first:
        session = Call(first, session_id="one", **WORKING).ready()
        session.event("request_started", "backend")
        assert session.session.snapshot().tasks
        assert first.pid is not None
        os.kill(first.pid, signal.SIGKILL)
        assert session.session.wait_closed(20)["cause"] == "node_lost"
    with ActorHost() as second:
        again = Call(second, session_id="one").ready()
        snapshot = again.session.snapshot()
        assert not snapshot.tasks
        assert not snapshot.transcripts
        assert not snapshot.pending_delegations
        assert not [event for event in again.events if event.request_id is not None]
        again.end()
