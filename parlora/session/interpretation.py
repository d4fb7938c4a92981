"""Whether the conversation is understood: running, settled or unresolved (spec 000 §10)."""

from __future__ import annotations

from parlora.session.turn import Turn


def state(turn: Turn) -> str:
    """`running`: one is under way or asked for. `settled`: the last one resolved, and no delegation is pending.

    A failed, rejected or waiting interpretation is `unresolved`, and so is an output recovery until the caller has
    spoken again (acceptance OA-10).
    """
    if turn.policy.run is not None or turn.policy.triggers:
        return "running"
    if turn.policy.unresolved or turn.conversation.pending or turn.conversation.needs_caller:
        return "unresolved"
    return "settled"


def is_settled(turn: Turn) -> bool:
    """Whether results may be told."""
    return state(turn) == "settled"
