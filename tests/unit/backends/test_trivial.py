"""The trivial backend keeps the backend contract."""

import pytest

from parlora.backends.trivial import TrivialBackend
from parlora.errors import Closed
from parlora.testing.adapters import AdapterHarness, backend_request


def test_a_request_is_started_and_completed_once_under_its_own_identity() -> None:
    with AdapterHarness(TrivialBackend(summary="all good")) as harness:
        harness.start()
        request = backend_request("r1", {"order": "123"}, task_revision=4)
        harness.call("submit", request, "c1")
        harness.call("submit", request, "c1")
        done = harness.wait_for("request_completed", request_id="r1").payload["result"]

        assert [event.type for event in harness.sink.events(request_id="r1")] == [
            "request_started",
            "request_completed",
        ]
        assert (done["task_id"], done["task_revision"], done["status"]) == ("task-of-r1", 4, "completed")
        assert (done["summary"], done["facts"]) == ("all good", {"order": "123"})


def test_after_close_it_takes_no_work() -> None:
    with AdapterHarness(TrivialBackend()) as harness:
        harness.start()
        harness.close_adapter()
        with pytest.raises(Closed):
            harness.call("submit", backend_request("r1"), "c1")
