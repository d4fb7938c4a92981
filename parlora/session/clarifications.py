"""`request_clarification`: a spoken question, asked once per target, revision and key (spec 000 §7).

The marker on the target says that a question was submitted; neither it nor the provider's acknowledgment says that it
was spoken or heard.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from parlora.context.decision import ContextDecision
from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.contract.provider import ContextKind
from parlora.errors import Backpressure
from parlora.events import EventType
from parlora.session import commands, delegations
from parlora.session.effects import Call
from parlora.session.failures import is_unknown
from parlora.session.inputs import ErrorData
from parlora.session.roles import Role
from parlora.session.state import Command, Delegation, Purpose, Question, Task
from parlora.session.turn import CommandHandler, Turn, Withdraw


def key_of(turn: Turn, decision: ContextDecision) -> str:
    """What a question is deduplicated by: target, task revision and the policy's own key."""
    task = turn.work.tasks.get(decision.task_id)
    revision = task.revision if task is not None else None
    return repr((decision.delegation_id, decision.task_id, revision, decision.clarification_key))


def ask(turn: Turn, decision: ContextDecision) -> None:
    """Submit the question unless it was asked before; the marker is there before the owner is asked."""
    key = key_of(turn, decision)
    if key in turn.policy.questions:
        return
    try:
        command_id = commands.enqueue(turn, Role.PROVIDER, Call.APPEND_CONTEXT, Purpose.QUESTION, key)
    except Backpressure as error:
        turn.emit(EventType.POLICY_REJECTED, {"error": error.to_data()})
        return
    task = turn.work.tasks.get(decision.task_id)
    revision = task.revision if task is not None else None
    question = Question(decision.delegation_id, decision.task_id, revision, command_id)
    turn.policy = replace(turn.policy, questions=turn.policy.questions.put(key, question))
    marker = {
        "context_revision": turn.conversation.revision,
        "command_id": command_id,
        "delivery": "unconfirmed",
        "message": decision.message,
        "input": dict(decision.input or {}),
    }
    target = _target(turn, question)
    if target is not None:
        _put(turn, replace(target, clarification=marker))


def _target(turn: Turn, question: Question) -> Delegation | Task | None:
    """What the question is about while it is still open: a pending call, or the same revision of a task."""
    if question.delegation_id is not None:
        delegation = turn.conversation.delegations.get(question.delegation_id)
        return delegation if delegation is not None and delegation.status == "pending" else None
    task = turn.work.tasks.get(question.task_id)
    if task is None or task.revision != question.task_revision or task.withdrawn_revision == task.revision:
        return None
    return task


def _marker(target: Delegation | Task | None, question: Question) -> dict[str, Any] | None:
    marker = target.clarification if target is not None else None
    return marker if marker is not None and marker.get("command_id") == question.command_id else None


def _put(turn: Turn, target: Delegation | Task) -> None:
    if isinstance(target, Delegation):
        delegations.put(turn, target)
    else:
        turn.put_task(target)


def _prepare(turn: Turn, command: Command) -> dict[str, Any] | Withdraw:
    question = turn.policy.questions[command.subject]
    marker = _marker(_target(turn, question), question)
    if marker is None:
        return Withdraw("obsolete")
    if marker["context_revision"] != turn.conversation.revision:
        return Withdraw("context")
    # it answers no call: the call it is about stays open for the answer
    return {"update": {"kind": str(ContextKind.SPEAKABLE), "text": marker["message"], "delegation_id": None}}


def _withdrawn(turn: Turn, command: Command, reason: str) -> None:
    question = turn.policy.questions[command.subject]
    _unmark(turn, command.subject)
    if reason == "context":
        trigger = ContextTrigger(
            TriggerKind.CONTEXT_WAIT_EXPIRED, delegation_id=question.delegation_id, task_id=question.task_id
        )
        turn.trigger(trigger)


def _unmark(turn: Turn, key: str) -> None:
    """The question was not submitted: no snapshot shows it and the policy may ask again (acceptance CL-10)."""
    question = turn.policy.questions[key]
    turn.policy = replace(turn.policy, questions=turn.policy.questions.drop(key))
    target = _target(turn, question)
    if target is not None and _marker(target, question) is not None:
        _put(turn, replace(target, clarification=None))


def _replied(turn: Turn, command: Command, error: ErrorData | None) -> None:
    question = turn.policy.questions[command.subject]
    if error is not None:
        if not is_unknown(error):
            _unmark(turn, command.subject)
        return
    marker = _marker(_target(turn, question), question) or {}
    turn.emit(
        EventType.CLARIFICATION_REQUESTED,
        {
            "delegation_id": question.delegation_id,
            "task_id": question.task_id,
            "task_revision": question.task_revision,
            "message": marker.get("message"),
            "context_revision": marker.get("context_revision"),
        },
        command_id=command.id,
    )


QUESTION_HANDLER: Final = CommandHandler(_prepare, _replied, _withdrawn)
