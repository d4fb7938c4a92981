"""The small deterministic policy of the terminal example: from the caller's words to lookups.

A pure function of the snapshot. The rules, in order:

1. A question about an order starts a lookup `{order, operation}` once the provider has delegated it. "That order" and a
   question without a number mean the order of the latest task.
2. A correction ("actually check order one two three") replaces the request of the latest task, at once.
3. A repeated question while its lookup runs, a presence check and thanks change nothing: the delegation is associated
   with the latest task.
4. If the order is unknown, or taken back without naming another, the desk waits `wait_ms` (2,000) for more words and
   then asks once for a three-digit number. Until it is told, what is already under way is not announced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger
from parlora.errors import InvalidArgument
from parlora.orderdesk.grammar import QUESTION
from parlora.orderdesk.language import Wish, wish
from parlora.orderdesk.orders import Operation
from parlora.policies.delegate import associate, await_words, settle
from parlora.policies.heard import HEARD_THROUGH, Words, new_words, newest_task, pending, wait_expired

DEFAULT_WAIT_MS: Final = 2_000
"""How long an unclear request waits for more words before the desk asks (spec 000 §7)."""

REPEATED_WAIT_MS: Final = 1_000
"""How long a delegation without words waits before it counts as a repeated call."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """What one interpretation rests on."""

    snapshot: ContextSnapshot
    words: Words
    wish: Wish
    waiting: Sequence[dict[str, Any]]
    latest: dict[str, Any] | None
    wait_ms: int


class OrderDeskPolicy:
    """`("parlora.orderdesk.policy:OrderDeskPolicy", {"wait_ms": 2_000})`; the rules are in the module's docstring."""

    def interpret(
        self, snapshot: ContextSnapshot, trigger: ContextTrigger, options: Mapping[str, Any]
    ) -> Sequence[ContextDecision]:
        """Decide what the caller's new words ask for."""
        words = new_words(snapshot)
        scene = _Scene(
            snapshot, words, wish(words.utterances), pending(snapshot), newest_task(snapshot), _wait_ms(options)
        )
        if scene.wish.empty:
            return _nothing_asked(scene)
        target = _resolve(scene)
        if target is None:
            return _unclear(scene)
        return _resolved(scene, target)


def _resolve(scene: _Scene) -> dict[str, Any] | None:
    """The lookup that is wanted, as a task's input; None if its order is unknown."""
    wanted, latest = scene.wish, scene.latest
    order = wanted.order
    if order is None and not wanted.number_missing and latest is not None:
        order = latest["input"].get("order")
    if order is None:
        return None
    operation: str | None = wanted.operation
    if operation is None and wanted.correction and latest is not None:
        operation = latest["input"].get("operation")
    # A bare number asks how the order stands: looking that up harms nobody.
    return {
        "order": order,
        "operation": str(operation or Operation.STATUS),
        HEARD_THROUGH: scene.words.through,
    }


def _resolved(scene: _Scene, target: dict[str, Any]) -> Sequence[ContextDecision]:
    latest, waiting = scene.latest, scene.waiting
    if latest is not None:
        if scene.wish.correction:
            return (_supersede(latest, target, waiting[-1]["id"] if waiting else None), *settle(waiting[:-1]))
        if latest["status"] == "submitted" and _same(latest["input"], target):
            return _repeated(scene)
    if not waiting:
        return ()
    start = ContextDecision(DecisionKind.START_TASK, delegation_id=waiting[-1]["id"], input=target)
    return (start, *settle(waiting[:-1]))


def _supersede(task: dict[str, Any], target: dict[str, Any], delegation_id: str | None) -> ContextDecision:
    return ContextDecision(
        DecisionKind.SUPERSEDE_TASK,
        delegation_id=delegation_id,
        task_id=task["id"],
        expected_task_revision=task["revision"],
        input=target,
    )


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return (one.get("order"), one.get("operation")) == (other["order"], other["operation"])


def _nothing_asked(scene: _Scene) -> Sequence[ContextDecision]:
    if not scene.waiting:
        return ()
    if scene.latest is None:
        return _unclear(scene)
    if scene.words.utterances:
        return _repeated(scene)
    over, fresh = await_words(scene.snapshot, scene.waiting, REPEATED_WAIT_MS)
    return [*(associate(each, scene.latest) for each in over), *fresh]


def _repeated(scene: _Scene) -> Sequence[ContextDecision]:
    """The latest task answers every waiting delegation too."""
    if scene.latest is None:
        return ()
    return [associate(each, scene.latest) for each in scene.waiting]


def _unclear(scene: _Scene) -> Sequence[ContextDecision]:
    """Wait for more words, then ask, once for each thing the caller said."""
    target = _questioned(scene)
    if target is None:
        return ()
    key = f"number-{scene.words.through}"
    ids: dict[str, Any] = _ids(target)
    asked = target.get("clarification") or {}
    if asked.get("context_revision", -1) >= scene.words.through and "message" in asked:
        # Only newer words can answer; until then the question is open, and what it is about is held.
        return (ContextDecision(DecisionKind.WAIT_FOR_CONTEXT, **ids),)
    if not wait_expired(target, key):
        return (ContextDecision(DecisionKind.WAIT_FOR_CONTEXT, **ids, recheck_after_ms=scene.wait_ms, recheck_key=key),)
    operation = scene.wish.operation
    known: dict[str, Any] = {"missing": ["order"]}
    if operation is not None:
        known["known_operation"] = str(operation)
    return (
        ContextDecision(
            DecisionKind.REQUEST_CLARIFICATION, **ids, message=QUESTION, input=known, clarification_key=key
        ),
    )


def _questioned(scene: _Scene) -> dict[str, Any] | None:
    """What the question is about: the task that was taken back, so that its answer is held; else a delegation.

    A delegation that was asked about or waits keeps the question: a new one does not displace it by arriving.
    """
    latest = scene.latest
    if scene.wish.number_missing and latest is not None:
        return latest
    if not scene.waiting:
        return None
    asked = [each for each in scene.waiting if "clarification" in each]
    held = [each for each in scene.waiting if "context_wait" in each]
    return (asked or held or scene.waiting)[-1]


def _ids(target: dict[str, Any]) -> dict[str, Any]:
    if "request_ids" in target:
        return {"task_id": target["id"], "expected_task_revision": target["revision"]}
    return {"delegation_id": target["id"]}


def _wait_ms(options: Mapping[str, Any]) -> int:
    unknown = set(options) - {"wait_ms"}
    if unknown:
        raise InvalidArgument(f"{min(unknown)} is no option; allowed is wait_ms", field=min(unknown))
    wait_ms = options.get("wait_ms", DEFAULT_WAIT_MS)
    if type(wait_ms) is not int or not 1 <= wait_ms <= 60_000:
        raise InvalidArgument("wait_ms must be an integer from 1 to 60,000", field="wait_ms")
    return wait_ms
