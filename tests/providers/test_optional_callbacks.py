"""A provider without any optional callback keeps working, on real processes."""

from collections.abc import Callable

import pytest

from tests.sessions import Call, call, host, wait_for  # noqa: F401 - fixtures


@pytest.mark.row("PC-24")
def test_a_provider_without_optional_callbacks_holds_a_call(call: Callable[..., Call]) -> None:  # noqa: F811
    session = call(
        channel=("parlora.channels.trivial:TrivialChannel", {"send": "idle"}),  # this provider hears nothing
        provider="tests.providers.minimal:Minimal",
        context_policy=("parlora.policies:Delegate", {}),
        backend=("parlora.backends.trivial:TrivialBackend", {"summary": "done"}),
    ).ready()
    session.event("result_delivery", "session", stage="accepted")
    # on a busy machine a clear may be told as failed after 200 ms; the call goes on in either case
    wait_for("the clear", lambda: session.of("control_completed", "session") or session.of("control_failed", "session"))
    assert session.end()["finalization_observed"] is True
    assert not session.of("failed")
