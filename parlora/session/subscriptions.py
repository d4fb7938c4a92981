"""Who gets events: at most `max_subscribers` subscriptions, counted over all connections (acceptance EV-01)."""

from __future__ import annotations

from typing import Any

from parlora.errors import Backpressure, Conflict, NotFound
from parlora.ids import check_id
from parlora.session.effects import Attach, Detach
from parlora.session.turn import Turn


def subscribe(turn: Turn, caller: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Start sending; the same subscription of the same connection again is a no-op."""
    given = arguments.get("subscription_id")
    subscription_id = check_id(given, "subscription_id") if given is not None else turn.new_id()
    owner = turn.subscriptions.get(subscription_id)
    if owner is not None and owner != caller:
        raise Conflict("another connection has this subscription", details={"subscription_id": subscription_id})
    if owner is None:
        limit = turn.spec.limits.max_subscribers
        if len(turn.subscriptions) >= limit:
            raise Backpressure("the session has no room for a subscriber", details={"max_subscribers": limit})
        turn.subscriptions = turn.subscriptions.put(subscription_id, caller)
        turn.act(Attach(caller, subscription_id))
    return {"subscription_id": subscription_id}


def unsubscribe(turn: Turn, caller: str, arguments: dict[str, Any]) -> None:
    """Stop sending."""
    subscription_id = check_id(arguments.get("subscription_id"), "subscription_id")
    if turn.subscriptions.get(subscription_id) != caller:
        raise NotFound("no such subscription", details={"subscription_id": subscription_id})
    turn.subscriptions = turn.subscriptions.drop(subscription_id)
    turn.act(Detach(caller, subscription_id))


def caller_gone(turn: Turn, caller: str) -> None:
    """A connection ended, and its subscriptions with it."""
    for subscription_id, owner in turn.subscriptions.items():
        if owner == caller:
            turn.subscriptions = turn.subscriptions.drop(subscription_id)
