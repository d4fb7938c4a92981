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
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import Phase as HypothesisPhase
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from parlora.audio.port import Loss
from parlora.context.decision import ContextDecision, DecisionKind
from parlora.limits import Limits
from parlora.session import effects, inputs
from parlora.session.commands import room
from parlora.session.effects import Call, Effect, Invoke
from parlora.session.reducer import begin, reduce
from parlora.session.roles import OWNERS, PIPELINES, Role
from parlora.session.state import Delivery, Job, JobStatus, Phase, Purpose
from parlora.testing.session_model import SessionModel, session_spec

from .helpers import REFUSED, UNKNOWN

LIMITS = Limits(
    max_jobs=2,
    max_pending_jobs=2,
    max_pending_delegations=3,
    max_records=6,
    max_transcripts=16,
    max_subscribers=2,
    job_timeout_ms=3_000,
    policy_timeout_ms=400,
    ack_timeout_ms=1_500,
    shutdown_timeout_ms=900,
    startup_timeout_ms=2_000,
)
IDS = st.sampled_from(["a", "b", "c"])
DELEGATIONS = st.sampled_from([f"d{n}" for n in range(6)])
ERRORS = st.sampled_from([None, None, None, REFUSED, {**REFUSED, "code": "uncertain"}, UNKNOWN])


class SessionMachine(RuleBasedStateMachine):
    """One session in a careless world."""

    steps = 0
    """Inputs given by all machines of this run: one step may give several."""

    def __init__(self) -> None:
        super().__init__()
        self.acknowledged: set[str] = set()
        self.runs: list[str] = []
        self.old_timers: list[str] = []
        self.begun = self.model_of()
        self.checked = 0
        self.open: dict[str, Invoke] = {}
        self.invokes: dict[Call, list[Invoke]] = defaultdict(list)
        self.told: set[str] = set()
        self.newest: dict[str, int] = {}
        self.pipeline: list[effects.ControlPipeline] = []
        self.draining = self.reaping = False
        self.asked: set[str] = set()
        self.ended = False
        self.task_of: dict[str, str] = {}
        self.observed_outcomes: set[tuple[str, str]] = set()
        self.epoch = 0
        self.revision = 0

    def model_of(self) -> int:
        self.model = SessionModel(session_spec(LIMITS), auto_reply=False, auto_acknowledge=False, auto_close=False)
        return self.model.clock.now_us

    # ---- the world

    @initialize(up=st.booleans())
    def begin(self, up: bool) -> None:
        if up:
            self.model.ready()

    @rule(role=st.sampled_from(OWNERS))
    def adapter_ready(self, role: Role) -> None:
        self.model.adapter_ready(role)

    @rule(frames=st.integers(0, 2))
    def drained_and_worker(self, frames: int) -> None:
        self.model.feed(inputs.PolicyUp)
        if self.draining:
            self.model.feed(inputs.PipelineDrained, loss=Loss(frames, frames * 960, frames * 20_000))

    @rule(name=DELEGATIONS)
    def delegate(self, name: str) -> None:
        self.model.delegate(name)

    @rule(name=DELEGATIONS)
    def cancel_delegation(self, name: str) -> None:
        self.model.event(Role.PROVIDER, "delegation_cancelled", {"delegation_id": name})

    @rule(speaker=st.sampled_from(["user", "assistant"]), words=st.sampled_from(["124", "no, 123", " "]))
    def say(self, speaker: str, words: str) -> None:
        self.model.say(words, speaker)

    @rule(status=st.sampled_from(["speaking", "idle"]))
    def speech(self, status: str) -> None:
        self.model.event(Role.PROVIDER, "provider_speech", {"status": status})

    @rule(kind=st.sampled_from(["output_interrupted", "output_recovery_requested"]))
    def interrupt(self, kind: str) -> None:
        self.model.event(Role.PROVIDER, kind, {"token": f"t{len(self.model.trace)}"})

    @rule(ms=st.sampled_from([1, 50, 200, 400, 1_100, 3_000]))
    def time_passes(self, ms: int) -> None:
        self.model.advance(ms)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), error=ERRORS)
    def owner_replies(self, data: st.DataObject, error: Any) -> None:
        command_id = data.draw(st.sampled_from(sorted(self.open)))
        self.model.reply(self.open[command_id], error)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), type=st.sampled_from(["context_acknowledged", "context_rejected", "context_submitted"]))
    def provider_speaks_of_a_command(self, data: st.DataObject, type: str) -> None:
        command_id = data.draw(st.sampled_from(sorted(self.open)))
        if type == "context_acknowledged":
            self.acknowledged.add(command_id)
        self.model.event(Role.PROVIDER, type, {"error": None}, command_id=command_id)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), completed=st.booleans())
    def channel_speaks_of_a_command(self, data: st.DataObject, completed: bool) -> None:
        command_id = data.draw(st.sampled_from(sorted(self.open)))
        type = "control_completed" if completed else "control_failed"
        self.model.event(Role.CHANNEL, type, {"error": None if completed else REFUSED}, command_id=command_id)

    @precondition(lambda self: self.pipeline)
    @rule(data=st.data())
    def pipeline_replies(self, data: st.DataObject) -> None:
        control = data.draw(st.sampled_from(self.pipeline))
        self.model.feed(
            inputs.PipelineReplied,
            role=control.role,
            command_id=control.command_id,
            epoch=control.epoch or 0,
            loss=Loss(1, 960, 20_000),
        )

    @precondition(lambda self: self.invokes[Call.SUBMIT])
    @rule(
        data=st.data(),
        status=st.sampled_from(["completed", "failed", "cancelled"]),
        summary=st.booleans(),
        skew=st.sampled_from([0, 0, 0, 1]),
    )
    def backend_ends(self, data: st.DataObject, status: str, summary: bool, skew: int) -> None:
        request = data.draw(st.sampled_from(self.invokes[Call.SUBMIT])).arguments["request"]
        job = self.model.state.work.jobs.get(request["id"])
        revision = (job.task_revision if job else 1) + skew
        text = f"{request['id']} r{revision}" if summary else None
        self.model.complete({**request, "task_revision": revision}, status, summary=text)

    @precondition(lambda self: self.invokes[Call.SUBMIT])
    @rule(
        data=st.data(),
        type=st.sampled_from(["request_started", "request_progress", "request_clarification", "request_uncertain"]),
    )
    def backend_tells(self, data: st.DataObject, type: str) -> None:
        request = data.draw(st.sampled_from(self.invokes[Call.SUBMIT])).arguments["request"]
        self.model.event(Role.BACKEND, type, {"reason": "r", "question": "?"}, request_id=request["id"])

    @precondition(lambda self: self.invokes[Call.UPDATE])
    @rule(data=st.data(), applied=st.booleans())
    def backend_updates(self, data: st.DataObject, applied: bool) -> None:
        update = data.draw(st.sampled_from(self.invokes[Call.UPDATE]))
        type = "update_applied" if applied else "update_rejected"
        request_id = update.arguments["request_id"]
        self.model.event(Role.BACKEND, type, {}, command_id=update.command_id, request_id=request_id)

    @precondition(lambda self: self.model.state.policy.run is not None)
    @rule(data=st.data(), fails=st.sampled_from([False, False, False, False, True]))
    def policy_decides(self, data: st.DataObject, fails: bool) -> None:
        if fails:
            self.model.decide(error=REFUSED)
        else:
            count = data.draw(st.integers(0, 2))
            self.model.decide(*[self._decision(data) for _ in range(count)])

    def _decision(self, data: st.DataObject) -> ContextDecision:
        state = self.model.state
        kind = data.draw(st.sampled_from(list(DecisionKind)))
        tasks = sorted(state.work.tasks) or ["nobody"]
        task_id = data.draw(st.sampled_from(tasks))
        task = state.work.tasks.get(task_id)
        target: dict[str, Any] = {"task_id": task_id, "expected_task_revision": task.revision if task else 1}
        name = data.draw(st.sampled_from(list(state.conversation.pending) or ["d0"]))
        on_call = data.draw(st.booleans())
        if kind is DecisionKind.START_TASK:
            anchor = {"anchor_task_id": task_id, "expected_anchor_revision": target["expected_task_revision"]}
            return ContextDecision(kind, input={}, **({"delegation_id": name} if on_call else anchor))
        if kind in (DecisionKind.SUPERSEDE_TASK, DecisionKind.UPDATE_TASK):
            return ContextDecision(kind, input={}, delegation_id=name if on_call else None, **target)
        if kind is DecisionKind.CANCEL_TASK:
            return ContextDecision(kind, **target)
        if kind is DecisionKind.ASSOCIATE_DELEGATION:
            return ContextDecision(kind, delegation_id=name, **target)
        where: dict[str, Any] = {"delegation_id": name} if on_call else target
        key = data.draw(st.sampled_from([None, "k1", "k2"]))
        if kind is DecisionKind.WAIT_FOR_CONTEXT:
            delay = data.draw(st.sampled_from([None, 1, 300]))
            return ContextDecision(kind, recheck_after_ms=delay, recheck_key=key, **where)
        return ContextDecision(kind, message="Which?", clarification_key=key, **where)

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), fails=st.booleans())
    def policy_answers_late(self, data: st.DataObject, fails: bool) -> None:
        run_id = data.draw(st.sampled_from(self.runs))
        decision = ContextDecision(DecisionKind.START_TASK, delegation_id="d0", input={})
        decisions, error = ((), REFUSED) if fails else ((decision,), None)
        if self.model.state.policy.run is None or self.model.state.policy.run.id != run_id:
            self.model.feed(inputs.PolicyReplied, run_id=run_id, decisions=decisions, error=error)

    @precondition(lambda self: self.old_timers)
    @rule(data=st.data())
    def a_timer_fires_early_or_again(self, data: st.DataObject) -> None:
        timer_id = data.draw(st.sampled_from(self.old_timers))
        self.model.clock.cancel(timer_id)
        self.model.feed(inputs.TimerFired, timer_id=timer_id)

    @rule(role=st.sampled_from(OWNERS), type=st.sampled_from(["transcript_delta", "request_completed", "closed"]))
    def an_event_of_another_generation(self, role: Role, type: str) -> None:
        if role in self.model.state.adapters:
            event = replace(self.model.adapter_event(role, type), generation=7)
            self.model.feed(inputs.AdapterEvent, role=role, event=event)

    @precondition(lambda self: len(self.model.trace) > 100)
    @rule(role=st.sampled_from(OWNERS), type=st.sampled_from(["failed", "closed", "disconnected"]))
    def an_adapter_gives_up(self, role: Role, type: str) -> None:
        self.model.event(role, type, {})

    @rule(context=st.sampled_from([{}, {"shop": "open"}]), outcome=st.sampled_from(["completed", "cancelled"]), id=IDS)
    def the_application_looks_in(self, context: dict[str, Any], outcome: str, id: str) -> None:
        self.model.call("update_context", context=context)
        self.model.call("resolve_progress", id=id, outcome=outcome)
        self.model.call("status")

    @rule(stalls=st.sampled_from([False] * 15 + [True]))
    def audio_is_lost(self, stalls: bool) -> None:
        self.model.feed(
            inputs.PipelineLost,
            role=Role.OUTPUT_PIPELINE,
            stream="output",
            cause="stale_epoch",
            loss=Loss(1, 960, 20_000),
        )
        if stalls:
            self.model.feed(inputs.PipelineStalled, role=Role.OUTPUT_PIPELINE, epoch=0, blocked_us=500_000)

    @rule(asked=st.booleans())
    def policy_worker_dies(self, asked: bool) -> None:
        self.model.feed(inputs.ProcessDown, role=Role.POLICY, cause="signal 9", asked=asked)

    @precondition(lambda self: len(self.model.trace) > 80)
    @rule(role=st.sampled_from([*OWNERS, *PIPELINES]))
    def process_dies(self, role: Role) -> None:
        self.model.feed(inputs.ProcessDown, role=role, cause="signal 9")

    @rule(kind=st.sampled_from(["quiet", "speakable"]), command_id=IDS)
    def append(self, kind: str, command_id: str) -> None:
        self.model.call("append_context", update={"kind": kind, "text": "note"}, command_id=command_id)

    @rule(command=st.sampled_from([["clear_output", "next"], ["suppress_output", True], ["mute_input", True]]), id=IDS)
    def control(self, command: list[Any], id: str) -> None:
        self.model.call("control", command=command, command_id=id)

    @precondition(lambda self: self.model.state.work.jobs)
    @rule(data=st.data(), id=IDS)
    def cancel(self, data: st.DataObject, id: str) -> None:
        job = data.draw(st.sampled_from(list(self.model.state.work.jobs.values())))
        self.model.call("cancel", request_id=job.id, expected_task_revision=job.task_revision, command_id=id)

    @rule(id=IDS, on_timeout=st.sampled_from(["notify", "notify", "close"]))
    def expect_progress(self, id: str, on_timeout: str) -> None:
        self.model.call("expect_progress", id=id, timeout_ms=700, on_timeout=on_timeout)

    @rule(caller=st.sampled_from(["host", "other"]))
    def caller_leaves(self, caller: str) -> None:
        self.model.call("subscribe", caller=caller)
        self.model.feed(inputs.CallerGone, caller=caller)

    @precondition(lambda self: len(self.model.trace) > 60)
    @rule(policy=st.sampled_from(["finish", "cancel"]))
    def close(self, policy: str) -> None:
        self.model.call("close", policy=policy)

    @precondition(lambda self: self.model.state.lifecycle.phase is Phase.CLOSING)
    @rule(role=st.sampled_from(OWNERS))
    def adapter_closes(self, role: Role) -> None:
        self.model.event(role, "closed", {"finalization_observed": True})

    @precondition(lambda self: self.reaping)
    @rule()
    def children_are_gone(self) -> None:
        self.model.feed(inputs.ChildrenGone, killed=0)

    # ---- what must hold

    @invariant()
    def effects_keep_the_promises(self) -> None:
        SessionMachine.steps += 1
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
    before, number = SessionMachine.steps, shard if "CI" in os.environ else random.getrandbits(32)
    while SessionMachine.steps - before < STEPS // SHARDS:
        print(f"seed {number}")
        run_state_machine_as_test(seed(number)(SessionMachine), settings=SETTINGS)
        number += SHARDS
