"""FB-25: the reservation was made, the caller spoke before the answer, and the model made it again."""

from collections.abc import Callable

from parlora.testing import scripted
from parlora.testing.script import acknowledge, delegate, emit, expect, finish, pause, say
from tests.contract.whole import EVERYTHING
from tests.sessions import Call, wait_for


def test_a_repeated_call_is_answered_from_the_record_and_nothing_is_done_twice(call: Callable[..., Call]) -> None:
    session = call(
        **{
            **EVERYTHING,
            "provider": scripted.provider(
                say("A table for two."),
                delegate("d1"),
                expect("append_context", text="Table 5 is yours.", name="told"),
                emit("output_interrupted", {"token": "t1"}),
                acknowledge("told"),
                pause(100),
                delegate("d1"),
                delegate("d2"),
                expect("append_context", kind="quiet", delegation_id="d2", name="record"),
                acknowledge("record"),
            ),
            "backend": scripted.backend(expect("submit", name="table"), finish("table", "Table 5 is yours.")),
            "context_policy": ("parlora.policies:Delegate", {"wait_ms": 50}),
        }
    ).ready()
    wait_for("the second answer", lambda: len(session.of("context_acknowledged", "provider")) == 2)
    associated = session.event("delegation_associated", "session", delegation_id="d2")

    (task,) = session.session.snapshot().tasks.values()
    assert associated.payload["task_id"] == task["id"]
    assert (task["status"], len(task["request_ids"])) == ("completed", 1)
    session.end()
    scripted.check_scripts(session.events)  # one submit, one append: more would have been refused
