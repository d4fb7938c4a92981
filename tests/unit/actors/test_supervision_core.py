"""The supervisor's decisions against the documented behaviour of OTP's supervisor, in virtual time."""

from typing import Any

import pytest

from parlora.errors import Conflict, InvalidArgument, NotFound
from parlora_actors.child_spec import AutoShutdown, ChildSpec, Restart, StartWait, StopOrder, Strategy, SupervisorSpec
from parlora_actors.supervision_actions import Action, Dropped, Finish, Finished, Kill, Start, Started, Stop
from parlora_actors.supervision_core import SupervisionCore

SECOND_US = 1_000_000


def child(id: str, restart: Restart = Restart.PERMANENT, **options: Any) -> ChildSpec:
    return ChildSpec(id, "tests.Nobody", restart=restart, **options)


def core_of(*children: ChildSpec, **options: Any) -> SupervisionCore:
    return SupervisionCore(SupervisorSpec(children=children, **options))


def brief(actions: list[Action]) -> list[str]:
    """Actions as words: `start a1` is the first incarnation of child a."""
    words = []
    for action in actions:
        match action:
            case Start():
                words.append(f"start {action.child.id}{action.incarnation}")
            case Stop():
                words.append(f"stop {action.child_id}{action.incarnation}")
            case Kill():
                words.append(f"kill {action.child_id}{action.incarnation}")
            case Started():
                words.append("started")
            case Dropped():
                words.append(f"dropped {action.child_id}{' never up' if action.never_up else ''}")
            case Finished():
                words.append(f"finished {action.reason} {action.child_id}")
    return words


def running(*children: ChildSpec, **options: Any) -> SupervisionCore:
    """A core whose children are all up."""
    core = core_of(*children, **options)
    actions = core.begin(0)
    while starts := [action for action in actions if isinstance(action, Start)]:
        actions = [each for start in starts for each in core.child_ready(start.child.id, start.incarnation, 0)]
    assert actions == [Started()] or not children
    return core


ABC = (child("a"), child("b"), child("c"))


# Starting


def test_each_child_starts_after_the_hello_of_the_one_before() -> None:
    core = core_of(*ABC)
    assert brief(core.begin(0)) == ["start a1"]
    assert brief(core.child_ready("a", 1, 1)) == ["start b1"]
    assert brief(core.child_ready("b", 1, 2)) == ["start c1"]
    assert brief(core.child_ready("c", 1, 3)) == ["started"]


def test_without_waiting_all_start_at_once_in_order() -> None:
    core = core_of(*ABC, start_wait=StartWait.FORK)
    assert brief(core.begin(0)) == ["start a1", "start b1", "start c1"]
    assert core.child_ready("b", 1, 1) == []
    assert core.child_ready("a", 1, 1) == []
    assert brief(core.child_ready("c", 1, 1)) == ["started"]


def test_a_supervisor_without_children_is_started_at_once() -> None:
    assert brief(core_of().begin(0)) == ["started"]


def test_a_failed_start_stops_those_that_run_in_reverse_and_fails_the_supervisor() -> None:
    core = core_of(*ABC)
    core.begin(0)
    core.child_ready("a", 1, 0)
    core.child_ready("b", 1, 0)
    assert brief(core.child_down("c", 1, False, 0)) == ["stop b1"]
    assert brief(core.child_down("b", 1, True, 0)) == ["stop a1"]
    assert brief(core.child_down("a", 1, True, 0)) == ["finished start_failed c"]


def test_an_overdue_start_is_killed_and_fails_the_supervisor() -> None:
    core = core_of(child("a", start_ms=100))
    (start,) = core.begin(0)
    assert isinstance(start, Start)
    assert start.deadline_us == 100_000
    assert brief(core.start_overdue("a", 1, 100_000)) == ["kill a1"]
    assert brief(core.child_down("a", 1, False, 100_001)) == ["finished start_failed a"]


# Restarting


@pytest.mark.parametrize(
    ("restart", "is_normal", "expected"),
    [
        (Restart.PERMANENT, True, ["start b2"]),
        (Restart.PERMANENT, False, ["start b2"]),
        (Restart.TRANSIENT, True, []),
        (Restart.TRANSIENT, False, ["start b2"]),
        (Restart.TEMPORARY, True, ["dropped b"]),
        (Restart.TEMPORARY, False, ["dropped b"]),
    ],
)
def test_who_is_restarted_after_which_end(restart: Restart, is_normal: bool, expected: list[str]) -> None:
    core = running(child("a"), child("b", restart), child("c"))
    assert brief(core.child_down("b", 1, is_normal, 0)) == expected


def test_one_for_all_stops_the_others_in_reverse_and_starts_all_in_order() -> None:
    core = running(*ABC, strategy=Strategy.ONE_FOR_ALL)
    assert brief(core.child_down("b", 1, False, 0)) == ["stop c1"]
    assert brief(core.child_down("c", 1, True, 0)) == ["stop a1"]
    assert brief(core.child_down("a", 1, True, 0)) == ["start a2"]
    assert brief(core.child_ready("a", 2, 0)) == ["start b2"]
    assert brief(core.child_ready("b", 2, 0)) == ["start c2"]
    assert core.child_ready("c", 2, 0) == []


def test_rest_for_one_leaves_those_before_alone() -> None:
    core = running(*ABC, strategy=Strategy.REST_FOR_ONE)
    assert brief(core.child_down("b", 1, False, 0)) == ["stop c1"]
    assert brief(core.child_down("c", 1, True, 0)) == ["start b2"]
    assert brief(core.child_ready("b", 2, 0)) == ["start c2"]


def test_a_temporary_sibling_is_stopped_by_one_for_all_and_not_started_again() -> None:
    core = running(child("a"), child("b", Restart.TEMPORARY), strategy=Strategy.ONE_FOR_ALL)
    assert brief(core.child_down("a", 1, False, 0)) == ["stop b1"]
    assert brief(core.child_down("b", 1, True, 0)) == ["dropped b", "start a2"]


def test_a_transient_child_that_finished_is_started_again_with_its_siblings() -> None:
    core = running(child("a"), child("b", Restart.TRANSIENT), strategy=Strategy.ONE_FOR_ALL)
    core.child_down("b", 1, True, 0)
    assert brief(core.child_down("a", 1, False, 0)) == ["start a2"]
    assert brief(core.child_ready("a", 2, 0)) == ["start b2"]


def test_a_sibling_that_dies_while_it_waits_to_be_stopped_counts_for_nothing() -> None:
    core = running(*ABC, strategy=Strategy.ONE_FOR_ALL, intensity=1)
    assert brief(core.child_down("a", 1, False, 0)) == ["stop c1"]
    assert core.child_down("c", 1, False, 0) == [Stop("b", 1, 5 * SECOND_US)]
    assert brief(core.child_down("b", 1, False, 0)) == ["start a2"]


def test_a_failed_start_in_a_restart_counts_and_is_tried_again() -> None:
    core = running(child("a"), intensity=2)
    assert brief(core.child_down("a", 1, False, 0)) == ["start a2"]
    assert brief(core.child_down("a", 2, False, 1)) == ["start a3"]
    assert brief(core.child_down("a", 3, False, 2)) == ["finished intensity a"]


# Intensity


def test_one_restart_more_than_the_intensity_within_the_period_gives_up() -> None:
    core = running(child("a"), child("b"), intensity=1, period_ms=5_000)
    assert brief(core.child_down("a", 1, False, 0)) == ["start a2"]
    core.child_ready("a", 2, 0)
    assert brief(core.child_down("a", 2, False, 5 * SECOND_US)) == ["stop b1"]
    assert brief(core.child_down("b", 1, True, 5 * SECOND_US)) == ["finished intensity a"]


def test_a_restart_older_than_the_period_is_forgotten() -> None:
    core = running(child("a"), intensity=1, period_ms=5_000)
    core.child_down("a", 1, False, 0)
    core.child_ready("a", 2, 0)
    assert brief(core.child_down("a", 2, False, 5 * SECOND_US + 1)) == ["start a3"]


def test_intensity_zero_allows_no_restart() -> None:
    core = running(child("a"), intensity=0)
    assert brief(core.child_down("a", 1, False, 0)) == ["finished intensity a"]


def test_a_replacement_that_was_asked_for_does_not_count() -> None:
    core = running(child("a", Restart.TEMPORARY), intensity=0)
    for incarnation in range(1, 6):
        assert brief(core.replace("a", 0)) == [f"kill a{incarnation}"]
        assert brief(core.child_down("a", incarnation, False, 0)) == [f"start a{incarnation + 1}"]
        core.child_ready("a", incarnation + 1, 0)


def test_an_unresponsive_child_is_killed_and_counts() -> None:
    core = running(child("a"), intensity=0)
    assert brief(core.unresponsive("a", 1, 0)) == ["kill a1"]
    assert brief(core.child_down("a", 1, False, 0)) == ["finished intensity a"]


# Significance


def significant(id: str, restart: Restart = Restart.TEMPORARY) -> ChildSpec:
    return child(id, restart, significant=True)


def test_any_significant_end_stops_the_supervisor() -> None:
    core = running(child("a"), significant("b"), child("c"), auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    assert brief(core.child_down("b", 1, False, 0)) == ["dropped b", "stop c1"]
    assert brief(core.child_down("c", 1, True, 0)) == ["stop a1"]
    assert brief(core.child_down("a", 1, True, 0)) == ["finished auto_shutdown b"]


def test_all_significant_waits_for_the_last_of_them() -> None:
    core = running(significant("a"), significant("b"), auto_shutdown=AutoShutdown.ALL_SIGNIFICANT)
    assert brief(core.child_down("a", 1, False, 0)) == ["dropped a"]
    assert brief(core.child_down("b", 1, True, 0)) == ["dropped b", "finished auto_shutdown b"]


def test_a_significant_transient_child_that_is_restarted_has_not_ended() -> None:
    core = running(significant("a", Restart.TRANSIENT), auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    assert brief(core.child_down("a", 1, False, 0)) == ["start a2"]
    core.child_ready("a", 2, 0)
    assert brief(core.child_down("a", 2, True, 0)) == ["finished auto_shutdown a"]


def test_being_terminated_by_the_supervisor_is_no_significant_end() -> None:
    core = running(significant("a"), child("b"), auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    assert brief(core.terminate_child("a", 0)) == ["stop a1"]
    assert brief(core.child_down("a", 1, True, 0)) == ["dropped a"]
    assert not core.is_stopping


def test_significance_needs_a_fitting_supervisor_and_restart() -> None:
    with pytest.raises(InvalidArgument, match="auto_shutdown"):
        SupervisorSpec(children=(significant("a"),))
    with pytest.raises(InvalidArgument, match="permanent"):
        significant("a", Restart.PERMANENT)


# Stopping


def test_a_child_that_overstays_is_killed() -> None:
    core = running(child("a", shutdown=100))
    assert core.stop(None, 0) == [Stop("a", 1, 100_000)]
    assert brief(core.stop_overdue("a", 1, 100_000)) == ["kill a1"]
    assert brief(core.child_down("a", 1, False, 100_001)) == ["finished stopped None"]


def test_brutal_kill_asks_nobody() -> None:
    assert brief(running(child("a", shutdown="brutal_kill")).stop(None, 0)) == ["kill a1"]


def test_infinity_has_the_deadline_of_the_stop_or_none() -> None:
    assert running(child("a", shutdown="infinity")).stop(None, 0) == [Stop("a", 1, None)]
    assert running(child("a", shutdown="infinity")).stop(700, 0) == [Stop("a", 1, 700)]


def test_the_deadline_of_the_stop_bounds_every_childs_own() -> None:
    core = running(child("a"), child("b"))
    assert core.stop(SECOND_US, 0) == [Stop("b", 1, SECOND_US)]
    assert core.deadline_us == SECOND_US
    assert brief(core.deadline_passed(SECOND_US)) == ["kill b1", "kill a1"]
    assert core.child_down("a", 1, False, SECOND_US) == []
    assert brief(core.child_down("b", 1, False, SECOND_US)) == ["finished stopped None"]


def test_together_stops_all_at_once() -> None:
    assert brief(running(*ABC, stop_order=StopOrder.TOGETHER).stop(None, 0)) == ["stop c1", "stop b1", "stop a1"]


def test_a_second_stop_only_moves_the_deadline_nearer() -> None:
    core = running(child("a"))
    core.stop(2 * SECOND_US, 0)
    assert core.stop(3 * SECOND_US, 1) == []
    assert core.stop(SECOND_US, 1) == [Stop("a", 1, SECOND_US)]
    assert core.deadline_us == SECOND_US


def test_a_stop_while_starting_stops_what_was_started() -> None:
    core = core_of(*ABC)
    core.begin(0)
    assert brief(core.stop(None, 0)) == ["stop a1"]
    assert core.child_ready("a", 1, 0) == []
    assert brief(core.child_down("a", 1, True, 0)) == ["finished stopped None"]


def test_a_give_up_has_the_supervisors_own_bound() -> None:
    core = running(child("a"), child("b"), intensity=0, stop_ms=200)
    assert core.child_down("a", 1, False, 0) == [Stop("b", 1, 200_000)]
    assert core.deadline_us == 200_000


# Dynamic children


def test_a_child_is_added_started_terminated_restarted_and_deleted() -> None:
    core = running()
    assert brief(core.start_child(child("d"), 0)) == ["start d1"]
    core.child_ready("d", 1, 0)
    assert brief(core.terminate_child("d", 0)) == ["stop d1"]
    assert core.child_down("d", 1, True, 0) == []
    assert brief(core.restart_child("d", 0)) == ["start d2"]
    with pytest.raises(Conflict):
        core.delete_child("d")
    core.terminate_child("d", 0)
    core.child_down("d", 2, True, 0)
    core.delete_child("d")
    with pytest.raises(NotFound):
        core.terminate_child("d", 0)


def test_a_dynamic_child_that_fails_its_first_start_is_dropped_and_counts_for_nothing() -> None:
    core = running(child("a"), intensity=0)
    core.start_child(child("d"), 0)
    assert brief(core.child_down("d", 1, False, 0)) == ["dropped d never up"]
    assert not core.is_stopping
    assert brief(core.start_child(child("d"), 0)) == ["start d1"]


def test_an_id_is_used_once() -> None:
    with pytest.raises(Conflict):
        running(child("a")).start_child(child("a"), 0)
    with pytest.raises(InvalidArgument):
        SupervisorSpec(children=(child("a"), child("a")))


def test_nothing_starts_while_stopping() -> None:
    core = running(child("a"))
    core.stop(None, 0)
    with pytest.raises(Conflict):
        core.start_child(child("b"), 0)
    assert core.replace("a", 0) == []


def test_news_of_another_incarnation_is_ignored() -> None:
    core = running(child("a"), intensity=5)
    core.child_down("a", 1, False, 0)
    assert core.child_down("a", 1, False, 0) == []
    assert core.child_ready("a", 1, 0) == []
    assert core.stop_overdue("a", 1, 0) == []
    assert core.unresponsive("a", 1, 0) == []
    assert core.child_ready("b", 1, 0) == []


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"id": ""}, "id"),
        ({"actor": "Nobody"}, "actor"),
        ({"shutdown": 0}, "shutdown"),
        ({"shutdown": "later"}, "shutdown"),
        ({"start_ms": 0}, "start_ms"),
    ],
)
def test_a_misfit_child_spec_is_refused_by_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        ChildSpec(**({"id": "a", "actor": "tests.Nobody"} | options))
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(("options", "field"), [({"intensity": -1}, "intensity"), ({"period_ms": 0}, "period_ms")])
def test_a_misfit_supervisor_spec_is_refused_by_field(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        SupervisorSpec(**options)
    assert refused.value.details["field"] == field


def test_finish_reasons_are_stable_words() -> None:
    assert [reason.value for reason in Finish] == ["stopped", "start_failed", "intensity", "auto_shutdown"]
