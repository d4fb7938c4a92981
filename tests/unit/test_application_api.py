"""The application's calls on a session: all of the contract's, with its arguments."""

import inspect
from typing import Any

import pytest

import parlora

# name -> the arguments besides the session, as the contract counts them; options may be named
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "snapshot": ((), {}),
    "status": ((), {}),
    "subscribe": ((parlora.Subscriber(),), {}),
    "append_context": (({"kind": "quiet", "text": "x"},), {}),
    "update_context": (({},), {}),
    "cancel": (("request", 1, "command"), {}),
    "control": ((("clear_output", "next"), "command"), {}),
    "close": (("finish",), {}),
    "resolve_progress": (("expectation", "completed"), {}),
    "expect_progress": (("expectation", 30_000), {"until": "assistant_caption", "on_timeout": "close"}),
}


@pytest.mark.row("SL-06")
@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_session_has_each_call_of_the_contract_with_its_arguments(name: str) -> None:
    positional, named = CALLS[name]
    method = getattr(parlora.Session, name)
    inspect.signature(method).bind(object(), *positional, **named)
    assert inspect.getdoc(method)


@pytest.mark.row("SL-06")
def test_a_session_offers_beside_them_only_its_id_and_the_two_waits() -> None:
    public = {name for name in dir(parlora.Session) if not name.startswith("_")}
    assert public - set(CALLS) == {"id", "wait_ready", "wait_closed"}
