"""The launcher starts a node, ends with its host, and leaves nothing behind, whatever dies."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from parlora_actors import procfs
from parlora_actors.child_spec import ChildSpec, SupervisorSpec
from parlora_actors.run_directory import run_root
from tests.supervision.nodes import LaunchedNode, NodeFailed, node, supervised, wait_for

GONE_S = 4.0
"""Promised is 1 s; the margin is for a busy machine."""

QUIET = SupervisorSpec(children=(ChildSpec("a", "tests.supervision.troubles.Quiet"),))
FORKED = SupervisorSpec(children=(ChildSpec("a", "tests.supervision.troubles.ForkAway"),))


def all_of(node: LaunchedNode) -> list[int]:
    pids = node.pids()
    assert len(pids) >= 6  # keeper, launcher, admin, logger, root, child
    return pids


def admin_of(node: LaunchedNode) -> int:
    return next(pid for pid in procfs.children(node.launcher) if procfs.is_alive(pid))


def assert_all_gone(pids: list[int]) -> None:
    wait_for("everything to be gone", lambda: not any(procfs.is_alive(pid) for pid in pids))


@pytest.mark.parametrize("victim", ["admin", "logger", "root", "host_socket"])
def test_any_one_death_leaves_nothing(victim: str, tmp_path: Path) -> None:
    with supervised(FORKED, tmp_path) as node:
        ready = node.ready()
        node.wait_log("forked")
        pids = all_of(node)
        admin = admin_of(node)
        if victim == "host_socket":
            node.link.close()
        elif victim == "logger":
            logger = next(pid for pid in procfs.children(admin) if pid != ready.root_pid)
            os.kill(logger, signal.SIGKILL)
            wait_for("another logger", lambda: len(_alive(procfs.children(admin)) - {logger}) == 2)
            assert procfs.is_alive(ready.root_pid)
            assert node.stop().left == []
        else:
            os.kill({"admin": admin, "root": ready.root_pid}[victim], signal.SIGKILL)
            gone = node.gone()
            assert (gone.cause, gone.left) == (f"{victim}_down", [])
        assert_all_gone(pids)
        assert not Path(ready.run_dir).exists()


def _alive(pids: list[int]) -> set[int]:
    return {pid for pid in pids if procfs.is_alive(pid)}


@pytest.mark.parametrize("victim", ["keeper", "launcher"])
@pytest.mark.parametrize("with_the_root", [False, True], ids=["alone", "and_the_root"])
def test_keeper_and_launcher_see_each_others_death(victim: str, with_the_root: bool, tmp_path: Path) -> None:
    """What the dead one would have killed, daemons that forked away too, the other one kills, within a second."""
    with supervised(FORKED, tmp_path) as node:
        ready = node.ready()
        node.wait_log("forked")
        pids = all_of(node)
        victims = [node.process.pid if victim == "keeper" else node.launcher]
        victims += [ready.root_pid] if with_the_root else []
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        wait_for("everything to be gone", lambda: not _alive(pids), GONE_S)
        wait_for("its directory to be gone", lambda: not os.path.exists(ready.run_dir), GONE_S)


def test_a_stopped_launcher_is_killed_with_its_node(tmp_path: Path) -> None:
    with supervised(FORKED, tmp_path) as node:
        run_dir = node.ready().run_dir
        node.wait_log("forked")
        pids = all_of(node)
        os.kill(node.launcher, signal.SIGSTOP)
        wait_for("everything to be gone", lambda: not _alive(pids), 5)
        wait_for("its directory to be gone", lambda: not os.path.exists(run_dir), GONE_S)


def test_what_both_leave_behind_the_next_node_removes(tmp_path: Path) -> None:
    """Each actor dies with its parent, so daemons that forked away are all that can be left."""
    with supervised(QUIET, tmp_path) as first:
        left = Path(first.ready().run_dir)
        pids = all_of(first)
        for pid in (first.process.pid, first.launcher):
            os.kill(pid, signal.SIGSTOP)
        for pid in (first.launcher, first.process.pid):
            os.kill(pid, signal.SIGKILL)
        assert_all_gone(pids)
        assert left.exists()
    with supervised(QUIET, tmp_path) as second:
        second.ready()
        assert not left.exists()
        second.stop()
    assert os.listdir(run_root()) == []


def test_a_host_that_dies_takes_the_node_with_it(tmp_path: Path) -> None:
    program = (
        "import sys, os, signal\n"
        "from pathlib import Path\n"
        "from tests.supervision.nodes import supervised\n"
        "from tests.supervision.test_launcher import FORKED\n"
        "with supervised(FORKED, Path(sys.argv[1])) as node:\n"
        "    node.ready(); node.wait_log('forked')\n"
        "    print(*node.pids(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[2]
    host = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": f"{root}:{root / 'actors'}"},
        stdout=subprocess.PIPE,
        timeout=30,
    )
    assert host.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in host.stdout.split()]
    assert len(pids) >= 5
    assert_all_gone(pids)


def test_sigterm_stops_the_node_in_order(tmp_path: Path) -> None:
    with supervised(QUIET, tmp_path) as node:
        node.ready()
        node.process.terminate()
        assert node.gone().cause == "stopped"
        assert node.log("stopping")


def test_a_stuck_root_is_killed_at_the_deadline(tmp_path: Path) -> None:
    with supervised(FORKED, tmp_path) as node:
        ready = node.ready()
        node.wait_log("forked")
        pids = all_of(node)
        os.kill(ready.root_pid, signal.SIGSTOP)
        gone = node.stop(within_ms=500)
        assert (gone.cause, gone.left) == ("stopped", [])
        assert_all_gone(pids)


def test_a_root_that_is_no_actor_is_refused(tmp_path: Path) -> None:
    with node("os.path", {}, tmp_path) as launched:
        assert launched.next(NodeFailed).error["code"] == "invalid_argument"
        assert launched.gone().cause == "start_failed"


def test_a_preload_that_fails_is_named(tmp_path: Path) -> None:
    with supervised(QUIET, tmp_path, preload=["tests.supervision.nowhere"]) as launched:
        error = launched.next(NodeFailed).error
        assert error["details"]["field"] == "preload"
        assert "tests.supervision.nowhere" in error["message"]
        launched.gone()


def test_a_preload_that_exits_is_named(tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text("raise SystemExit(3)")
    with supervised(QUIET, tmp_path, preload=["exits"]) as launched:
        error = launched.next(NodeFailed).error
        assert error["details"]["field"] == "preload"
        assert "cannot import exits: SystemExit: 3" in error["message"]
        launched.gone()


def test_a_preload_that_leaves_a_thread_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "leaves_a_thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    )
    with supervised(QUIET, tmp_path, preload=["leaves_a_thread"]) as launched:
        error = launched.next(NodeFailed).error
        assert error["code"] == "unsupported"
        assert error["details"]["field"] == "preload"
        assert "leaves_a_thread" in error["message"]
        launched.gone()


def test_the_node_gets_the_hosts_surroundings_but_for_what_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PARLORA_TEST_KEPT", "1")
    monkeypatch.setenv("PARLORA_TEST_DROPPED", "1")
    root_init = {"names": ["PARLORA_TEST_KEPT", "PARLORA_TEST_DROPPED", "OPENBLAS_NUM_THREADS"]}
    options = {"cwd": str(tmp_path), "env_drop": ["PARLORA_TEST_DROPPED"]}
    with node("tests.supervision.troubles.Surroundings", root_init, tmp_path, **options) as launched:
        launched.ready()
        seen = launched.wait_log("surroundings")
        assert seen["cwd"] == str(tmp_path)
        assert seen["environment"] == {"PARLORA_TEST_KEPT": "1", "OPENBLAS_NUM_THREADS": "1"}
        assert seen["soft_limit"] >= min(65_536, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        assert seen["session"] == launched.process.pid or seen["session"] != os.getsid(0)
        launched.stop()


def test_the_main_file_is_loaded_under_another_name(tmp_path: Path) -> None:
    main = tmp_path / "app.py"
    main.write_text("class Marker: pass\nif __name__ == '__main__':\n    raise SystemExit('ran as main')\n")
    root_init = {"module": "__main__", "attribute": "Marker"}
    with node("tests.supervision.troubles.Surroundings", root_init, tmp_path, main_path=str(main)) as launched:
        launched.ready()
        assert launched.wait_log("surroundings")["has_attribute"] is True
        launched.stop()


def test_two_nodes_of_one_host_do_not_meet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with supervised(QUIET, tmp_path / "a") as first, supervised(QUIET, tmp_path / "b") as second:
        assert first.ready().run_dir != second.ready().run_dir
        first.stop()
        assert procfs.is_alive(second.process.pid)
        second.stop()


def test_a_launcher_whose_host_never_speaks_ends_when_it_hangs_up() -> None:
    import socket

    ours, theirs = socket.socketpair()
    root = Path(__file__).parents[2]
    process = subprocess.Popen(
        [sys.executable, "-m", "parlora_actors.keeper", "--fd", str(theirs.fileno()), "--host", str(os.getpid())],
        pass_fds=[theirs.fileno()],
        env=os.environ | {"PYTHONPATH": f"{root}:{root / 'actors'}"},
    )
    theirs.close()
    ours.close()
    assert process.wait(15) == 0
