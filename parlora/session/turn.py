"""One reduction in progress: the groups of the next state, the effects so far, and fresh ids.

A module of this package changes its own group of the state through the turn; the turn never leaves the reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from parlora.context.trigger import ContextTrigger
from parlora.errors import ParloraError
from parlora.events import Event, Source
from parlora.session import effects
from parlora.session.inputs import ErrorData, Input
from parlora.session.state import Command, Job, Phase, Purpose, State, Task, Timer, TimerKind


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A command must not be handed over any more, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class CommandHandler:
    """How one purpose answers for its commands.

    prepare: at hand-over, the arguments to send, or `Withdraw`. replied: the owner's admission, or an error saying
    that the command was never submitted or that its outcome is unknown. handed_over: it has just been sent.
    """

    prepare: Callable[[Turn, Command], dict[str, Any] | Withdraw]
    replied: Callable[[Turn, Command, ErrorData | None], None]
    withdrawn: Callable[[Turn, Command, str], None]
    handed_over: Callable[[Turn, Command], None] | None = None


class Turn:
    """The draft of the next state."""

    __slots__ = (
        "_count",
        "_fresh",
        "adapters",
        "commands",
        "controls",
        "conversation",
        "effects",
        "failure",
        "handlers",
        "health",
        "lifecycle",
        "now_us",
        "policy",
        "spec",
        "subscriptions",
        "timers",
        "work",
    )

    def __init__(self, state: State, input: Input, handlers: Mapping[Purpose, CommandHandler]) -> None:
        self.now_us = input.at_us
        self._fresh = input.fresh
        self._count = 0
        self.effects: list[effects.Effect] = []
        self.failure: tuple[str, ErrorData, dict[str, Any]] | None = None
        self.handlers = handlers
        self._adopt(state)

    def _adopt(self, state: State) -> None:
        self.spec = state.spec
        self.lifecycle = state.lifecycle
        self.adapters = state.adapters
        self.conversation = state.conversation
        self.work = state.work
        self.commands = state.commands
        self.controls = state.controls
        self.policy = state.policy
        self.health = state.health
        self.subscriptions = state.subscriptions
        self.timers = state.timers

    def restore(self, before: State, effect_count: int) -> None:
        """Take back everything since `before`: what was refused must not have changed anything."""
        del self.effects[effect_count:]
        self.failure = None
        self._adopt(before)

    def state(self) -> State:
        """The state as the turn leaves it."""
        return State(
            self.spec,
            self.lifecycle,
            self.adapters,
            self.conversation,
            self.work,
            self.commands,
            self.controls,
            self.policy,
            self.health,
            self.subscriptions,
            self.timers,
        )

    @property
    def phase(self) -> Phase:
        """Where the session stands now."""
        return self.lifecycle.phase

    def new_id(self) -> str:
        """The next id derived from the input's seed."""
        self._count += 1
        return f"{self._fresh}.{self._count}"

    def act(self, effect: effects.Effect) -> None:
        """Add an effect."""
        self.effects.append(effect)

    def emit(
        self,
        type: str,
        payload: dict[str, Any],
        *,
        command_id: str | None = None,
        request_id: str | None = None,
    ) -> None:
        """Add an event of the session's own."""
        event = Event(
            self.new_id(),
            str(Source.SESSION),
            str(type),
            self.spec.session_id,
            None,
            0,
            command_id,
            request_id,
            self.now_us,
            payload,
        )
        self.effects.append(effects.Emit(event))

    def arm(self, kind: TimerKind, subject: str, due_us: int) -> str:
        """Arm a timer and return its id."""
        timer_id = self.new_id()
        self.timers = self.timers.put(timer_id, Timer(kind, subject))
        self.effects.append(effects.ArmTimer(timer_id, due_us))
        return timer_id

    def disarm(self, timer_id: str | None) -> None:
        """Forget a timer; None and one that has fired already are fine."""
        if timer_id is not None and timer_id in self.timers:
            self.timers = self.timers.drop(timer_id)
            self.effects.append(effects.CancelTimer(timer_id))

    def answer(self, waiter: tuple[str, str], value: Any = None) -> None:
        """Answer a caller with a value."""
        self.effects.append(effects.Answer(waiter[0], waiter[1], value))

    def refuse(self, waiter: tuple[str, str], error: ParloraError | ErrorData) -> None:
        """Answer a caller with an error."""
        data = error.to_data() if isinstance(error, ParloraError) else error
        self.effects.append(effects.Answer(waiter[0], waiter[1], None, data))

    def fail(self, cause: str, error: ErrorData, **details: Any) -> None:
        """Ask for the bounded shutdown of a failed session; it begins at the end of the reduction, the first wins."""
        if self.failure is None:
            self.failure = (cause, error, details)

    def put_job(self, job: Job) -> Job:
        """Store a request's record."""
        self.work = replace(self.work, jobs=self.work.jobs.put(job.id, job))
        return job

    def put_task(self, task: Task) -> Task:
        """Store a task's record."""
        self.work = replace(self.work, tasks=self.work.tasks.put(task.id, task))
        return task

    def revise(self) -> int:
        """A new context revision: what an interpretation under way rests on is no longer current."""
        revision = self.conversation.revision + 1
        self.conversation = replace(self.conversation, revision=revision)
        return revision

    def trigger(self, trigger: ContextTrigger) -> None:
        """Ask for an interpretation; a trigger that waits already is not added twice."""
        if self.phase in (Phase.STARTING, Phase.READY) and trigger not in self.policy.triggers:
            self.policy = replace(self.policy, triggers=(*self.policy.triggers, trigger))
