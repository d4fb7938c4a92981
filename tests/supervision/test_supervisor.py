"""A supervisor of real processes does what its specs say, whatever its children do."""

import os
import signal
from pathlib import Path
from typing import Any

from parlora_actors import procfs
from parlora_actors.child_spec import AutoShutdown, ChildSpec, Restart, StartWait, Strategy, SupervisorSpec
from tests.supervision.nodes import LaunchedNode, NodeFailed, NodeGone, supervised, wait_for

TROUBLES = "tests.supervision.troubles."


def child(id: str, actor: str = "Quiet", **options: Any) -> ChildSpec:
    return ChildSpec(id, TROUBLES + actor, **options)


def spec(*children: ChildSpec, **options: Any) -> SupervisorSpec:
    return SupervisorSpec(children=children, **options)


def pid_of(node: LaunchedNode, role: str, incarnation: int = 1) -> int:
    return int(node.wait_log("up", role=role, incarnation=incarnation)["pid"])


def roles(node: LaunchedNode, event: str) -> list[str]:
    return [record["role"] for record in node.log(event)]


def test_children_start_in_order_and_stop_in_reverse(tmp_path: Path) -> None:
    with supervised(spec(child("a"), child("b"), child("c")), tmp_path) as node:
        node.ready()
        assert roles(node, "up") == ["a", "b", "c"]
        gone = node.stop()
        assert roles(node, "stopping") == ["c", "b", "a"]
        assert (gone.cause, gone.killed, gone.left) == ("stopped", 0, [])


def test_a_killed_child_is_replaced_and_its_siblings_are_not(tmp_path: Path) -> None:
    with supervised(spec(child("a"), child("b")), tmp_path) as node:
        node.ready()
        first, other = pid_of(node, "a"), pid_of(node, "b")
        os.kill(first, signal.SIGKILL)
        assert pid_of(node, "a", 2) != first
        assert procfs.is_alive(other)
        assert node.wait_log("child_down")["how"] == "SIGKILL"
        assert node.stop().killed == 0


def test_one_for_all_replaces_everybody(tmp_path: Path) -> None:
    with supervised(spec(child("a"), child("b"), child("c"), strategy=Strategy.ONE_FOR_ALL), tmp_path) as node:
        node.ready()
        os.kill(pid_of(node, "b"), signal.SIGKILL)
        for role in "abc":
            pid_of(node, role, 2)
        assert roles(node, "stopping") == ["c", "a"]
        node.stop()


def test_rest_for_one_replaces_those_started_after_it(tmp_path: Path) -> None:
    with supervised(spec(child("a"), child("b"), child("c"), strategy=Strategy.REST_FOR_ONE), tmp_path) as node:
        node.ready()
        os.kill(pid_of(node, "b"), signal.SIGKILL)
        pid_of(node, "b", 2)
        pid_of(node, "c", 2)
        assert roles(node, "stopping") == ["c"]
        assert procfs.is_alive(pid_of(node, "a"))
        node.stop()


def test_all_children_killed_at_the_same_moment_are_all_replaced(tmp_path: Path) -> None:
    """Thespian alone loses some of these deaths."""
    children = [child(f"c{number}") for number in range(6)]
    with supervised(spec(*children, intensity=6, start_wait=StartWait.FORK), tmp_path) as node:
        node.ready()
        for pid in [pid_of(node, each.id) for each in children]:
            os.kill(pid, signal.SIGKILL)
        for each in children:
            pid_of(node, each.id, 2)
        assert node.stop().killed == 0


def test_too_many_failures_end_the_node_and_name_the_child(tmp_path: Path) -> None:
    crashing = child("a", "CrashSoon")
    with supervised(spec(crashing, child("b"), intensity=2), tmp_path) as node:
        node.ready()
        assert node.gone().cause == "root_down"
        assert len(node.log("crash")) == 3
        down = node.log("node_down")[0]
        assert down["exit"]["details"]["child"] == "a"
        assert down["exit"]["reason"] == "intensity"
        assert "secret" not in node.log_path.read_text()


def test_a_crash_names_its_place_and_type_but_not_its_words(tmp_path: Path) -> None:
    with supervised(spec(child("a", "CrashSoon", restart=Restart.TEMPORARY)), tmp_path) as node:
        node.ready()
        crash = node.wait_log("crash")
        assert crash["type"] == "ValueError"
        assert crash["frames"][-1].startswith("troubles.py:")
        assert "secret" not in node.log_path.read_text()
        node.stop()


def test_a_child_that_crashes_on_start_fails_the_node_at_once(tmp_path: Path) -> None:
    with supervised(spec(child("a"), child("b", "CrashOnStart"), child("c")), tmp_path) as node:
        failed = node.next(NodeFailed)
        words = failed.error["details"]["exit"]
        assert (words["reason"], words["details"]["child"]) == ("start_failed", "b")
        assert words["details"]["crash"]["type"] == "RuntimeError"
        assert node.gone().cause == "start_failed"
        assert roles(node, "up") == ["a"]


def test_a_child_that_cannot_be_imported_fails_the_node_at_once(tmp_path: Path) -> None:
    with supervised(spec(ChildSpec("a", "tests.supervision.nowhere.Nobody")), tmp_path) as node:
        words = node.next(NodeFailed).error["details"]["exit"]
        assert words["details"]["child"] == "a"
        assert node.gone().cause == "start_failed"


def test_a_child_that_never_says_hello_fails_the_node_at_its_deadline(tmp_path: Path) -> None:
    with supervised(spec(child("a", "NeverHello", start_ms=100)), tmp_path) as node:
        assert node.next(NodeFailed).error["details"]["exit"]["reason"] == "start_failed"
        node.gone()


def test_a_segfault_ends_the_process_and_is_seen(tmp_path: Path) -> None:
    with supervised(spec(child("a", "Segfault", restart=Restart.TEMPORARY)), tmp_path) as node:
        node.ready()
        assert node.wait_log("child_down")["how"] == "SIGSEGV"
        node.stop()


def test_writing_to_a_pipe_that_nobody_reads_is_an_error_and_no_death(tmp_path: Path) -> None:
    with supervised(spec(child("a", "WriteToNobody", restart=Restart.TEMPORARY)), tmp_path) as node:
        node.ready()
        node.wait_log("nobody_reads")
        assert node.log("child_down") == []
        node.stop()


def test_children_that_ignore_stop_or_block_in_c_are_killed_at_their_deadline(tmp_path: Path) -> None:
    children = (child("a", "IgnoreStop", shutdown=100), child("b", "BlockInC", shutdown=100), child("c"))
    with supervised(spec(*children), tmp_path) as node:
        node.ready()
        pid = pid_of(node, "b")
        wait_for("the block", lambda: Path(f"/proc/{pid}/wchan").exists() and _is_asleep_in_c(pid))
        gone = node.stop()
        assert (gone.cause, gone.left) == ("stopped", [])
        assert roles(node, "ignoring_stop") == ["a"]


def _is_asleep_in_c(pid: int) -> bool:
    return "nanosleep" in Path(f"/proc/{pid}/wchan").read_text() or "sleep" in Path(f"/proc/{pid}/stack").read_text()


def test_the_deadline_of_the_whole_stop_holds_for_children_not_yet_asked(tmp_path: Path) -> None:
    children = [child(f"c{number}", "IgnoreStop", shutdown=60_000) for number in range(3)]
    with supervised(spec(*children), tmp_path) as node:
        node.ready()
        gone = node.stop(within_ms=400)
        assert (gone.cause, gone.left) == ("stopped", [])
        assert roles(node, "ignoring_stop") == ["c2"]


def test_processes_that_forked_away_end_with_the_node(tmp_path: Path) -> None:
    with supervised(spec(child("a", "ForkAway")), tmp_path) as node:
        node.ready()
        forked = node.wait_log("forked")
        below = procfs.descendants(node.process.pid)
        strays = [*forked["children"], *forked["daemons"]]
        assert set(strays) <= set(below)
        node.stop()
        assert not any(procfs.is_alive(pid) for pid in below)


def test_the_end_of_a_significant_child_ends_the_node_in_order(tmp_path: Path) -> None:
    significant = child("b", "FinishSoon", restart=Restart.TEMPORARY, significant=True, init={"after_us": 300_000})
    rules = spec(child("a"), significant, child("c"), auto_shutdown=AutoShutdown.ANY_SIGNIFICANT)
    with supervised(rules, tmp_path) as node:
        node.ready()
        assert node.next(NodeGone).cause == "root_down"
        assert node.log("node_down")[0]["exit"]["reason"] == "auto_shutdown"
        assert roles(node, "stopping") == ["c", "a"]


def test_a_transient_child_that_finished_stays_finished(tmp_path: Path) -> None:
    with supervised(spec(child("a", "FinishSoon", restart=Restart.TRANSIENT), child("b")), tmp_path) as node:
        node.ready()
        node.wait_log("child_down", child="a", how="normal")
        assert procfs.is_alive(pid_of(node, "b"))
        node.stop()
        assert roles(node, "up") == ["a", "b"]


def test_a_child_has_its_own_descriptors_and_no_others(tmp_path: Path) -> None:
    """Standard streams, the log, its link, Thespian's listener and selector: nothing of its siblings' or parents'."""
    children = [child(f"c{number}") for number in range(3)]
    with supervised(spec(*children, child("d", "Descriptors")), tmp_path) as node:
        node.ready()
        open_there = node.wait_log("descriptors")["open"]
        assert len([target for target in open_there.values() if target.startswith("socket:")]) <= 3
        assert not [target for target in open_there.values() if "pidfd" in target or "eventfd" in target]
        assert str(tmp_path / "node.log") in open_there.values()
        node.stop()


def test_sockets_of_dead_actors_are_removed(tmp_path: Path) -> None:
    with supervised(spec(child("a"), intensity=3), tmp_path) as node:
        run_dir = Path(node.ready().run_dir)
        first = pid_of(node, "a")
        assert (run_dir / f"a{first}").is_socket()
        os.kill(first, signal.SIGKILL)
        second = pid_of(node, "a", 2)
        assert not (run_dir / f"a{first}").exists()
        assert (run_dir / f"a{second}").is_socket()
        node.stop()
        assert not run_dir.exists()
