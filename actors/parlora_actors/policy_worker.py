"""The process that runs the application's policy: killed and replaced when an interpretation takes too long.

The main thread is the loop; the policy runs on one worker thread. An exception is an answer like any other: the text of
a policy's own exception is kept, for its author has to mend it and it works on nothing secret.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

from parlora._process import set_batch_scheduling
from parlora.component import Component
from parlora.context.decision import ContextDecision, DecisionKind
from parlora.errors import InvalidArgument
from parlora.events import Event
from parlora.wire import from_data, packed_size, to_data
from parlora_actors.loop import Loop
from parlora_actors.messages.policy import FROM_POLICY, TO_POLICY, BuildFailed, Decided, Run, Up
from parlora_actors.owner_events import Outbox
from parlora_actors.owner_failure import error_data, with_details
from parlora_actors.owner_worker import Job, Worker
from parlora_actors.watched_link import WatchedLink

MAX_REPLY_BYTES: Final = 1024 * 1024
"""Largest list of decisions as msgpack."""

MAX_DECISIONS: Final = 1_024
"""Most decisions of one interpretation: more than any session has tasks and delegations for, and quickly checked."""


FIELD: Final = "context_policy"

Interpret = Callable[[Any, Any, Mapping[str, Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class PolicyInit:
    """What a policy worker is started with; link: the descriptor of its end of the coordinator's link."""

    session_id: str
    component: Component
    link: int

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Everything this process inherits."""
        return (self.link,)


class PolicyWorker:
    """One policy on a loop."""

    def __init__(self, init: dict[str, Any], loop: Loop) -> None:
        self._init = from_data(init, PolicyInit)
        self._outbox = Outbox()
        set_batch_scheduling()
        loop.watch(self._outbox.fileno(), self._drain)
        self._link = WatchedLink(loop, self._init.link, TO_POLICY, FROM_POLICY, self._run, on_end=lambda: loop.stop(0))
        self._worker = Worker("parlora-policy", self._build, lambda error: None, describe=error_data)
        self._worker.submit(Job(FIELD, lambda interpret: None, self._hand_over(self._built)))
        self._worker.start()

    def _build(self) -> Interpret:
        return build_policy(self._init.component)

    def _built(self, job: Job) -> None:
        self._link.send(Up() if job.error is None else BuildFailed(with_details(job.error, field=FIELD)))

    def _run(self, message: Run) -> None:
        decided: list[ContextDecision] = []

        def interpret(policy: Interpret) -> None:
            decided.extend(check_decisions(policy(message.snapshot, message.trigger, self._init.component.options)))

        def answer(job: Job) -> None:
            self._link.send(Decided(message.run_id, [] if job.error else decided, job.error))

        self._worker.submit(Job(FIELD, interpret, self._hand_over(answer)))

    def _hand_over(self, finished: Callable[[Job], None]) -> Callable[[Job], None]:
        return lambda job: self._outbox.put_call(lambda: finished(job))

    def _drain(self) -> None:
        self._outbox.clear_wakeup()
        while (item := self._outbox.take()) is not None:
            assert not isinstance(item, Event)
            item()


def build_policy(component: Component) -> Interpret:
    """The function to call for each interpretation; raises `InvalidArgument` naming `context_policy`.

    A class or a factory without arguments is called once; anything that has `interpret` is used as it is; a function
    that takes a snapshot, a trigger and options is the policy itself.
    """
    found = component.load(FIELD)
    if not isinstance(found, type) and not hasattr(found, "interpret") and callable(found):
        if _takes_three(found):
            interpret: Interpret = found
            return interpret
        found = found()
    elif isinstance(found, type):
        found = found()
    interpret = getattr(found, "interpret", None)  # type: ignore[assignment]
    if not callable(interpret):
        raise InvalidArgument(f"{FIELD}: {component.path} has no interpret(snapshot, trigger, options)", field=FIELD)
    return interpret


def check_decisions(decisions: Any) -> list[ContextDecision]:
    """The decisions if they are what the contract asks for, else `InvalidArgument` saying which one is not."""
    if isinstance(decisions, str | bytes | Mapping) or not isinstance(decisions, Sequence):
        raise InvalidArgument(f"a policy must return a list of decisions, not {type(decisions).__name__}")
    if len(decisions) > MAX_DECISIONS:
        raise InvalidArgument(f"a policy must return at most {MAX_DECISIONS:,} decisions, not {len(decisions):,}")
    checked = [_decision(decision, f"decisions[{index}]") for index, decision in enumerate(decisions)]
    size = packed_size(to_data(checked))
    if size > MAX_REPLY_BYTES:
        raise InvalidArgument(f"decisions must be at most {MAX_REPLY_BYTES} bytes as msgpack, got {size}")
    return checked


_TYPES: Final[dict[str, type]] = {
    field.name: int if "int" in str(field.type) else dict if "dict" in str(field.type) else str
    for field in fields(ContextDecision)
    if field.name != "kind"
}


def _decision(value: Any, name: str) -> ContextDecision:
    plain = to_data(value) if isinstance(value, ContextDecision) else value
    if not isinstance(plain, Mapping):
        raise InvalidArgument(f"{name} must be a ContextDecision, not {type(value).__name__}", field=name)
    for key, inner in plain.items():
        if key != "kind" and key not in _TYPES:
            raise InvalidArgument(f"{name} has no field {key!r}", field=f"{name}.{key}")
        if key != "kind" and inner is not None and type(inner) is not _TYPES[key]:
            raise InvalidArgument(f"{name}.{key} must be {_TYPES[key].__name__} or None", field=f"{name}.{key}")
    if plain.get("kind") not in set(DecisionKind):
        raise InvalidArgument(f"{name}.kind must be one of {', '.join(DecisionKind)}", field=f"{name}.kind")
    return from_data(dict(plain), ContextDecision)


def _takes_three(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True
