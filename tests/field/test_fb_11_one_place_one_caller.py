"""FB-11: load was looked at twice a second, and two callers who came in between both got the last place."""

from concurrent.futures import ThreadPoolExecutor

from parlora.errors import Backpressure
from parlora_actors.host import ActorHost
from parlora_actors.session_handle import Session
from tests.sessions import TRIVIAL

CALLERS = 50


def test_many_callers_at_once_get_the_one_place_once() -> None:
    with ActorHost(max_sessions=1) as host:

        def ask(_: int) -> Session | Backpressure:
            try:
                return host.start_session(**TRIVIAL)
            except Backpressure as refused:
                return refused

        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(ask, range(CALLERS)))
        admitted = [each for each in answers if isinstance(each, Session)]
        refused = [each for each in answers if isinstance(each, Backpressure)]
        assert (len(admitted), len(refused)) == (1, CALLERS - 1)
        assert all(each.details["max_sessions"] == 1 for each in refused)
        admitted[0].close()
        admitted[0].wait_closed(20)
