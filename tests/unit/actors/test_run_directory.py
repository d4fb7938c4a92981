"""A run directory is private, locked while its node lives, and removed by whoever finds it stale."""

import os
import stat
from pathlib import Path

import pytest

from parlora.errors import InvalidArgument, Unsupported
from parlora_actors.run_directory import RunDirectory, remove_dead, remove_stale, run_root


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "parlora"


def test_it_is_private_and_short(root: Path) -> None:
    directory = RunDirectory.create()
    found = os.stat(directory.path)
    assert stat.S_IMODE(found.st_mode) == 0o700
    assert Path(directory.path).parent == root
    assert len(Path(directory.path).name) == 8
    directory.remove()
    assert os.listdir(root) == []


def test_a_stale_one_is_removed_and_a_living_one_is_not(root: Path) -> None:
    living = RunDirectory.create()
    stale = root / "deadbeef"
    stale.mkdir(mode=0o700)
    (stale / "lock").touch()
    (stale / "node.log").write_text("old")
    other = RunDirectory.create()
    assert sorted(os.listdir(root)) == sorted([Path(living.path).name, Path(other.path).name])
    assert remove_stale(str(root)) == []
    living.remove()
    other.remove()


STRANGERS = ("documents", "deadbeef00", "DEADBEEF", "cafe0001", "cafe0002")


def strangers(parent: Path) -> list[Path]:
    """Directories that are no node's: by their names, by the lack of a lock, or by what lies in them."""
    for name in STRANGERS:
        (parent / name).mkdir()
        (parent / name / "precious").touch()
    for name in ("documents", "deadbeef00", "DEADBEEF"):
        (parent / name / "lock").touch()
    (parent / "cafe0002" / "lock").mkdir()
    return [parent / name / "precious" for name in STRANGERS]


def test_what_is_no_nodes_directory_is_never_removed_wherever_one_looks(tmp_path: Path) -> None:
    kept = strangers(tmp_path)
    assert remove_stale(str(tmp_path)) == []
    for precious in kept:
        assert remove_dead(str(precious.parent)) is False
    assert all(precious.exists() for precious in kept)


def test_removing_one_dead_node_touches_nothing_beside_it(tmp_path: Path) -> None:
    kept = strangers(tmp_path)
    for name in ("00000001", "00000002"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
    assert remove_dead(str(tmp_path / "00000001")) is True
    assert sorted(os.listdir(tmp_path)) == sorted([*STRANGERS, "00000002"])
    assert all(precious.exists() for precious in kept)
    assert not (tmp_path / "documents" / "node.log").exists()


def test_an_empty_one_whose_maker_died_at_once_is_removed(tmp_path: Path) -> None:
    (tmp_path / "00000001").mkdir()
    assert remove_stale(str(tmp_path)) == [str(tmp_path / "00000001")]


def test_a_living_node_is_not_dead(root: Path) -> None:
    living = RunDirectory.create()
    assert remove_dead(living.path) is False
    living.remove()
    assert remove_dead(living.path) is True


def test_a_link_in_its_place_is_not_followed(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.mkdir(mode=0o700)
    (target / "file").touch()
    root.mkdir(mode=0o700)
    (root / "link").symlink_to(target)
    RunDirectory.create().remove()
    assert (target / "file").exists()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_a_parent_open_to_others_is_refused(root: Path, mode: int) -> None:
    root.mkdir()
    root.chmod(mode)
    with pytest.raises(Unsupported, match="open to others"):
        RunDirectory.create()


def test_a_parent_that_is_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Unsupported, match="not a directory"):
        RunDirectory.create()


def test_a_path_too_long_for_sockets_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("x" * 90)
    long.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long))
    with pytest.raises(InvalidArgument, match="too long"):
        RunDirectory.create()


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_parent_of_another_user_is_refused(root: Path) -> None:
    root.mkdir(mode=0o700)
    os.chown(root, 65_534, 65_534)
    with pytest.raises(Unsupported, match="belongs to user 65534"):
        RunDirectory.create()


def test_without_a_runtime_directory_it_is_below_tmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert run_root() == f"/tmp/parlora-{os.getuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/nowhere/at/all")
    assert run_root() == f"/tmp/parlora-{os.getuid()}"
