"""What the targets of the Makefile would do, read from a dry run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HANDED_DOWN = {"MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTHON", "ARGS", "VENV"}


def dry_run(*arguments: str) -> str:
    command = ["make", "--no-print-directory", "--dry-run", *arguments]
    # Without what an outer `make test PYTHON=...` hands down.
    environment = {name: value for name, value in os.environ.items() if name not in HANDED_DOWN}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("target", ["demo", "test", "lint", "bench", "acceptance"])
def test_every_target_makes_sure_of_the_environment_first(target: str) -> None:
    assert dry_run("--always-make", target).startswith("sh .ci/prerequisites 'python3'\n")


def test_a_changed_c_source_is_built_again() -> None:
    changed = dry_run("--what-if=native/ring.h", "setup")
    assert "build_ext --inplace" in changed


def test_a_changed_dependency_is_installed() -> None:
    assert "sh .ci/install" in dry_run("--what-if=pyproject.toml", "setup")


def test_another_python_has_an_environment_of_its_own() -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f".venv-{version}/bin/python -m pytest" in dry_run("test", f"PYTHON={sys.executable}")


def test_the_demo_says_that_it_chooses_the_gpl() -> None:
    assert "GPL-3.0-or-later" in dry_run("demo")


def test_ci_runs_lint_and_test() -> None:
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "make lint test"
