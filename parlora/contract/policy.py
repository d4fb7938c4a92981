"""The application's judgment: what the conversation asks for (spec 000 §7)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from parlora.context.decision import ContextDecision
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger


@runtime_checkable
class ContextPolicy(Protocol):
    """Turns the conversation into decisions.

    Configured as `("module:Name", {options})`: a class or factory without arguments, or a module-level function with
    the signature of `interpret`. It runs in the policy worker process, which is killed and replaced when
    `policy_timeout_ms` passes.
    """

    def interpret(
        self, snapshot: ContextSnapshot, trigger: ContextTrigger, options: Mapping[str, Any]
    ) -> Sequence[ContextDecision]:
        """Decide. An empty list means no action; raising `ParloraError` (or anything) is a policy failure.

        The policy allocates no ids and no revisions, starts no work itself and grants no authorization.
        """
