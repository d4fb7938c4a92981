"""What a supervisor decides, apart from how it is done: no process, clock or socket here.

`SupervisionCore` is told what happened and when, and answers with actions in the order to carry them out. The rules are
those of OTP's supervisor:

* Children start in order. A child that fails to start when the supervisor starts fails the supervisor: the others are
  stopped and nothing is retried. The same later, in a restart, counts as one more failure and is retried.
* A child that ends by itself is restarted as its `Restart` says, together with its siblings as the `Strategy` says:
  those are stopped in reverse order first, then all are started in order.
* Each restart counts; more than `intensity` of them within `period_ms` and the supervisor gives up. A kill that was
  asked for (`replace`) restarts without counting.
* A significant child that ends for good by itself stops the supervisor as `AutoShutdown` says. Being stopped by the
  supervisor is not "by itself".

Every start, stop and kill names the child's incarnation, and what is told about another incarnation is ignored.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto

from parlora.errors import Conflict, NotFound
from parlora_actors.child_spec import (
    BRUTAL_KILL,
    INFINITY,
    AutoShutdown,
    ChildSpec,
    Restart,
    StartWait,
    StopOrder,
    Strategy,
    SupervisorSpec,
)
from parlora_actors.supervision_actions import Action, Dropped, Finish, Finished, Kill, Start, Started, Stop


class _State(Enum):
    IDLE = auto()
    """No process."""
    STARTING = auto()
    UP = auto()
    STOPPING = auto()
    KILLED = auto()


class _Why(Enum):
    """Why a child is being ended by us."""

    OWN_ACCORD = auto()
    """It is not: what happens to it, it does itself."""
    STAY_DOWN = auto()
    REPLACE = auto()
    FAILED = auto()
    """It hangs: its end counts as its failure."""


@dataclass(slots=True)
class _Child:
    spec: ChildSpec
    is_static: bool
    state: _State = _State.IDLE
    why: _Why = _Why.OWN_ACCORD
    incarnation: int = 0
    was_up: bool = False
    stop_deadline_us: int | None = None

    @property
    def has_process(self) -> bool:
        return self.state is not _State.IDLE


class SupervisionCore:
    """The decisions of one supervisor. Every method that returns actions expects them to be carried out in order."""

    def __init__(self, spec: SupervisorSpec) -> None:
        self._spec = spec
        self._children: dict[str, _Child] = {child.id: _Child(child, True) for child in spec.children}
        self._to_stop: deque[str] = deque()
        self._to_start: deque[str] = deque()
        self._restarts_us: list[int] = []
        self._is_starting = True
        self._finish: Finish | None = None
        self._cause: str | None = None
        self._is_finished = False
        self.deadline_us: int | None = None
        """When a stop has to be over: call `deadline_passed` then."""

    # Questions

    @property
    def is_stopping(self) -> bool:
        """Whether the supervisor is on its way out."""
        return self._finish is not None

    def incarnation(self, child_id: str) -> int:
        """The latest incarnation of a known child; 0 before its first start. Raises `NotFound`."""
        return self._known(child_id).incarnation

    def counts(self) -> dict[str, int]:
        """How many children there are (`specs`), have a process (`active`) and are up (`up`)."""
        children = self._children.values()
        return {
            "specs": len(children),
            "active": sum(child.has_process for child in children),
            "up": sum(child.state is _State.UP for child in children),
        }

    # What happened

    def begin(self, now_us: int) -> list[Action]:
        """Start all children of the spec."""
        self._to_start.extend(self._children)
        return self._advance(now_us)

    def child_ready(self, child_id: str, incarnation: int, now_us: int) -> list[Action]:
        """The child said hello."""
        child = self._current(child_id, incarnation)
        if child is None or child.state is not _State.STARTING:
            return []
        child.state = _State.UP
        child.was_up = True
        return self._advance(now_us)

    def child_down(self, child_id: str, incarnation: int, is_normal: bool, now_us: int) -> list[Action]:
        """The child's process is gone, or could not be started. `is_normal`: it ended with success."""
        child = self._current(child_id, incarnation)
        if child is None or not child.has_process:
            return []
        never_up = child.state is _State.STARTING or (not child.was_up and child.why is _Why.FAILED)
        why, child.state, child.why = child.why, _State.IDLE, _Why.OWN_ACCORD
        actions: list[Action] = []
        if self.is_stopping or why is _Why.STAY_DOWN:
            self._forget_if_temporary(child, actions)
        elif never_up and not child.was_up and why is not _Why.REPLACE:
            self._start_failed(child, actions, now_us)
        elif why is _Why.REPLACE:
            self._to_start.appendleft(child_id)
        else:
            self._ended_by_itself(child, is_normal and why is _Why.OWN_ACCORD and not never_up, actions, now_us)
        return actions + self._advance(now_us)

    def start_overdue(self, child_id: str, incarnation: int, now_us: int) -> list[Action]:
        """The child has not said hello by its deadline."""
        child = self._current(child_id, incarnation)
        if child is None or child.state is not _State.STARTING:
            return []
        return self._fail(child)

    def stop_overdue(self, child_id: str, incarnation: int, now_us: int) -> list[Action]:
        """The child has not stopped by its deadline."""
        child = self._current(child_id, incarnation)
        if child is None or child.state is not _State.STOPPING:
            return []
        child.state = _State.KILLED
        return [Kill(child_id, incarnation)]

    def unresponsive(self, child_id: str, incarnation: int, now_us: int) -> list[Action]:
        """The child has answered nothing for too long: it is as good as dead."""
        child = self._current(child_id, incarnation)
        if child is None or child.state is not _State.UP:
            return []
        return self._fail(child)

    # What is asked for

    def start_child(self, spec: ChildSpec, now_us: int) -> list[Action]:
        """Add a child and start it. Raises `Conflict` if the id is taken, `InvalidArgument` if it does not fit."""
        self._spec.check_child(spec)
        if spec.id in self._children:
            raise Conflict(f"child {spec.id} exists", details={"child": spec.id})
        if self.is_stopping:
            raise Conflict("the supervisor is stopping", details={"child": spec.id})
        self._children[spec.id] = _Child(spec, False)
        self._to_start.append(spec.id)
        return self._advance(now_us)

    def terminate_child(self, child_id: str, now_us: int) -> list[Action]:
        """Stop a child for good; its spec stays unless it is temporary. Raises `NotFound`."""
        child = self._known(child_id)
        self._cancel_start(child_id)
        if not child.has_process:
            return []
        return self._end(child, _Why.STAY_DOWN, now_us)

    def restart_child(self, child_id: str, now_us: int) -> list[Action]:
        """Start a child again that was terminated or ended for good. Raises `NotFound`, `Conflict` if it runs."""
        child = self._known(child_id)
        if child.has_process or child_id in self._to_start or self.is_stopping:
            raise Conflict(f"child {child_id} is running or starting", details={"child": child_id})
        self._to_start.append(child_id)
        return self._advance(now_us)

    def delete_child(self, child_id: str) -> None:
        """Forget a child that has no process. Raises `NotFound`, `Conflict` if it runs."""
        child = self._known(child_id)
        if child.has_process or child_id in self._to_start:
            raise Conflict(f"child {child_id} is running or starting", details={"child": child_id})
        del self._children[child_id]

    def replace(self, child_id: str, now_us: int) -> list[Action]:
        """Kill the child's process and start another, whatever its `Restart` says, without counting it. `NotFound`."""
        child = self._known(child_id)
        if self.is_stopping:
            return []
        if not child.has_process:
            if child_id not in self._to_start:
                self._to_start.append(child_id)
            return self._advance(now_us)
        if child.why is _Why.STAY_DOWN:
            return []
        was_killed = child.state is _State.KILLED
        child.state, child.why = _State.KILLED, _Why.REPLACE
        return [] if was_killed else [Kill(child_id, child.incarnation)]

    def stop(self, deadline_us: int | None, now_us: int) -> list[Action]:
        """Stop all children by `deadline_us` and finish. Asked again, an earlier deadline counts."""
        if self.is_stopping:
            return self._hurry(deadline_us)
        self._shut_down(Finish.STOPPED, None, deadline_us)
        return self._advance(now_us)

    def deadline_passed(self, now_us: int) -> list[Action]:
        """The deadline of `stop` has passed: kill whatever is left, at once."""
        if not self.is_stopping:
            return []
        kills: list[Action] = []
        for child in reversed(self._children.values()):
            if child.has_process and child.state is not _State.KILLED:
                child.state, child.why = _State.KILLED, _Why.STAY_DOWN
                kills.append(Kill(child.spec.id, child.incarnation))
        self._to_stop.clear()
        return kills + self._advance(now_us)

    # How a failure is met

    def _start_failed(self, child: _Child, actions: list[Action], now_us: int) -> None:
        if self._is_starting and child.is_static:
            self._give_up(Finish.START_FAILED, child, now_us)
        else:
            del self._children[child.spec.id]
            actions.append(Dropped(child.spec.id, never_up=True))

    def _ended_by_itself(self, child: _Child, is_normal: bool, actions: list[Action], now_us: int) -> None:
        restart = child.spec.restart
        if restart == Restart.PERMANENT or (restart == Restart.TRANSIENT and not is_normal):
            self._restart(child, now_us)
            return
        self._forget_if_temporary(child, actions)
        if child.spec.significant and self._significance_ends_it():
            self._give_up(Finish.AUTO_SHUTDOWN, child, now_us)

    def _restart(self, child: _Child, now_us: int) -> None:
        since_us = now_us - self._spec.period_ms * 1_000
        self._restarts_us = [at for at in self._restarts_us if at >= since_us] + [now_us]
        if len(self._restarts_us) > self._spec.intensity:
            self._give_up(Finish.INTENSITY, child, now_us)
            return
        ids = list(self._children)
        if self._spec.strategy == Strategy.ONE_FOR_ONE:
            if child.spec.id not in self._to_start:
                self._to_start.appendleft(child.spec.id)
            return
        affected = ids if self._spec.strategy == Strategy.ONE_FOR_ALL else ids[ids.index(child.spec.id) :]
        waiting = [each for each in self._to_start if each not in affected]
        self._to_stop = deque(each for each in reversed(affected) if self._children[each].has_process)
        self._to_start = deque(sorted([*affected, *waiting], key=ids.index))

    def _significance_ends_it(self) -> bool:
        if self._spec.auto_shutdown == AutoShutdown.ANY_SIGNIFICANT:
            return True
        others = (child for child in self._children.values() if child.spec.significant)
        waiting = set(self._to_start)
        return not any(child.has_process or child.spec.id in waiting for child in others)

    def _give_up(self, reason: Finish, cause: _Child, now_us: int) -> None:
        stop_ms = self._spec.stop_ms
        self._shut_down(reason, cause.spec.id, None if stop_ms is None else now_us + stop_ms * 1_000)

    def _shut_down(self, reason: Finish, cause: str | None, deadline_us: int | None) -> None:
        self._finish, self._cause, self.deadline_us = reason, cause, deadline_us
        self._to_start.clear()
        self._to_stop = deque(reversed([each for each, child in self._children.items() if child.has_process]))

    def _hurry(self, deadline_us: int | None) -> list[Action]:
        if deadline_us is None or (self.deadline_us is not None and self.deadline_us <= deadline_us):
            return []
        self.deadline_us = deadline_us
        stops: list[Action] = []
        for child in self._children.values():
            if child.state is _State.STOPPING:
                child.stop_deadline_us = _earlier(child.stop_deadline_us, deadline_us)
                stops.append(Stop(child.spec.id, child.incarnation, child.stop_deadline_us))
        return stops

    # Carrying on

    def _advance(self, now_us: int) -> list[Action]:
        """The next steps of what was decided: stops first, then starts, then the end."""
        actions: list[Action] = []
        while self._to_stop and (self._spec.stop_order == StopOrder.TOGETHER or not self._is_ending()):
            child = self._children.get(self._to_stop.popleft())
            if child is not None and child.has_process:
                actions.extend(self._end(child, _Why.STAY_DOWN, now_us))
        if self._to_stop or self._is_ending_before_starts():
            return actions
        while self._to_start and not self._must_wait_for_hello():
            child = self._children[self._to_start.popleft()]
            if not child.has_process:
                actions.append(self._start(child, now_us))
        if self.is_stopping and not self._is_finished and not any(c.has_process for c in self._children.values()):
            assert self._finish is not None
            self._is_finished = True
            actions.append(Finished(self._finish, self._cause))
        elif self._is_starting and not self.is_stopping and self._all_static_are_up():
            self._is_starting = False
            actions.append(Started())
        return actions

    def _is_ending(self) -> bool:
        return any(child.why is _Why.STAY_DOWN for child in self._children.values())

    def _is_ending_before_starts(self) -> bool:
        """Whether a child that waits to be started again is still being ended."""
        return any(self._children[each].has_process for each in self._to_start if each in self._children)

    def _must_wait_for_hello(self) -> bool:
        if self._spec.start_wait == StartWait.FORK:
            return False
        return any(child.state is _State.STARTING for child in self._children.values())

    def _all_static_are_up(self) -> bool:
        return all(child.was_up for child in self._children.values() if child.is_static)

    def _start(self, child: _Child, now_us: int) -> Start:
        child.incarnation += 1
        child.state, child.why = _State.STARTING, _Why.OWN_ACCORD
        return Start(child.spec, child.incarnation, now_us + child.spec.start_ms * 1_000)

    def _end(self, child: _Child, why: _Why, now_us: int) -> list[Action]:
        child.why = why
        if child.state in (_State.STOPPING, _State.KILLED):
            return []
        overdue = self.deadline_us is not None and now_us >= self.deadline_us
        if child.spec.shutdown == BRUTAL_KILL or overdue:
            child.state = _State.KILLED
            return [Kill(child.spec.id, child.incarnation)]
        child.state = _State.STOPPING
        own_us = None if child.spec.shutdown == INFINITY else now_us + int(child.spec.shutdown) * 1_000
        child.stop_deadline_us = _earlier(own_us, self.deadline_us)
        return [Stop(child.spec.id, child.incarnation, child.stop_deadline_us)]

    def _fail(self, child: _Child) -> list[Action]:
        child.state, child.why = _State.KILLED, _Why.FAILED
        return [Kill(child.spec.id, child.incarnation)]

    def _forget_if_temporary(self, child: _Child, actions: list[Action]) -> None:
        if child.spec.restart == Restart.TEMPORARY and self._children.get(child.spec.id) is child:
            del self._children[child.spec.id]
            self._cancel_start(child.spec.id)
            actions.append(Dropped(child.spec.id, never_up=False))

    def _cancel_start(self, child_id: str) -> None:
        if child_id in self._to_start:
            self._to_start.remove(child_id)

    def _current(self, child_id: str, incarnation: int) -> _Child | None:
        child = self._children.get(child_id)
        return child if child is not None and child.incarnation == incarnation else None

    def _known(self, child_id: str) -> _Child:
        try:
            return self._children[child_id]
        except KeyError:
            raise NotFound(f"no child {child_id}", details={"child": child_id}) from None


def _earlier(first_us: int | None, second_us: int | None) -> int | None:
    return min((each for each in (first_us, second_us) if each is not None), default=None)
