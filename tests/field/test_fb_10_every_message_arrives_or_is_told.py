"""FB-10: after some thousands of messages some stopped arriving, and nobody was told."""

import os
import signal
import time
from collections.abc import Callable

from parlora.testing import scripted
from parlora.testing.script import emit, pause
from tests.contract.whole import EVERYTHING
from tests.sessions import Call, wait_for

BURSTS, BURST = 50, 200


def test_ten_thousand_events_arrive_although_the_receiver_pauses(call: Callable[..., Call]) -> None:
    bursts = [
        step for number in range(BURSTS) for step in (emit("extension", {"burst": number}, times=BURST), pause(100))
    ]
    limits = {"subscriber_mailbox_threshold": 65_536}
    session = call(**{**EVERYTHING, "provider": scripted.provider(*bursts), "limits": limits}).ready()
    coordinator = session.pid("coordinator")
    for number in (5, 15, 25):
        wait_for("the next burst", lambda: len(session.events) > number * BURST)  # noqa: B023
        os.kill(coordinator, signal.SIGSTOP)
        time.sleep(0.3)  # the pause itself: well below the 2 s after which a process counts as unresponsive
        os.kill(coordinator, signal.SIGCONT)
    wait_for("the last event", lambda: len(session.events) >= BURSTS * BURST and session.of("extension")[-1], 60)
    session.end()
    scripted.check_scripts(session.events)
    arrived = [event.payload["burst"] for event in session.of("extension", "provider") if "burst" in event.payload]
    assert arrived == sorted(list(range(BURSTS)) * BURST)
