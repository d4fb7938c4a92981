"""The shell of the session's brain: it turns what happens into inputs and carries effects out, in order (design §5).

Nothing is decided here, nothing blocks, and no audio and no application code ever comes here. The supervisor's word is
authoritative about who lives; without the supervisor the session is over, and this process ends at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parlora.audio.ring import Ring
from parlora.errors import ErrorCode
from parlora.events import EventType, Source
from parlora.ids import new_id
from parlora.session import effects, inputs
from parlora.session.reducer import begin, reduce
from parlora.session.roles import Role
from parlora.session.spec import SessionSpec
from parlora.wire import from_data
from parlora_actors.coordinator_callers import Callers
from parlora_actors.coordinator_links import RoleLinks, input_of
from parlora_actors.loop import Loop
from parlora_actors.messages import owner, pipeline, policy
from parlora_actors.messages.host import CallSession
from parlora_actors.messages.supervision import (
    TO_COORDINATOR,
    TO_SUPERVISOR,
    Closed,
    Gone,
    LinkUp,
    Reap,
    ReplacePolicy,
    RequestMirror,
    RoleDown,
    Status,
    Teardown,
)
from parlora_actors.policy_worker import FIELD
from parlora_actors.status_report import REPORT_US, summarize_status
from parlora_actors.timers import Timer
from parlora_actors.timing import now_us
from parlora_actors.watched_link import WatchedLink

SINK_HOLD_US: Final = 1_000_000
"""How long the session waits for the application's event sink before it begins without it."""

FLUSH_US: Final = 250_000
"""How long the end waits for callers to take their last events."""

_MONITOR: Final = "monitor"
"""In the place of a caller: no guest of the session's door has this name."""

EXIT_ABANDONED: Final = 71
"""Exit code of a coordinator whose supervisor is gone."""

Step = tuple[Any, Sequence[effects.Effect]]
Brain = tuple[Callable[[SessionSpec, int, str], Step], Callable[[Any, inputs.Input], Step]]
"""`begin(spec, at_us, fresh)` and `reduce(state, input)`, each to a state and the effects that it wants."""


@dataclass(frozen=True, slots=True)
class CoordinatorInit:
    """What a coordinator is started with.

    supervisor, listener: its end of the supervisor's link and the session's listening socket. uplink, playback: the
    descriptors of the two rings that the pipelines write, read here for their counters only.
    """

    spec: SessionSpec
    supervisor: int
    listener: int
    uplink: tuple[int, ...]
    playback: tuple[int, ...]
    hold_for_sink: bool = False

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything this process inherits."""
        return (self.supervisor, self.listener, *self.uplink, *self.playback)


class Coordinator:
    """One session's coordinator on a loop."""

    def __init__(self, init: dict[str, Any], loop: Loop, brain: Brain = (begin, reduce)) -> None:
        self._init = from_data(init, CoordinatorInit)
        self._loop = loop
        self._begin_state, self._reduce = brain
        self._state: Any = None
        self._begun = False
        self._policy_is_up = False
        self._ending = False
        self._inputs: deque[inputs.Input] = deque()
        self._reducing = False
        self._timers: dict[str, Timer] = {}
        self._forwarded = tuple(Ring.attach(three) for three in (self._init.uplink, self._init.playback))
        self._carry_out: Final = self._table()
        self._roles = RoleLinks(loop, self._on_role_message, self._on_role_stuck)
        self._supervisor = WatchedLink(
            loop, self._init.supervisor, TO_COORDINATOR, TO_SUPERVISOR, self._on_supervisor, self._on_supervisor_end
        )
        self._callers = Callers(
            loop,
            self._init.listener,
            self._init.spec.session_id,
            self._on_call,
            lambda caller: self._take(inputs.CallerGone(*self._stamp(), caller)),
            lambda caller, subscription_id: self._call(caller, "", "unsubscribe", {"subscription_id": subscription_id}),
        )
        loop.after(REPORT_US, self._report)
        if self._init.hold_for_sink:
            loop.after(SINK_HOLD_US, self._begin)
        else:
            loop.soon(self._begin)

    def close(self) -> None:
        """Have the session end in order, as if a caller had asked: the node is stopping."""
        self._begin()
        self._call("", "", "close", {})

    def _report(self) -> None:
        """Have the session's status told to the supervisor, unless that one is behind with reading."""
        self._loop.after(REPORT_US, self._report)
        if self._begun and self._supervisor.queued == 0:
            self._call(_MONITOR, "", "status", {})

    # --- what happens becomes inputs

    def _stamp(self) -> tuple[int, str]:
        return now_us(), new_id()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._reducing = True
            self._state, wanted = self._begin_state(self._init.spec, *self._stamp())
            self._act(wanted)
            self._reducing = False
            self._run()

    def _on_call(self, caller: str, message: CallSession) -> None:
        self._begin()  # whoever calls first has found the session: it need not be held any longer
        self._call(caller, message.id, message.operation, message.arguments)

    def _call(self, caller: str, call_id: str, operation: str, arguments: dict[str, Any]) -> None:
        self._take(inputs.Called(*self._stamp(), caller, call_id, operation, arguments, self._counters()))

    def _on_role_message(self, role: Role, message: Any) -> None:
        if isinstance(message, policy.Up):
            self._policy_is_up = True
        self._take(input_of(role, message, *self._stamp()))

    def _on_role_stuck(self, role: Role) -> None:
        self._take(inputs.ProcessDown(*self._stamp(), role, "unresponsive"))

    def _on_supervisor(self, message: LinkUp | RoleDown | Gone) -> None:
        if isinstance(message, LinkUp):
            if message.role is Role.POLICY:
                self._policy_is_up = False
            self._roles.up(message.role, message.incarnation, self._supervisor.link.descriptors.popleft())
        elif isinstance(message, RoleDown):
            if self._roles.down(message.role, message.incarnation):
                error = message.error or self._never_up(message)
                self._take(inputs.ProcessDown(*self._stamp(), message.role, message.cause, message.asked, error))
        else:
            self._roles.drain_all()
            left = tuple(message.left)
            self._take(inputs.ChildrenGone(*self._stamp(), message.killed, self._counters(), left, message.lost))

    def _never_up(self, message: RoleDown) -> inputs.ErrorData | None:
        """A policy that kills its process while it is imported would do so again."""
        if message.role is not Role.POLICY or message.asked or self._policy_is_up:
            return None
        return {
            "code": str(ErrorCode.ADAPTER_FAILED),
            "message": f"the policy worker died while it imported its policy: {message.cause}",
            "details": {"field": FIELD, "cause": message.cause},
        }

    def _on_supervisor_end(self) -> None:
        self._loop.stop(EXIT_ABANDONED)

    def _counters(self) -> inputs.AudioCounters:
        uplink, playback = (ring.stats() for ring in self._forwarded)
        return inputs.AudioCounters(
            inputs.Forwarded(uplink.frames_in, uplink.bytes_in, uplink.last_in_us or None),
            inputs.Forwarded(playback.frames_in, playback.bytes_in, playback.last_in_us or None),
        )

    # --- inputs become effects, and effects acts

    def _take(self, given: inputs.Input) -> None:
        self._inputs.append(given)
        self._run()

    def _run(self) -> None:
        """Reduce what waits. An input that an effect led to comes after all effects of what led there."""
        if self._reducing or not self._begun:
            return
        self._reducing = True
        while self._inputs and not self._ending:
            self._state, wanted = self._reduce(self._state, self._inputs.popleft())
            self._act(wanted)
        self._reducing = False

    def _act(self, wanted: Sequence[effects.Effect]) -> None:
        for effect in wanted:
            self._carry_out[type(effect)](effect)

    def _table(self) -> dict[type[effects.Effect], Callable[[Any], None]]:
        """Every kind of effect and how it is carried out."""
        roles, callers, supervisor = self._to_role, self._to_callers, self._to_supervisor
        return {
            effects.StartAdapter: lambda e: roles(
                e.role, owner.Start(e.adapter_id, e.generation, self._init.spec.deadline_us)
            ),
            effects.Invoke: lambda e: roles(e.role, owner.Invoke(e.command_id, e.call, e.arguments, e.deadline_us)),
            effects.DrainCapture: lambda e: roles(Role.INPUT_PIPELINE, pipeline.Drain()),
            effects.OpenAudio: self._open_audio,
            effects.ControlPipeline: lambda e: roles(e.role, pipeline.Control(e.command_id, e.epoch, e.suppress)),
            effects.StopPipelines: self._stop_pipelines,
            effects.RunPolicy: lambda e: roles(Role.POLICY, policy.Run(e.run_id, e.snapshot, e.trigger)),
            effects.ReplacePolicy: lambda e: supervisor(ReplacePolicy(e.reason)),
            effects.ArmTimer: self._arm,
            effects.CancelTimer: self._cancel,
            effects.Emit: self._emit,
            effects.Answer: self._answer,
            effects.Attach: lambda e: callers().attach(e.caller, e.subscription_id),
            effects.Detach: lambda e: callers().detach(e.caller, e.subscription_id, e.reason),
            effects.Mirror: lambda e: supervisor(RequestMirror(e.request_id, e.finished, e.detail)),
            effects.BeginTeardown: lambda e: supervisor(Teardown(e.deadline_us, e.reason)),
            effects.ReapChildren: lambda e: supervisor(Reap(e.force)),
            effects.Exit: self._exit,
        }

    def _answer(self, effect: effects.Answer) -> None:
        if effect.caller != _MONITOR:
            self._callers.answer(effect.caller, effect.call_id, effect.value, effect.error)
        elif effect.error is None:
            self._supervisor.send(Status(summarize_status(effect.value)))

    def _to_role(self, role: Role, message: Any) -> None:
        self._roles.send(role, message)

    def _to_callers(self) -> Callers:
        return self._callers

    def _to_supervisor(self, message: Any) -> None:
        self._supervisor.send(message)

    def _open_audio(self, effect: effects.OpenAudio) -> None:
        for role in (Role.INPUT_PIPELINE, Role.OUTPUT_PIPELINE):
            self._roles.send(role, pipeline.Open(effect.pacing))

    def _stop_pipelines(self, effect: effects.StopPipelines) -> None:
        for role in (Role.INPUT_PIPELINE, Role.OUTPUT_PIPELINE):
            self._roles.send(role, pipeline.Stop())

    def _arm(self, effect: effects.ArmTimer) -> None:
        timer_id = effect.timer_id
        self._timers[timer_id] = self._loop.at(effect.due_us, lambda: self._fire(timer_id))

    def _fire(self, timer_id: str) -> None:
        if self._timers.pop(timer_id, None) is not None:
            self._take(inputs.TimerFired(*self._stamp(), timer_id))

    def _cancel(self, effect: effects.CancelTimer) -> None:
        timer = self._timers.pop(effect.timer_id, None)
        if timer is not None:
            timer.cancel()

    def _emit(self, effect: effects.Emit) -> None:
        event = effect.event
        self._callers.emit(event)
        if event.is_a(Source.SESSION, EventType.CLOSED):
            self._supervisor.send(Closed(event.payload))

    def _exit(self, effect: effects.Exit) -> None:
        self._ending = True
        self._callers.see_off(now_us() + FLUSH_US, self._leave)

    def _leave(self) -> None:
        self._supervisor.flush()
        self._loop.stop(0)
