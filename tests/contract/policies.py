"""Policies that misbehave in their first interpretation, each in one way, and then work; `mark` remembers."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.context.trigger import ContextTrigger
from tests.misbehaving import start_everything


def sleeps(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> list[ContextDecision]:
    if _first(options):
        time.sleep(30)
    return start_everything(snapshot, trigger, {})


def raises(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> list[ContextDecision]:
    if _first(options):
        raise ZeroDivisionError("no order is divisible by nothing")
    return start_everything(snapshot, trigger, {})


def garbage(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> Any:
    return [{"kind": "sell_everything"}] if _first(options) else start_everything(snapshot, trigger, {})


def ten_thousand(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> list[ContextDecision]:
    decision = ContextDecision(DecisionKind.START_TASK, delegation_id=trigger.delegation_id, input={})
    return [decision] * 10_000 if _first(options) else start_everything(snapshot, trigger, {})


def _first(options: Mapping[str, Any]) -> bool:
    mark = Path(options["mark"])
    if mark.exists():
        return False
    mark.touch()
    return True
