"""Drive a session's brain without processes: virtual time, scripted adapters and policy, a trace that can be read.

    >>> from parlora.context.decision import ContextDecision, DecisionKind
    >>> def policy(snapshot, trigger):
    ...     order = {"order": "124"}
    ...     return [ContextDecision(DecisionKind.START_TASK, delegation_id=trigger.delegation_id, input=order)]
    >>> model = SessionModel(policy=policy).ready()
    >>> model.delegate("d1")
    >>> model.complete(model.request(), summary="Order 124 is on its way.")
    >>> model.appended_texts()
    ['Order 124 is on its way.']

What the script does not answer by itself is left open, so that a test can answer late, wrongly or never: see the
`auto_*` switches. Every input is reduced twice, which fails a reducer that is not a pure function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.component import Component
from parlora.context.decision import ContextDecision
from parlora.context.snapshot import ContextSnapshot
from parlora.context.trigger import ContextTrigger
from parlora.contract.backend import BackendCapabilities, CancellationSupport
from parlora.contract.channel import ChannelCapabilities, ClearScope
from parlora.contract.provider import ContextKind, ProviderCapabilities, Speaker
from parlora.errors import ParloraError
from parlora.events import Event
from parlora.limits import Limits
from parlora.session import effects, inputs, reducer
from parlora.session.effects import Call, Effect, Invoke
from parlora.session.roles import OWNERS, Role
from parlora.session.spec import SessionSpec
from parlora.session.state import Phase, State
from parlora.testing.clock import VirtualClock
from parlora.wire import to_data

E = TypeVar("E", bound=Effect)

MOST_TRACE_CHARACTERS: Final = 240
"""Longest line of the trace: enough to recognize an input or effect, short enough to read sixty of them."""

Policy = Callable[[ContextSnapshot, ContextTrigger], Sequence[ContextDecision]]

CHANNEL: Final = ChannelCapabilities(
    (AudioFormat(),), (AudioFormat(),), output_suppression=True, clear_scope=ClearScope.PARLORA_BUFFERS
)
PROVIDER: Final = ProviderCapabilities(
    (AudioFormat(),),
    transcripts=(Speaker.USER, Speaker.ASSISTANT),
    context_update_kinds=tuple(ContextKind),
    input_mute=True,
    context_acknowledgment=True,
)
BACKEND: Final = BackendCapabilities(
    updates=True, cancellation=CancellationSupport.ADVISORY, progress=True, clarification=True
)


def session_spec(limits: Limits | None = None, **options: Any) -> SessionSpec:
    """A session with components that are never built; `deadline_us` counts from virtual time's start."""
    component = Component("nowhere:Nothing")
    limits = (limits or Limits()).resolve(AudioFormat())
    deadline_us = VirtualClock().now_us + limits.startup_timeout_ms * 1_000
    base = SessionSpec("s1", component, component, component, component, AudioFormat(), limits, deadline_us)
    return replace(base, **options)


class SessionModel:
    """One session's brain and a scripted world around it.

    auto_reply: owners admit every command at once. auto_acknowledge: the provider acknowledges appends, the channel
    completes controls, the pipeline replies. auto_close: adapters tell `closed` when asked to close, and the supervisor
    reports the children gone. policy: called for each run; None leaves runs open.
    """

    def __init__(
        self,
        spec: SessionSpec | None = None,
        policy: Policy | None = None,
        *,
        auto_reply: bool = True,
        auto_acknowledge: bool = True,
        auto_close: bool = True,
    ) -> None:
        self.spec = spec or session_spec()
        self.policy = policy
        self.auto_reply = auto_reply
        self.auto_acknowledge = auto_acknowledge
        self.auto_close = auto_close
        self.clock = VirtualClock()
        self.capabilities: dict[Role, Any] = {Role.CHANNEL: CHANNEL, Role.PROVIDER: PROVIDER, Role.BACKEND: BACKEND}
        self.effects: list[Effect] = []
        self.trace: list[tuple[int, str, object]] = []
        self._count = 0
        self._waiting: list[inputs.Input] = []
        self._adapters: dict[Role, effects.StartAdapter] = {}
        self.state: State
        self.state, first = reducer.begin(self.spec, self.clock.now_us, self._fresh())
        self._carry_out(first)

    # ---- inputs

    def feed(self, kind: type[inputs.Input], **fields: Any) -> list[Effect]:
        """Reduce one input and whatever the script answers to it; returns all effects."""
        mark = len(self.effects)
        self._waiting.append(kind(self.clock.now_us, self._fresh(), **fields))
        while self._waiting:
            self._reduce(self._waiting.pop(0))
        return self.effects[mark:]

    def _reduce(self, input: inputs.Input) -> None:
        input = replace(input, at_us=self.clock.now_us)
        self._note("<-", input)
        state, done = reducer.reduce(self.state, input)
        again, same = reducer.reduce(self.state, input)
        assert (again, same) == (state, done), f"not a pure function of its arguments: {input}"
        self.state = state
        self._carry_out(done)

    def _note(self, arrow: str, what: object) -> None:
        self.trace.append((self.clock.now_us, arrow, what))  # words are made when somebody reads them

    def _fresh(self) -> str:
        self._count += 1
        return f"f{self._count}"

    def _carry_out(self, done: list[Effect]) -> None:
        for effect in done:
            self._note("->", effect)
            self.effects.append(effect)
            if isinstance(effect, effects.ArmTimer):
                self.clock.arm(effect.timer_id, effect.due_us)
            elif isinstance(effect, effects.CancelTimer):
                self.clock.cancel(effect.timer_id)
            elif isinstance(effect, effects.StartAdapter):
                self._adapters[effect.role] = effect
            else:
                self._script(effect)

    def _script(self, effect: Effect) -> None:
        if isinstance(effect, Invoke):
            self._scripted_invoke(effect)
        elif isinstance(effect, effects.ControlPipeline) and self.auto_acknowledge:
            self._later(
                inputs.PipelineReplied,
                role=effect.role,
                command_id=effect.command_id,
                epoch=effect.epoch or 0,
                loss=Loss(),
            )
        elif isinstance(effect, effects.RunPolicy) and self.policy is not None:
            self._run_policy(effect)
        elif isinstance(effect, effects.ReapChildren) and self.auto_close:
            self._later(inputs.ChildrenGone, killed=3 if effect.force else 0)

    def _scripted_invoke(self, invoke: Invoke) -> None:
        if invoke.call is Call.CLOSE:
            if self.auto_close:
                self._later(inputs.CommandReplied, role=invoke.role, command_id=invoke.command_id, error=None)
                self._later_event(invoke.role, "closed", {"finalization_observed": True})
            return
        if self.auto_reply:
            self._later(inputs.CommandReplied, role=invoke.role, command_id=invoke.command_id, error=None)
        if not self.auto_acknowledge:
            return
        if invoke.call is Call.APPEND_CONTEXT:
            self._later_event(invoke.role, "context_acknowledged", {}, command_id=invoke.command_id)
        elif invoke.call is Call.CONTROL:
            self._later_event(invoke.role, "control_completed", {}, command_id=invoke.command_id)

    def _run_policy(self, run: effects.RunPolicy) -> None:
        assert self.policy is not None
        try:
            decisions = tuple(self.policy(copy.deepcopy(run.snapshot), run.trigger))
        except ParloraError as error:
            self._later(inputs.PolicyReplied, run_id=run.run_id, decisions=(), error=error.to_data())
        else:
            self._later(inputs.PolicyReplied, run_id=run.run_id, decisions=decisions)

    def _later(self, kind: type[inputs.Input], **fields: Any) -> None:
        self._waiting.append(kind(self.clock.now_us, self._fresh(), **fields))

    def _later_event(self, role: Role, type: str, payload: dict[str, Any], **ids: str | None) -> None:
        self._later(inputs.AdapterEvent, role=role, event=self.adapter_event(role, type, payload, **ids))

    # ---- the world

    def ready(self, loss: Loss | None = None) -> SessionModel:
        """Bring the session up: three adapters, the policy worker, the drain."""
        for role in OWNERS:
            self.adapter_ready(role)
        self.feed(inputs.PolicyUp)
        self.feed(inputs.PipelineDrained, loss=loss or Loss())
        assert self.state.lifecycle.phase is Phase.READY, self.story()
        return self

    def adapter_ready(self, role: Role, **payload: Any) -> list[Effect]:
        """An adapter's `ready` with this model's capabilities; `payload` overrides its parts."""
        told = {"capabilities": to_data(self.capabilities[role])}
        if role is not Role.BACKEND:
            told["audio_format"] = self.spec.audio_format.to_data()
        return self.event(role, "ready", {**told, **payload})

    def adapter_event(
        self,
        role: Role,
        type: str,
        payload: dict[str, Any] | None = None,
        *,
        command_id: str | None = None,
        request_id: str | None = None,
    ) -> Event:
        """An event as an owner would stamp it."""
        started = self._adapters[role]
        return Event(
            self._fresh(),
            str(role),
            type,
            self.spec.session_id,
            started.adapter_id,
            started.generation,
            command_id,
            request_id,
            self.clock.now_us,
            payload or {},
        )

    def event(self, role: Role, type: str, payload: dict[str, Any] | None = None, **ids: Any) -> list[Effect]:
        """Feed an adapter's event."""
        return self.feed(inputs.AdapterEvent, role=role, event=self.adapter_event(role, type, payload, **ids))

    def delegate(self, delegation_id: str) -> None:
        """The provider asks for application work."""
        payload = {"delegation_id": delegation_id, "target": "client", "offset_ms": None}
        self.event(Role.PROVIDER, "delegation_requested", payload)

    def say(self, delta: str, speaker: str = "user") -> None:
        """A caption arrives."""
        payload = {"speaker": speaker, "delta": delta, "start_ms": None, "end_ms": None}
        self.event(Role.PROVIDER, "transcript_delta", payload)

    def complete(self, request: dict[str, Any], status: str = "completed", **result: Any) -> None:
        """The backend reports an outcome that matches its request; `result` overrides its parts."""
        outcome = {
            "request_id": request["id"],
            "task_id": request["task_id"],
            "task_revision": request["task_revision"],
            "status": status,
            "facts": {},
            "summary": None,
            "metadata": {},
            **result,
        }
        self.event(Role.BACKEND, f"request_{status}", {"result": outcome}, request_id=request["id"])

    def reply(self, invoke: Invoke, error: dict[str, Any] | None = None) -> None:
        """An owner answers a command."""
        self.feed(inputs.CommandReplied, role=invoke.role, command_id=invoke.command_id, error=error)

    def decide(self, *decisions: ContextDecision, error: dict[str, Any] | None = None) -> list[Effect]:
        """Answer the newest policy run by hand."""
        run = self.last(effects.RunPolicy)
        return self.feed(inputs.PolicyReplied, run_id=run.run_id, decisions=decisions, error=error)

    def settle(self) -> None:
        """Answer every open run with no action, until nothing is left to interpret."""
        while self.state.policy.run is not None:
            self.decide()

    def call(self, operation: str, *, caller: str = "host", **arguments: Any) -> effects.Answer | None:
        """Call the session API; the answer, or None if it is still open."""
        call_id = self._fresh()
        self.feed(inputs.Called, caller=caller, call_id=call_id, operation=operation, arguments=arguments)
        return self.answer(call_id)

    def advance(self, ms: float) -> None:
        """Let virtual time pass, firing what comes due on the way."""
        until_us = self.clock.now_us + int(ms * 1_000)
        while (timer_id := self.clock.pop_due(until_us)) is not None:
            self.feed(inputs.TimerFired, timer_id=timer_id)

    # ---- what came of it

    def of(self, kind: type[E]) -> list[E]:
        """All effects of a kind, oldest first."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def last(self, kind: type[E]) -> E:
        """The newest effect of a kind."""
        found = self.of(kind)
        assert found, f"no {kind.__name__}\n{self.story()}"
        return found[-1]

    def events(self, type: str | None = None, source: str = "session") -> list[Event]:
        """Events told to subscribers, of one source and, if given, of one type."""
        told = [effect.event for effect in self.of(effects.Emit)]
        return [event for event in told if event.source == source and type in (None, event.type)]

    def told(self, type: str, source: str = "session") -> Event:
        """The newest event of a type."""
        found = self.events(type, source)
        assert found, f"no {source} event {type}\n{self.story()}"
        return found[-1]

    def invoked(self, call: Call, role: Role | None = None) -> list[Invoke]:
        """Commands handed to owners."""
        return [invoke for invoke in self.of(Invoke) if invoke.call is call and role in (None, invoke.role)]

    def last_invoke(self, call: Call) -> Invoke:
        """The newest command of a kind."""
        found = self.invoked(call)
        assert found, f"no {call} was invoked\n{self.story()}"
        return found[-1]

    def request(self, position: int = -1) -> dict[str, Any]:
        """A submitted request, by default the newest."""
        found = self.invoked(Call.SUBMIT)
        assert found, f"nothing was submitted\n{self.story()}"
        request: dict[str, Any] = found[position].arguments["request"]
        return request

    def appended_texts(self) -> list[str]:
        """What was handed to the provider to speak or know, oldest first."""
        return [invoke.arguments["update"]["text"] for invoke in self.invoked(Call.APPEND_CONTEXT)]

    def answer(self, call_id: str) -> effects.Answer | None:
        """The answer to one call."""
        found = [answer for answer in self.of(effects.Answer) if answer.call_id == call_id]
        assert len(found) <= 1, f"call {call_id} was answered twice\n{self.story()}"
        return found[0] if found else None

    def status(self) -> dict[str, Any]:
        """The session's status now."""
        answer = self.call("status")
        assert answer is not None
        value: dict[str, Any] = answer.value
        return value

    def snapshot(self) -> dict[str, Any]:
        """The session's snapshot now."""
        answer = self.call("snapshot")
        assert answer is not None
        value: dict[str, Any] = answer.value
        return value

    def stages(self, request_id: str) -> list[str]:
        """The delivery stages told about one result, oldest first."""
        return [e.payload["stage"] for e in self.events("result_delivery") if e.request_id == request_id]

    def story(self, lines: int = 60) -> str:
        """The newest inputs and effects, one a line."""
        return "\n".join(
            f"{at_us / 1_000:>10.1f} ms {arrow} {what}"[:MOST_TRACE_CHARACTERS]
            for at_us, arrow, what in self.trace[-lines:]
        )
