"""The smallest policy: it decides nothing. `"parlora.policies.trivial:no_decisions"`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parlora.context.decision import ContextDecision
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger


def no_decisions(
    snapshot: ContextSnapshot, trigger: ContextTrigger, options: Mapping[str, Any]
) -> Sequence[ContextDecision]:
    """No action, whatever was said."""
    return ()
