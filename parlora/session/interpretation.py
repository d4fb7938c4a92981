"""Whether the conversation is understood: running, settled or unresolved (spec 000 §10)."""

from __future__ import annotations

from parlora.session.state import Task
from parlora.session.turn import Turn


def state(turn: Turn) -> str:
    """`running`: one is under way or asked for. `settled`: the last one resolved, and nothing is left open.

    `unresolved`: the last one failed, was rejected, or waited; a delegation is pending; a task waits for its recheck or
    for an answer of the caller, whatever was decided about other things since (acceptance CW-09); or an output recovery
    waits for the caller to speak (acceptance OA-10).
    """
    if turn.policy.run is not None or turn.policy.triggers:
        return "running"
    if turn.policy.unresolved or turn.conversation.pending or turn.conversation.needs_caller:
        return "unresolved"
    if any(_is_open(turn, task) for task in turn.work.tasks.values()):
        return "unresolved"
    return "settled"


def _is_open(turn: Turn, task: Task) -> bool:
    if task.wait is not None and not task.wait.expired:
        return True
    question = task.clarification
    if question is None or "task_revision" in question:
        return False  # nothing was asked, or it is the backend's own question, which the policy has seen
    return turn.conversation.caller_revision <= int(question["context_revision"])


def is_settled(turn: Turn) -> bool:
    """Whether results may be told."""
    return state(turn) == "settled"
