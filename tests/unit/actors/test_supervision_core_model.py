"""A supervisor's decisions under any order of events: what must hold always."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from parlora.errors import Conflict
from parlora_actors.child_spec import AutoShutdown, ChildSpec, Restart, StartWait, StopOrder, Strategy, SupervisorSpec
from parlora_actors.supervision_actions import Action, Dropped, Finished, Kill, Start, Started, Stop
from parlora_actors.supervision_core import SupervisionCore

IDS = ("a", "b", "c", "d", "e")
SHUTDOWNS = st.sampled_from([100, 5_000, "brutal_kill", "infinity"])


@st.composite
def child_specs(draw: st.DrawFn, id: str, may_be_significant: bool) -> ChildSpec:
    restart = draw(st.sampled_from(list(Restart)))
    significant = may_be_significant and restart != Restart.PERMANENT and draw(st.booleans())
    shutdown: Any = draw(SHUTDOWNS)
    return ChildSpec(id, "tests.Nobody", restart=restart, shutdown=shutdown, significant=significant)


@st.composite
def supervisor_specs(draw: st.DrawFn) -> SupervisorSpec:
    auto_shutdown = draw(st.sampled_from(list(AutoShutdown)))
    ids = IDS[: draw(st.integers(0, 4))]
    return SupervisorSpec(
        children=tuple(draw(child_specs(id, auto_shutdown != AutoShutdown.NEVER)) for id in ids),
        strategy=draw(st.sampled_from(list(Strategy))),
        intensity=draw(st.integers(0, 3)),
        auto_shutdown=auto_shutdown,
        start_wait=draw(st.sampled_from(list(StartWait))),
        stop_order=draw(st.sampled_from(list(StopOrder))),
    )


class Process:
    """One simulated process."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.is_up = False
        self.is_asked = False
        self.is_killed = False


class Supervision(RuleBasedStateMachine):
    """Simulated children that do anything, in any order; the core's actions are carried out and checked."""

    def __init__(self) -> None:
        super().__init__()
        self.now_us = 0
        self.alive: dict[str, Process] = {}
        self.last: dict[str, int] = {}
        self.finished: Finished | None = None
        self.started = 0
        self.terminated: set[str] = set()

    @initialize(spec=supervisor_specs())
    def begin(self, spec: SupervisorSpec) -> None:
        self.spec = spec
        self.core = SupervisionCore(spec)
        self.restart_of = {child.id: child.restart for child in spec.children}
        self.carry_out(self.core.begin(0))

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            assert self.finished is None, f"{action} after the end"
            match action:
                case Start():
                    id = action.child.id
                    assert id not in self.alive, "two incarnations at once"
                    assert action.incarnation == self.last.get(id, 0) + 1
                    assert not self.core.is_stopping
                    if self.spec.start_wait == StartWait.HELLO:
                        unready = [p for p in self.alive.values() if not p.is_up and not p.is_asked and not p.is_killed]
                        assert unready == []
                    self.last[id] = action.incarnation
                    self.alive[id] = Process(action.incarnation)
                case Stop() | Kill():
                    process = self.alive[action.child_id]
                    assert process.incarnation == action.incarnation
                    assert not process.is_killed, "asked after the kill"
                    process.is_asked |= isinstance(action, Stop)
                    process.is_killed |= isinstance(action, Kill)
                case Started():
                    self.started += 1
                    assert self.started == 1
                case Dropped():
                    assert action.child_id not in self.alive
                    self.last.pop(action.child_id, None)
                case Finished():
                    assert self.alive == {}, "finished with children alive"
                    self.finished = action

    def pick(self, data: st.DataObject) -> tuple[str, Process]:
        id = data.draw(st.sampled_from(sorted(self.alive)))
        return id, self.alive[id]

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def hello(self, data: st.DataObject) -> None:
        id, process = self.pick(data)
        if not process.is_up:
            process.is_up = True
            self.carry_out(self.core.child_ready(id, process.incarnation, self.now_us))

    @precondition(lambda self: self.alive)
    @rule(data=st.data(), is_normal=st.booleans())
    def down(self, data: st.DataObject, is_normal: bool) -> None:
        id, process = self.pick(data)
        del self.alive[id]
        self.carry_out(self.core.child_down(id, process.incarnation, is_normal and not process.is_killed, self.now_us))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def overdue(self, data: st.DataObject) -> None:
        id, process = self.pick(data)
        if process.is_asked:
            self.carry_out(self.core.stop_overdue(id, process.incarnation, self.now_us))
        else:
            self.carry_out(self.core.start_overdue(id, process.incarnation, self.now_us))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def hang(self, data: st.DataObject) -> None:
        id, process = self.pick(data)
        self.carry_out(self.core.unresponsive(id, process.incarnation, self.now_us))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        id, _ = self.pick(data)
        self.carry_out(self.core.replace(id, self.now_us))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def terminate(self, data: st.DataObject) -> None:
        id, _ = self.pick(data)
        self.terminated.add(id)
        self.carry_out(self.core.terminate_child(id, self.now_us))

    @precondition(lambda self: self.finished is None)
    @rule(data=st.data(), id=st.sampled_from(IDS))
    def add(self, data: st.DataObject, id: str) -> None:
        spec = data.draw(child_specs(id, False))
        try:
            actions = self.core.start_child(spec, self.now_us)
        except Conflict:
            return
        self.last.pop(id, None)
        self.restart_of[id] = spec.restart
        self.carry_out(actions)

    @precondition(lambda self: self.finished is None)
    @rule(deadline_us=st.none() | st.integers(0, 20_000_000))
    def stop(self, deadline_us: int | None) -> None:
        self.carry_out(self.core.stop(deadline_us, self.now_us))

    @rule()
    def deadline(self) -> None:
        if self.core.deadline_us is not None and not self.finished:
            self.now_us = max(self.now_us, self.core.deadline_us)
            self.carry_out(self.core.deadline_passed(self.now_us))
            assert all(process.is_killed for process in self.alive.values())

    @rule(step_us=st.integers(1, 4_000_000))
    def time_passes(self, step_us: int) -> None:
        self.now_us += step_us

    @invariant()
    def a_stopping_supervisor_works_on_its_end(self) -> None:
        """While it stops, some child has been asked or killed, or everything is over: nothing waits for nobody."""
        if hasattr(self, "core") and self.core.is_stopping and self.finished is None:
            assert any(process.is_asked or process.is_killed for process in self.alive.values())

    def teardown(self) -> None:
        """Whatever happened: if the children now do as they are told, all that has to run comes up, or all is gone."""
        if not hasattr(self, "core"):
            return
        for _ in range(200):
            if not self.settle_one():
                break
        else:
            raise AssertionError("the supervisor never comes to rest")
        if self.finished is None:
            assert all(p.is_up and not p.is_asked and not p.is_killed for p in self.alive.values())
            must_run = {child.id for child in self.spec.children if child.restart == Restart.PERMANENT}
            assert must_run - self.terminated <= self.alive.keys()

    def settle_one(self) -> bool:
        for id, process in self.alive.items():
            if process.is_asked or process.is_killed:
                del self.alive[id]
                self.carry_out(self.core.child_down(id, process.incarnation, not process.is_killed, self.now_us))
                return True
            if not process.is_up:
                process.is_up = True
                self.carry_out(self.core.child_ready(id, process.incarnation, self.now_us))
                return True
        return False


TestSupervision = Supervision.TestCase
TestSupervision.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
