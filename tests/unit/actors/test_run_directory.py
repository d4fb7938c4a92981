"""A run directory is private, locked while its node lives, and removed by whoever finds it stale."""

import os
import stat
from pathlib import Path

import pytest

from parlora.errors import InvalidArgument, Unsupported
from parlora_actors.run_directory import RunDirectory, remove_stale, run_root


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
