"""Where a cgroup can be made it kills first, holds nobody but those to kill, and goes with its session and node."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from parlora_actors import cgroup, procfs
from parlora_actors.host import ActorHost
from tests.misbehaving import DAEMON
from tests.sessions import MISBEHAVING, Call, wait_for


@pytest.fixture
def groups(tmp_path: Path) -> None:
    """There are groups."""
    if not cgroup.make_for_node(str(tmp_path)):
        pytest.skip("no cgroup of our own can be made here")
    cgroup.remove_for_node(str(tmp_path))


@pytest.mark.usefixtures("groups")
def test_a_session_has_a_group_of_its_own_and_nothing_stays() -> None:
    with ActorHost() as node:
        session = Call(node, backend=f"{MISBEHAVING}:WithDescendants").ready()
        assert node.run_dir is not None
        own = Path(str(cgroup._path_for(node.run_dir)))
        (group,) = own.glob("s*")
        inside = {int(pid) for pid in (group / "cgroup.procs").read_text().split()}
        assert inside == set(session.below()) - {session.pid("coordinator")}
        session.end()
        wait_for("the end of the session's group", lambda: not group.exists())
        killed = Call(node, backend=f"{MISBEHAVING}:WithDescendants").ready()
        below = killed.below()
        os.kill(killed.supervisor, signal.SIGKILL)
        killed.closed()
        assert not any(procfs.is_alive(pid) for pid in below)
        assert not list(own.glob("s*"))
    assert not own.exists()


@pytest.mark.usefixtures("groups")
def test_what_a_dead_node_left_in_its_group_is_killed_before_its_directory_goes(tmp_path: Path) -> None:
    """Keeper and launcher killed together leave daemons that forked away; their group still names them."""
    assert cgroup.make_for_node(str(tmp_path))
    group = cgroup.make_for_session()
    assert group is not None
    stray = subprocess.Popen([sys.executable, "-S", "-c", DAEMON], start_new_session=True)
    Path(group, "cgroup.procs").write_text(str(stray.pid))
    cgroup.remove_for_node(str(tmp_path))
    assert stray.wait(5) == -signal.SIGKILL
    assert not Path(group).exists()


def test_nothing_is_asked_of_a_machine_without_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cgroup, "home", lambda: None)
    assert not cgroup.make_for_node(str(tmp_path))
    assert cgroup.make_for_session() is None
    assert cgroup.kill(str(tmp_path)) == 0
    cgroup.remove_for_node(str(tmp_path))
