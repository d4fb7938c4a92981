"""A policy may do anything: the caller hears no gap, and the session goes on or ends in order."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from parlora.testing import scripted
from parlora.testing.script import acknowledge, delegate, expect, finish
from tests.contract.whole import EVERYTHING, end
from tests.sessions import Call

Start = Callable[..., Call]

ONE_TASK: dict[str, Any] = {
    **EVERYTHING,
    "provider": scripted.provider(
        delegate("d1"), expect("append_context", text="Done.", delegation_id="d1", name="told"), acknowledge("told")
    ),
    "backend": scripted.backend(expect("submit", delegation_id="d1", name="work"), finish("work", summary="Done.")),
}


@pytest.mark.row("CP-06")
@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ("sleeps", "timeout"),
        ("raises", "adapter_failed"),
        ("garbage", "invalid_argument"),
        ("ten_thousand", "invalid_argument"),
    ],
)
def test_a_policy_that_fails_once_is_asked_again_while_the_audio_goes_on(
    call: Start, tmp_path: Path, policy: str, code: str
) -> None:
    session = call(
        **{
            **ONE_TASK,
            "context_policy": (f"tests.contract.policies:{policy}", {"mark": str(tmp_path / "mark")}),
            "limits": {"policy_timeout_ms": 700},
        }
    ).ready()
    first = session.pid("policy")
    failed = session.event("policy_failed", "session")

    assert failed.payload["error"]["code"] == code
    assert (failed.payload["attempt"], failed.payload["retry"]) == (1, True)
    session.event("result_delivery", "session", stage="accepted")
    assert (session.pid("policy") != first) is (policy == "sleeps")  # only what never returns has to be killed
    end(session)


def test_a_policy_that_fails_twice_ends_the_session_and_cuts_no_audio_before(call: Start) -> None:
    session = call(**{**ONE_TASK, "provider": scripted.provider(delegate("d1")), "backend": scripted.backend(),
                      "context_policy": "tests.contract.test_policies:always_raises"}).ready()  # fmt: skip
    closed = session.closed()

    assert (closed["reason"], closed["cause"]) == ("failed", "policy_failed")
    assert [e.payload["retry"] for e in session.of("policy_failed")] == [True, False]
    scripted.check_scripts(session.events)
    counts = scripted.audio_counts(session.events, "channel")
    assert (counts["missing"], counts["repeated"]) == (0, 0)


def always_raises(snapshot: Any, trigger: Any, options: Any) -> list[Any]:
    raise ZeroDivisionError
