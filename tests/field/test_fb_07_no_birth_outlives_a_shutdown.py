"""FB-07: a child that was started in answer to the request to stop found no parent and stayed."""

import time
from collections.abc import Callable

from parlora_actors import procfs
from tests.sessions import Call

ROUNDS = 5


def test_what_is_born_during_a_shutdown_ends_with_it(call: Callable[..., Call]) -> None:
    for _ in range(ROUNDS):
        session = call(backend="tests.field.actors:BirthsAtClose").ready()
        session.session.close()
        seen: set[int] = set()
        until = time.monotonic() + 20
        while procfs.is_alive(session.supervisor) and time.monotonic() < until:
            seen |= set(session.below())
        assert session.closed()["left"] == []
        assert not any(map(procfs.is_alive, seen))
