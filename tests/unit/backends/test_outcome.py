"""Whatever a function returns or raises, exactly one terminal event follows from it, and it is consistent."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from parlora.backends.outcome import cancelled, failed, returned
from parlora.contract.backend import BackendResult, ResultStatus
from parlora.errors import InvalidArgument
from parlora.limits import RESULT_BYTES
from parlora.testing.adapters import backend_request
from parlora.wire import packed_size

EVENTS = {"completed": "request_completed", "failed": "request_failed", "cancelled": "request_cancelled"}

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
results = st.builds(
    BackendResult,
    request_id=st.sampled_from(["r1", "r2"]),
    task_id=st.sampled_from(["task-of-r1", "other"]),
    task_revision=st.sampled_from([1, 2]),
    status=st.sampled_from(ResultStatus) | st.just("done"),
    facts=st.dictionaries(st.text(max_size=5), plain, max_size=3) | st.just({"x": object()}),
    summary=st.none() | st.text() | st.just(7),
    metadata=st.just({}) | st.just({1: 2}),
)
REQUEST = backend_request("r1")


@given(plain | results)
def test_a_told_result_is_always_the_requests_own_and_valid(value: Any) -> None:
    type, payload = returned(REQUEST, 1, value)

    if type == "request_uncertain":
        assert payload["reason"] == "invalid_result"
        assert isinstance(payload["detail"], str)
    else:
        result = payload["result"]
        assert EVENTS[result["status"]] == type
        assert (result["request_id"], result["task_id"], result["task_revision"]) == ("r1", "task-of-r1", 1)
        assert result["summary"] is None or isinstance(result["summary"], str)
        assert packed_size(result) <= RESULT_BYTES


def test_the_bound_is_on_the_whole_result_to_the_byte() -> None:
    room = RESULT_BYTES - packed_size(returned(REQUEST, 1, {"text": "x" * 60_000})[1]["result"]) + 60_000

    assert returned(REQUEST, 1, {"text": "x" * room})[0] == "request_completed"
    assert returned(REQUEST, 1, {"text": "x" * (room + 1)})[0] == "request_uncertain"


def test_an_error_whose_details_cannot_travel_still_fails_the_request() -> None:
    type, payload = failed(REQUEST, 1, InvalidArgument("bad", details={"what": object()}))

    assert type == "request_failed"
    assert payload["error"]["message"] == "bad"


def test_a_cancelled_request_has_a_cancelled_result() -> None:
    type, payload = cancelled(REQUEST, 1)

    assert (type, payload["result"]["status"]) == ("request_cancelled", "cancelled")
