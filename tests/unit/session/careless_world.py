"""A world where owners answer late, twice or never, adapters contradict themselves and the policy decides nonsense."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from parlora.audio.port import Loss
from parlora.context.decision import ContextDecision, DecisionKind
from parlora.limits import Limits
from parlora.session import effects, inputs
from parlora.session.effects import Call, Invoke
from parlora.session.roles import OWNERS, PIPELINES, Role
from parlora.session.state import Phase
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


class CarelessWorld(RuleBasedStateMachine):
    """One session, and everything that can happen to it in any order."""

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
