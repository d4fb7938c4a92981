"""The ready-made policy: what the provider delegates becomes a task, with the caller's words as its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger
from parlora.errors import InvalidArgument
from parlora.policies.heard import (
    HEARD_THROUGH,
    Words,
    caller_captions,
    new_words,
    newest_task,
    pending,
    wait_expired,
    words_have_come,
)

DEFAULT_WAIT_MS: Final = 1_000
"""How long a delegation without new words waits for them: transcription lags the call by some hundred milliseconds."""

SETTLE_MS: Final = 1
"""Looks at a delegation again as soon as this batch has been applied."""

_WORDS_KEY: Final = "words"
_SETTLE_KEY: Final = "settle"


class FollowUp(StrEnum):
    """What becomes of a delegation that comes while the newest task still runs."""

    SUPERSEDE = "supersede"
    NEW = "new"


class Delegate:
    """Every delegation becomes a task: `("parlora.policies:Delegate", {})`.

    The task's input is `{"text": ..., "heard_through": n}`: the caller's words since the last delegation that was
    handled, and how far they go. The rule for follow-ups:

    1. While the newest task is still `submitted`, the words of a new delegation replace its request (supersede): the
       old result will not be spoken. The new input has the replaced one's text as `"earlier"`. With the option
       `follow_up="new"` a task of its own is started instead and both are answered.
    2. Once the newest task is completed, failed, cancelled or uncertain, a delegation always starts a new task.
    3. A delegation without new words waits for them up to `wait_ms` (default 1,000; 1 to 60,000), or not at all where
       the provider's times tell that they are here. If none come it is a repeated call: it is associated with the
       newest task, and no work is done twice. From a provider that gives no captions of the caller it starts a task
       with an empty text.

    Words alone start nothing: without a delegation the provider is still talking with the caller by itself.
    """

    def interpret(
        self, snapshot: ContextSnapshot, trigger: ContextTrigger, options: Mapping[str, Any]
    ) -> Sequence[ContextDecision]:
        """See the class; a pure function of the snapshot and the options."""
        follow_up, wait_ms = _check(options)
        waiting = pending(snapshot)
        if not waiting:
            return ()
        words = new_words(snapshot)
        if not words.text:
            return _without_words(snapshot, waiting, wait_ms)
        newest = newest_task(snapshot)
        if newest is not None and newest["status"] == "submitted" and follow_up is FollowUp.SUPERSEDE:
            return (_supersede(newest, words, waiting[-1]), *settle(waiting[:-1]))
        return (_start(waiting[-1], words), *settle(waiting[:-1]))


def settle(delegations: Sequence[dict[str, Any]]) -> list[ContextDecision]:
    """Have these delegations looked at again once the batch has been applied: they have no words of their own then.

    The key counts them, so that those left over by the next batch get a fresh timer: a used one never fires again.
    """
    return [wait_for(each, SETTLE_MS, f"{_SETTLE_KEY}-{len(delegations)}") for each in delegations]


def is_settled(delegation: dict[str, Any]) -> bool:
    """Whether this is that look."""
    wait = delegation.get("context_wait")
    return wait is not None and bool(wait["expired"]) and str(wait["recheck_key"]).startswith(f"{_SETTLE_KEY}-")


def wait_for(delegation: dict[str, Any], delay_ms: int, key: str) -> ContextDecision:
    """Look at the delegation again after `delay_ms`, or sooner if the context changes."""
    return ContextDecision(
        DecisionKind.WAIT_FOR_CONTEXT, delegation_id=delegation["id"], recheck_after_ms=delay_ms, recheck_key=key
    )


def await_words(
    snapshot: ContextSnapshot, delegations: Sequence[dict[str, Any]], wait_ms: int
) -> tuple[list[dict[str, Any]], list[ContextDecision]]:
    """Delegations while there are no new words: those that can expect none any more, and the waits of the others."""
    over = [
        each
        for each in delegations
        if is_settled(each) or wait_expired(each, _WORDS_KEY) or words_have_come(snapshot, each)
    ]
    fresh = [each for each in delegations if each not in over and "context_wait" not in each]
    return over, [wait_for(each, wait_ms, _WORDS_KEY) for each in fresh]


def associate(delegation: dict[str, Any], task: dict[str, Any]) -> ContextDecision:
    """Say that the task answers this delegation too; nothing is submitted."""
    return ContextDecision(
        DecisionKind.ASSOCIATE_DELEGATION,
        delegation_id=delegation["id"],
        task_id=task["id"],
        expected_task_revision=task["revision"],
    )


def _without_words(
    snapshot: ContextSnapshot, waiting: Sequence[dict[str, Any]], wait_ms: int
) -> Sequence[ContextDecision]:
    over, fresh = await_words(snapshot, waiting, wait_ms)
    if not over:
        return fresh
    newest = newest_task(snapshot)
    if newest is None or not caller_captions(snapshot):
        return (_start(over[0], Words((), 0)), *settle(over[1:]), *fresh)
    return (*(associate(each, newest) for each in over), *fresh)


def _start(delegation: dict[str, Any], words: Words) -> ContextDecision:
    return ContextDecision(DecisionKind.START_TASK, delegation_id=delegation["id"], input=_input(words))


def _supersede(task: dict[str, Any], words: Words, delegation: dict[str, Any]) -> ContextDecision:
    return ContextDecision(
        DecisionKind.SUPERSEDE_TASK,
        delegation_id=delegation["id"],
        task_id=task["id"],
        expected_task_revision=task["revision"],
        input={**_input(words), "earlier": task["input"].get("text", "")},
    )


def _input(words: Words) -> dict[str, Any]:
    return {"text": words.text, HEARD_THROUGH: words.through}


def _check(options: Mapping[str, Any]) -> tuple[FollowUp, int]:
    unknown = set(options) - {"follow_up", "wait_ms"}
    if unknown:
        raise InvalidArgument(
            f"{min(unknown)} is no option of Delegate; allowed are follow_up and wait_ms", field=min(unknown)
        )
    follow_up, wait_ms = options.get("follow_up", FollowUp.SUPERSEDE), options.get("wait_ms", DEFAULT_WAIT_MS)
    if follow_up not in list(FollowUp):
        raise InvalidArgument(f"follow_up must be one of {', '.join(FollowUp)}", field="follow_up")
    if type(wait_ms) is not int or not 1 <= wait_ms <= 60_000:
        raise InvalidArgument("wait_ms must be an integer from 1 to 60,000", field="wait_ms")
    return FollowUp(follow_up), wait_ms
