"""FB-27: a provider that is owed an answer falls silent; each call is closed once, whatever became of its work."""

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.limits import Limits
from parlora.session.effects import Call
from parlora.session.roles import Role
from parlora.session.uncertainty import NOTICE
from parlora.testing.session_model import SessionModel, session_spec


def test_three_open_calls_get_three_answers_and_the_next_turn_goes_on() -> None:
    model = SessionModel(session_spec(Limits(job_timeout_ms=5_000))).ready()
    for name in ("d1", "d2", "d3"):
        model.delegate(name)
        model.decide(ContextDecision(DecisionKind.START_TASK, delegation_id=name, input={}))
    done, failed, _ = (invoke.arguments["request"] for invoke in model.invoked(Call.SUBMIT))
    model.event(Role.PROVIDER, "output_interrupted", {"token": "t1"})
    model.complete(done, summary="Done.")
    model.complete(failed, status="failed")
    model.advance(5_000)

    answers = [invoke.arguments["update"] for invoke in model.invoked(Call.APPEND_CONTEXT)]
    assert [(answer["delegation_id"], answer["text"]) for answer in answers] == [("d1", "Done."), ("d3", NOTICE)]
    resolved = [invoke.arguments for invoke in model.invoked(Call.RESOLVE_DELEGATION)]
    assert [(each["delegation_id"], each["outcome"]) for each in resolved] == [("d2", "failed")]

    model.delegate("d4")
    model.decide(ContextDecision(DecisionKind.START_TASK, delegation_id="d4", input={}))
    model.complete(model.request(), summary="That too.")
    assert model.appended_texts()[-1] == "That too."
