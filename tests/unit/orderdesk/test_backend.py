"""The lookup reads numbers back, takes its time, and stops or does not stop as configured."""

import time

import pytest

from parlora.backends.functions import Functions
from parlora.component import Component
from parlora.orderdesk.config import LOOKUP, session_options
from parlora.orderdesk.orders import ORDERS, Operation, spoken
from parlora.testing.adapters import AdapterHarness, backend_request


@pytest.mark.parametrize("number", sorted(ORDERS))
@pytest.mark.parametrize("operation", list(Operation))
def test_an_answer_reads_the_number_back_digit_by_digit(number: str, operation: Operation) -> None:
    with AdapterHarness(Functions(LOOKUP)) as harness:
        harness.start()
        harness.call("submit", backend_request("r1", {"order": number, "operation": str(operation)}), "c1")
        result = harness.wait_for("request_completed").payload["result"]

    assert f"order {spoken(number)}" in result["summary"].lower()
    assert result["facts"]["order"] == number


def test_an_order_that_does_not_exist_is_not_made_up() -> None:
    with AdapterHarness(Functions(LOOKUP)) as harness:
        harness.start()
        harness.call("submit", backend_request("r1", {"order": "789", "operation": "status"}), "c1")
        result = harness.wait_for("request_completed").payload["result"]

    assert result["summary"] == "I can not find order seven eight nine."
    assert result["facts"] == {"order": "789", "found": False}


@pytest.mark.parametrize("input", [{}, {"order": "12", "operation": "status"}, {"order": "123", "operation": "sell"}])
def test_a_malformed_request_fails_and_names_the_field(input: dict[str, str]) -> None:
    with AdapterHarness(Functions(LOOKUP)) as harness:
        harness.start()
        harness.call("submit", backend_request("r1", input), "c1")

        error = harness.wait_for("request_failed").payload["error"]
        assert error["code"] == "invalid_argument"
        assert error["details"]["field"].startswith("input.")


def test_a_lookup_stops_when_asked_unless_it_ignores_that() -> None:
    path, options = session_options(delays_ms={"123": 30_000, "124": 100}, ignores_cancel=["124"])["backend"]
    with AdapterHarness(Component(path, options).build("backend")) as harness:
        harness.start()
        began = time.monotonic()
        for name, number in (("r1", "123"), ("r2", "124")):
            request = backend_request(name, {"order": number, "operation": "status"})
            harness.call("submit", request, f"s-{name}")
            harness.call("cancel", name, "superseded", f"c-{name}")
        harness.wait_for("request_cancelled", request_id="r1")
        late = harness.wait_for("request_completed", request_id="r2")

    assert time.monotonic() - began < 20
    assert late.payload["result"]["summary"] == "Order one two four was cancelled on Monday."
