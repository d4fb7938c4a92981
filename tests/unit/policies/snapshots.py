"""A tiny session for policies: it makes snapshots, applies decisions and checks them as admission would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from parlora.context.decision import ContextDecision, DecisionKind
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.contract.policy import ContextPolicy
from parlora.wire import from_data, pack, to_data, unpack


class Desk:
    """Captions, delegations and tasks of one session, with the rules of admission that a policy must respect.

    Timers do not run: `expire` lets the wait of a target end. `times=False` leaves every offset out, as providers may.
    """

    def __init__(self, policy: ContextPolicy, options: Mapping[str, Any] | None = None, times: bool = True) -> None:
        self.policy, self.options, self.times = policy, dict(options or {}), times
        self.revision = 0
        self.now_ms = 0
        self.context: dict[str, Any] = {}
        self.transcripts: list[dict[str, Any]] = []
        self.delegations: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.questions: list[tuple[str, str | None]] = []

    def says(self, text: str, speaker: str = "user") -> None:
        self.revision += 1
        self.now_ms += 1_000
        at = (self.now_ms - 900, self.now_ms) if self.times else (None, None)
        self.transcripts.insert(
            0,
            {
                "speaker": speaker,
                "delta": text,
                "start_ms": at[0],
                "end_ms": at[1],
                "provider_generation": 0,
                "arrival_order": self.revision,
            },
        )

    def delegates(self) -> str:
        self.revision += 1
        name = f"d{len(self.delegations) + 1}"
        self.delegations[name] = {
            "id": name,
            "target": "client",
            "offset_ms": self.now_ms if self.times else None,
            "provider_generation": 0,
            "status": "pending",
            "received_at_us": self.revision,
        }
        return name

    def asks(self, text: str) -> list[ContextDecision]:
        """The caller speaks, the provider delegates, the policy decides."""
        self.says(text)
        self.delegates()
        return self.decide()

    def finish(self, task_id: str, status: str = "completed") -> None:
        self.revision += 1
        self.tasks[task_id]["status"] = status

    def expire(self, target: dict[str, Any]) -> None:
        target["context_wait"]["expired"] = True

    def snapshot(self) -> ContextSnapshot:
        plain = {
            "session_id": "s",
            "revision": self.revision,
            "provider_generation": 0,
            "provider_speech": "idle",
            "application_context": self.context,
            "transcripts": self.transcripts,
            "pending_delegations": self.delegations,
            "tasks": self.tasks,
        }
        return from_data(unpack(pack(plain)), ContextSnapshot)

    def decide(self) -> list[ContextDecision]:
        """Interpret once; the same snapshot must give the same decisions; apply them."""
        trigger = ContextTrigger(TriggerKind.TRANSCRIPT_UPDATED)
        decisions = list(self.policy.interpret(self.snapshot(), trigger, self.options))
        assert decisions == list(self.policy.interpret(self.snapshot(), trigger, self.options))
        assert from_data(unpack(pack(to_data(decisions))), list[ContextDecision]) == decisions
        self._apply(decisions)
        return decisions

    def settle(self, most: int = 10) -> list[ContextDecision]:
        """Let every wait end and decide again until the policy has nothing more to do; returns all it decided."""
        everything: list[ContextDecision] = []
        for _ in range(most):
            for target in (*self.delegations.values(), *self.tasks.values()):
                if "context_wait" in target:
                    self.expire(target)
            before = pack([self.delegations, self.tasks])
            decisions = self.decide()
            if pack([self.delegations, self.tasks]) == before:
                return everything
            everything += decisions
        raise AssertionError(f"the policy does not come to rest: {everything[-4:]}")

    def _apply(self, decisions: Sequence[ContextDecision]) -> None:
        revised = [str(d.task_id) for d in decisions if d.kind is DecisionKind.SUPERSEDE_TASK]
        named = [d.task_id for d in decisions if d.task_id]
        assert all(named.count(task_id) == 1 for task_id in revised), "a revised task is decided about once"
        touched = [d.delegation_id for d in decisions if d.delegation_id]
        assert len(touched) == len(set(touched)), "two decisions on one delegation"
        for decision in decisions:
            if decision.task_id is not None and decision.kind is not DecisionKind.WAIT_FOR_CONTEXT:
                assert decision.expected_task_revision == self.tasks[decision.task_id]["revision"]
            if decision.delegation_id is not None:
                assert self.delegations[decision.delegation_id]["status"] == "pending"
            getattr(self, f"_{decision.kind}")(decision)
        if decisions:
            self.revision += 1

    def _target(self, decision: ContextDecision) -> dict[str, Any]:
        assert (decision.delegation_id is None) != (decision.task_id is None)
        if decision.delegation_id is not None:
            return self.delegations[decision.delegation_id]
        return self.tasks[str(decision.task_id)]

    def _claim(self, delegation_id: str, task: dict[str, Any]) -> None:
        delegation = self.delegations[delegation_id]
        delegation.pop("context_wait", None)
        delegation |= {"status": "claimed", "task_id": task["id"], "task_revision": task["revision"]}

    def _start_task(self, decision: ContextDecision) -> None:
        assert decision.delegation_id is not None
        assert decision.input is not None
        name = f"t{len(self.tasks) + 1}"
        task = {
            "id": name,
            "revision": 1,
            "input": decision.input,
            "status": "submitted",
            "request_ids": [f"{name}-r1"],
            "delegation_id": decision.delegation_id,
            "confirmation": None,
        }
        self.tasks[name] = task
        self._claim(decision.delegation_id, task)

    def _supersede_task(self, decision: ContextDecision) -> None:
        assert decision.input is not None
        task = self.tasks[str(decision.task_id)]
        task.pop("context_wait", None)
        revision = task["revision"] + 1
        names = [f"{task['id']}-r{revision}", *task["request_ids"]]
        task.pop("clarification", None)
        task |= {"revision": revision, "input": decision.input, "status": "submitted", "request_ids": names}
        if decision.delegation_id is not None:
            self._claim(decision.delegation_id, task)

    def _associate_delegation(self, decision: ContextDecision) -> None:
        self._claim(str(decision.delegation_id), self.tasks[str(decision.task_id)])

    def _wait_for_context(self, decision: ContextDecision) -> None:
        assert decision.recheck_after_ms is None or 1 <= decision.recheck_after_ms <= 60_000
        target, key = self._target(decision), decision.recheck_key
        if decision.recheck_after_ms is None:
            return
        if target.get("context_wait", {}).get("recheck_key") != key:
            target["context_wait"] = {"due_at_us": 0, "expired": False, "recheck_key": key}

    def _request_clarification(self, decision: ContextDecision) -> None:
        assert decision.message
        if (decision.message, decision.clarification_key) in self.questions:
            return
        self.questions.append((decision.message, decision.clarification_key))
        self._target(decision)["clarification"] = {
            "context_revision": self.revision,
            "command_id": f"q{len(self.questions)}",
            "delivery": "unconfirmed",
            "message": decision.message,
            "input": decision.input or {},
        }
