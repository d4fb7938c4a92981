"""`doctor` says what is there, what is not and how to get it, and starts nothing."""

from __future__ import annotations

import json
import resource
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from parlora_actors import doctor, platform_check
from parlora_actors.cli_exit import ExitCode
from parlora_actors.doctor import Status
from parlora_actors.extras import EXTRAS

from .conftest import Outcome

ROOT = Path(__file__).parents[2]
FOR_DEVELOPERS = {"test"}


def checks_by_name() -> dict[str, doctor.Check]:
    return {check.name: check for check in doctor.examine()}


def test_a_machine_that_runs_these_tests_can_run_a_node(cli: Callable[..., Outcome]) -> None:
    outcome = cli("doctor", "--json")
    told = json.loads(outcome.out)
    assert (outcome.code, told["ok"]) == (ExitCode.OK, True)
    names = {check["name"] for check in told["checks"]}
    assert names >= {
        "kernel",
        "pidfd",
        "memfd_seals",
        "close_range",
        "subreaper",
        "cgroup_kill",
        "open_files",
        "real_time",
    }
    assert all(check["status"] == "ok" or check["advice"] for check in told["checks"])


def test_people_read_the_same(cli: Callable[..., Outcome]) -> None:
    out = cli("doctor").out
    for check in doctor.examine():
        assert f"{check.name.replace('_', ' ')}: " in out
    for extra in EXTRAS:
        assert f"{extra.name}: {extra.gives}" in out
    assert "GPL-3.0-or-later" in out


def test_an_old_kernel_is_missing_and_exit_code_3(cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform_check, "MIN_KERNEL", (99, 0))
    outcome = cli("doctor")
    assert outcome.code == ExitCode.SYSTEM
    assert "a node cannot run here: kernel" in outcome.out
    assert "Traceback" not in outcome.err


def test_a_feature_that_the_kernel_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise OSError("no such call")

    monkeypatch.setattr(doctor.os, "pidfd_open", refuse)
    checks = checks_by_name()
    assert checks["pidfd"].status is Status.MISSING
    assert checks["ancestry_walk"].status is Status.MISSING
    assert not doctor.can_run_a_node(list(checks.values()))


@pytest.mark.parametrize(("hard", "status"), [(4_095, Status.MISSING), (4_096, Status.OK)])
def test_too_few_descriptors_are_missing(monkeypatch: pytest.MonkeyPatch, hard: int, status: Status) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (min(hard, 1_024), hard))
    check = checks_by_name()["open_files"]
    assert check.status is status
    assert check.found == f"1,024 of {hard:,}"


def test_refused_real_time_scheduling_only_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "request_realtime", lambda: False)
    check = checks_by_name()["real_time"]
    assert (check.status, check.found) == (Status.LIMITED, "refused")
    assert doctor.can_run_a_node(doctor.examine())


def test_an_extra_that_is_not_installed_comes_with_its_install_line(
    cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    from parlora_actors import cli_doctor

    monkeypatch.setattr(cli_doctor, "installed_version", lambda package: None)
    extras = {extra["name"]: extra for extra in json.loads(cli("doctor", "--json").out)["extras"]}
    assert extras["offline"]["installed"] is False
    assert extras["offline"]["install"] == "pip install 'parlora[offline]'"


def test_the_extras_are_those_that_the_project_declares() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = {name: [part.split(">")[0].split("=")[0] for part in parts] for name, parts in declared.items()}
    assert {extra.name: [part.package for part in extra.parts] for extra in EXTRAS} == {
        name: parts for name, parts in names.items() if name not in FOR_DEVELOPERS
    }


def test_every_part_of_an_extra_is_on_the_page_of_licences() -> None:
    page = (ROOT / "docs" / "licences.md").read_text().lower()
    assert [part.package for extra in EXTRAS for part in extra.parts if part.package not in page] == []
