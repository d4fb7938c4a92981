"""A provider without any optional callback keeps working, on real processes."""

from collections.abc import Callable

import pytest

from tests.sessions import Call, call, host  # noqa: F401 - fixtures


@pytest.mark.row("PC-24")
def test_a_provider_without_optional_callbacks_holds_a_call(call: Callable[..., Call]) -> None:  # noqa: F811
    session = call(
        channel=("parlora.channels.trivial:TrivialChannel", {"send": "idle"}),  # this provider hears nothing
        provider="tests.providers.minimal:Minimal",
        context_policy=("parlora.policies:Delegate", {}),
        backend=("parlora.backends.trivial:TrivialBackend", {"summary": "done"}),
    ).ready()
    session.event("result_delivery", "session", stage="accepted")
    session.event("control_completed", "session", interruption=True)
    assert session.end()["finalization_observed"] is True
    assert not session.of("failed")
