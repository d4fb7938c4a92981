"""A provider's word on what it was given: early, never, twice or about nothing; told as it is, and never as heard."""

from collections.abc import Callable
from typing import Any

from parlora.testing import scripted
from parlora.testing.script import Step, acknowledge, delegate, emit, expect, finish
from tests.contract.whole import EVERYTHING, end
from tests.sessions import Call, wait_for

Start = Callable[..., Call]


def one_result(*script: Step, **options: Any) -> dict[str, Any]:
    return {
        **EVERYTHING,
        "provider": scripted.provider(delegate("d1"), *script),
        "backend": scripted.backend(expect("submit", name="work"), finish("work", "Done.")),
        **options,
    }


def stages(session: Call) -> list[str]:
    return [event.payload["stage"] for event in session.of("result_delivery")]


def delivery(session: Call) -> str:
    (job,) = session.session.status()["jobs"].values()
    stage: str = job["delivery"]
    return stage


def test_an_acknowledgment_that_overtakes_the_reply_counts(call: Start) -> None:
    session = call(**one_result(expect("append_context", acknowledge("told"), name="told"))).ready()

    session.event("result_delivery", "session", stage="accepted")
    wait_for("the reply", lambda: delivery(session) == "accepted")
    end(session)
    assert stages(session) == ["awaiting_interpretation", "awaiting_provider", "accepted"]


def test_an_acknowledgment_that_never_comes_is_told_as_overdue_and_as_unknown_in_the_end(call: Start) -> None:
    session = call(**one_result(expect("append_context"), limits={"ack_timeout_ms": 200})).ready()

    session.event("result_delivery", "session", overdue=True)
    assert delivery(session) == "awaiting_provider"
    end(session)
    assert stages(session)[-1] == "unknown"


def test_a_second_acknowledgment_changes_nothing(call: Start) -> None:
    told = expect("append_context", name="told")
    session = call(**one_result(told, acknowledge("told"), acknowledge("told"))).ready()

    wait_for("both acknowledgments", lambda: len(session.of("context_acknowledged", "provider")) == 2)
    assert delivery(session) == "accepted"
    end(session)
    assert stages(session).count("accepted") == 1


def test_an_acknowledgment_for_an_unknown_command_is_passed_on_and_guessed_about_by_nobody(call: Start) -> None:
    nobody = [emit("context_acknowledged", command_id="nobody"), emit("context_acknowledged")]
    session = call(**one_result(expect("append_context", name="told"), *nobody)).ready()

    wait_for("both acknowledgments", lambda: len(session.of("context_acknowledged", "provider")) == 2)
    assert delivery(session) == "awaiting_provider"
    end(session)
    assert "accepted" not in stages(session)
