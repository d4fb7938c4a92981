"""`make setup` names each thing that the machine lacks, with the Debian package that brings it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def prerequisites(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    command = ["/bin/sh", str(ROOT / ".ci" / "prerequisites"), *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with nothing on it but what the script itself needs."""
    for tool in ("mktemp", "rm"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    return str(tmp_path)


def test_a_complete_machine_lacks_nothing() -> None:
    result = prerequisites(sys.executable)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_every_missing_thing_is_named_with_its_package(bare_path: str) -> None:
    result = prerequisites("python3", PATH=bare_path)

    assert result.returncode == 1
    for package in ("python3", "python3-venv", "python3-dev", "gcc", "make"):
        assert f"(Debian/Ubuntu package: {package})" in result.stderr
    assert result.stderr.splitlines()[-1].endswith(
        "apt-get install python3 python3-venv python3-dev gcc libc6-dev make"
    )


def test_an_old_python_is_named_with_its_version(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text('#!/bin/sh\ncase "$2" in *print*) echo 3.9 ;; *) exit 1 ;; esac\n')
    old.chmod(0o755)
    result = prerequisites(str(old))
    assert result.returncode == 1
    assert "missing Python 3.11 or newer" in result.stderr
    assert "is 3.9; name another with PYTHON=..." in result.stderr


def test_a_compiler_that_cannot_build_lacks_the_headers() -> None:
    result = prerequisites("--packages", sys.executable, CC="false")
    assert (result.returncode, result.stdout) == (0, "libc6-dev\n")


def test_the_packages_of_a_named_python_are_its_own(tmp_path: Path) -> None:
    named = tmp_path / "python3.99"
    named.write_text('#!/bin/sh\ncase "$2" in *print*) echo 3.99 ;; *version_info*) exit 0 ;; *) exit 1 ;; esac\n')
    named.chmod(0o755)
    assert prerequisites("--packages", str(named)).stdout == "python3.99-venv python3.99-dev\n"
