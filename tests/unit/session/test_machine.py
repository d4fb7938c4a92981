"""Random interleavings of everything that can happen to a session, and what must hold throughout.

The world here is careless: owners answer late or never, adapters contradict themselves, timers race with replies, the
policy decides nonsense. What a session promises must hold anyway:

1. no obsolete or superseded result is ever appended, and none twice;
2. a command's effect happens at most once per id;
3. nothing is reported completed, cancelled, accepted or played without its observation;
4. every live state has an armed deadline or a running owner;
5. the bounds of `Limits` are never exceeded, in any structure;
6. after `closed` there are no effects, but none are missing either: every call is answered, every outstanding command
   has its outcome, every submitted request without a verified result is listed as uncertain;
7. the same inputs give the same effects.
"""

import os
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis.stateful import (
    invariant,
    run_state_machine_as_test,
)

from parlora.session import effects, inputs
from parlora.session.commands import room
from parlora.session.effects import Call, Effect, Invoke
from parlora.session.reducer import begin, reduce
from parlora.session.roles import OWNERS
from parlora.session.state import Delivery, Job, JobStatus, Phase, Purpose

from .careless_world import LIMITS, CarelessWorld


class SessionMachine(CarelessWorld):
    """What holds in that world, at every step."""

    @invariant()
    def effects_keep_the_promises(self) -> None:
        CarelessWorld.steps += 1
        fresh = self.model.effects[self.checked :]
        self.checked = len(self.model.effects)
        for effect in fresh:
            assert not self.ended, f"an effect after the exit: {effect}\n{self.model.story()}"
            self._check(effect)

    def _check(self, effect: Effect) -> None:
        if isinstance(effect, effects.Exit):
            self.ended = True
        elif isinstance(effect, effects.ControlPipeline):
            self.pipeline.append(effect)
        elif isinstance(effect, effects.DrainCapture):
            self.draining = True
        elif isinstance(effect, effects.RunPolicy):
            self.runs.append(effect.run_id)
        elif isinstance(effect, effects.ArmTimer):
            self.old_timers.append(effect.timer_id)
        elif isinstance(effect, effects.ReapChildren):
            self.reaping = True
        elif isinstance(effect, Invoke):
            self._check_invoke(effect)
        elif isinstance(effect, effects.Emit):
            self._check_event(effect.event.type, effect.event.source, effect.event.request_id, effect.event.payload)

    def _check_invoke(self, invoke: Invoke) -> None:
        assert invoke.command_id not in self.asked, f"{invoke.command_id} was invoked twice\n{self.model.story()}"
        self.asked.add(invoke.command_id)
        self.open[invoke.command_id] = invoke
        self.invokes[invoke.call].append(invoke)
        if invoke.call is Call.SUBMIT:
            request = invoke.arguments["request"]
            self.task_of[request["id"]] = request["task_id"]
            self._revised(request["task_id"], request["task_revision"])
        elif invoke.call is Call.UPDATE:
            self._revised(self.task_of[invoke.arguments["request_id"]], invoke.arguments["task_revision"])
        elif invoke.call is Call.APPEND_CONTEXT:
            request_id, _, revision = invoke.arguments["update"]["text"].partition(" r")
            if request_id in self.task_of:
                # the one promise that matters most: what is told belongs to the newest revision there is
                newest = self.newest[self.task_of[request_id]]
                assert int(revision) == newest, f"r{revision} of {newest} was told\n{self.model.story()}"
                assert request_id not in self.told, f"{request_id} was told twice\n{self.model.story()}"
                self.told.add(request_id)

    def _revised(self, task_id: str, revision: int) -> None:
        self.newest[task_id] = max(self.newest.get(task_id, 0), revision)

    def _check_event(self, type: str, source: str, request_id: str | None, payload: dict[str, Any]) -> None:
        if source == "backend" and type in ("request_completed", "request_failed", "request_cancelled"):
            self.observed_outcomes.add((request_id or "", type.removeprefix("request_")))
        if source == "session" and type == "task_superseded":
            self._revised(payload["task_id"], payload["task_revision"])
        if source == "session" and type == "result_delivery" and payload["stage"] == "accepted":
            assert payload["result_command_id"] in self.acknowledged, self.model.story()
        if source == "session" and type in ("request_cancelled", "request_failed"):
            assert payload["result"]["metadata"]["execution"] == "never_submitted"
            assert request_id not in self.task_of, f"{request_id} was submitted\n{self.model.story()}"
        if source == "session" and type == "closed":
            jobs = self.model.state.work.jobs.values()
            unverified = {job.id for job in jobs if job.dispatched and not job.status.terminal}
            assert set(payload["jobs"]) == unverified <= set(self.task_of)
            assert {job["status"] for job in payload["jobs"].values()} <= {"uncertain"}
            assert set(payload["commands"].values()) <= {"completed", "failed", "unknown"}
            assert self.model.state.commands.pending.keys() == set(), self.model.story()

    @invariant()
    def nothing_is_completed_that_was_not_observed(self) -> None:
        for job in self.model.state.work.jobs.values():
            if job.status is JobStatus.COMPLETED:
                assert (job.id, "completed") in self.observed_outcomes, self.model.story()
            if job.status.terminal and job.dispatched:
                assert (job.id, str(job.status)) in self.observed_outcomes or job.admission == "settled"

    @invariant()
    def bounds_are_kept(self) -> None:
        state = self.model.state
        work, talk = state.work, state.conversation
        assert len(work.running) <= LIMITS.max_jobs
        assert len(work.running) + len(work.queue) <= LIMITS.max_jobs + LIMITS.max_pending_jobs
        assert len(work.jobs) <= LIMITS.max_records
        assert len(work.tasks) <= LIMITS.max_records
        assert len(talk.pending) <= LIMITS.max_pending_delegations
        assert len(talk.delegations) <= LIMITS.max_records + 1
        assert len(talk.transcripts) <= LIMITS.max_transcripts
        assert len(state.commands.records) <= LIMITS.max_records
        assert len(state.policy.questions) <= LIMITS.max_records
        assert len(state.health.expectations) <= LIMITS.max_records
        assert len(state.subscriptions) <= LIMITS.max_subscribers
        pending = [c for c in state.commands.pending.values() if c.purpose not in (Purpose.CONTROL, Purpose.RESUME)]
        assert len(pending) <= room(LIMITS)
        assert len(state.timers) <= 80
        assert len(state.policy.triggers) <= 3 + 4 * (len(talk.delegations) + len(work.tasks) + LIMITS.max_records)
        assert len(set(state.policy.triggers)) == len(state.policy.triggers)
        assert len(work.notices) <= LIMITS.max_records
        assert max((len(r.waiters) for r in state.commands.records.values()), default=0) <= LIMITS.max_subscribers
        assert set(state.commands.lanes) <= set(OWNERS)
        assert len(state.health.playback) <= 6
        assert max((len(job.uncertainty_reason or "") for job in work.jobs.values()), default=0) <= 256
        if state.lifecycle.phase is not Phase.CLOSING:
            assert len(state.commands.ledger) <= LIMITS.max_records
        legs = Counter(c.role for c in state.commands.pending.values() if c.purpose is Purpose.CONTROL)
        suppressions = sum(1 for barrier in state.controls.barriers.values() if barrier.epoch is None)
        assert max(legs.values(), default=0) <= 2 + suppressions
        assert len(state.controls.barriers) <= room(LIMITS)

    @invariant()
    def every_live_state_has_a_deadline_or_an_owner(self) -> None:
        state, kinds = self.model.state, Counter(str(timer.kind) for timer in self.model.state.timers.values())
        if state.lifecycle.phase is Phase.STARTING:
            assert kinds["startup"] == 1
        if state.lifecycle.phase is Phase.CLOSING:
            assert kinds["shutdown"] == 1 or self.reaping
        if state.lifecycle.phase is Phase.READY:
            assert state.policy.run is None or kinds["policy"] == 1
            assert state.policy.up or kinds["policy_worker"] == 1, self.model.story()
        if state.lifecycle.phase in (Phase.STARTING, Phase.READY, Phase.CLOSING):
            assert kinds["admission"] == len(state.commands.pending)
            assert kinds["barrier"] + kinds["resume"] >= len(state.controls.barriers)
            assert all(self._has_deadline(job) for job in state.work.jobs.values()), self.model.story()
        assert set(state.timers) == set(self.model.clock.armed), "the shell's timers are not the brain's"

    def _has_deadline(self, job: Job) -> bool:
        if job.status in (JobStatus.QUEUED, JobStatus.SUBMITTED):
            return job.timer_id in self.model.state.timers
        return True

    @invariant()
    def counters_never_go_back(self) -> None:
        state = self.model.state
        assert state.controls.epoch >= self.epoch
        assert state.conversation.revision >= self.revision
        self.epoch, self.revision = state.controls.epoch, state.conversation.revision

    @invariant()
    def slots_and_statuses_agree(self) -> None:
        work = self.model.state.work
        busy = {job.id for job in work.jobs.values() if job.status in (JobStatus.SUBMITTED, JobStatus.UNCERTAIN)}
        assert work.running == busy
        assert set(work.queue) == {job.id for job in work.jobs.values() if job.status is JobStatus.QUEUED}
        held = {job.id for job in work.jobs.values() if job.delivery is Delivery.AWAITING_INTERPRETATION}
        assert set(work.held) == held
        for task in work.tasks.values():
            assert set(task.request_ids) <= set(work.jobs)

    def teardown(self) -> None:
        """Whatever the state, a close ends in one `closed` within its deadline."""
        if not self.ended:
            self.model.call("close")
            self.model.advance(LIMITS.shutdown_timeout_ms)
            assert self.model.of(effects.ReapChildren), self.model.story()
            self.model.feed(inputs.ChildrenGone, killed=0)
        assert isinstance(self.model.effects[-1], effects.Exit), self.model.story()
        assert len(self.model.events("closed")) == 1
        assert self.model.clock.armed == {}
        self._every_call_was_answered()
        self._the_same_again()

    def _every_call_was_answered(self) -> None:
        asked: dict[str, str] = {}
        for _, _, what in self.model.trace:
            if isinstance(what, inputs.Called):
                asked[what.call_id] = what.caller
            elif isinstance(what, inputs.CallerGone):
                asked = {call_id: caller for call_id, caller in asked.items() if caller != what.caller}
            elif isinstance(what, effects.Answer):
                asked.pop(what.call_id, None)
            elif isinstance(what, effects.Exit):
                assert asked == {}, f"calls without an answer: {asked}\n{self.model.story()}"
                return

    def _the_same_again(self) -> None:
        state, told = begin(self.model.spec, self.begun, "f1")
        for _, arrow, what in self.model.trace:
            if arrow == "<-":
                assert isinstance(what, inputs.Input)
                state, more = reduce(state, what)
                told += more
        assert told == self.model.effects
        assert state == self.model.state


SETTINGS = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    # explaining a failure traces every line and takes minutes; the shrunk steps and the story say enough
    phases=[HypothesisPhase.explicit, HypothesisPhase.reuse, HypothesisPhase.generate, HypothesisPhase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

SHARDS = 8
STEPS = 50_000
"""Steps of all shards together: each runs machines until it has made its part."""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_interleaving_keeps_every_promise(shard: int) -> None:
    before, number = CarelessWorld.steps, shard if "CI" in os.environ else random.getrandbits(32)
    while CarelessWorld.steps - before < STEPS // SHARDS:
        print(f"seed {number}")
        run_state_machine_as_test(seed(number)(SessionMachine), settings=SETTINGS)
        number += SHARDS
