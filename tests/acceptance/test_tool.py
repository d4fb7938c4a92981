"""The acceptance tool counts passed tests only, refuses unknown rows, and ends with one JSON line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.__main__ import report, summary
from tests.acceptance.results import Results, TestResult, proven_rows, read_results, source_digest, write_results
from tests.acceptance.table import ROOT, read_table


def test_the_table_has_760_rows_in_39_groups_with_stable_ids() -> None:
    table = read_table()
    assert len(table) == 760
    assert len({row.group for row in table.values()}) == 39
    assert table["SL-03"].source == "000 §5, §9"


def test_a_row_that_stands_twice_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "table.md"
    path.write_text("| SL-01 | one | 000 §1 |\n| SL-01 | two | 000 §1 |\n")
    with pytest.raises(ValueError, match="SL-01 stands twice"):
        read_table(path)


def test_only_passed_tests_prove_a_row_and_a_failed_one_takes_it_away() -> None:
    tests = [
        TestResult("test_a", ("SL-01", "SL-02"), "passed"),
        TestResult("test_b", ("SL-02", "SL-03"), "failed"),
        TestResult("test_c", ("SL-01", "SL-04"), "skipped"),
        TestResult("test_d", ("SL-01",), "passed"),
    ]
    assert proven_rows(tests) == {"SL-01": ["test_a", "test_d"]}


def test_the_report_names_each_row_and_the_summary_counts_them() -> None:
    table = {name: row for name, row in read_table().items() if name in {"SL-01", "SL-02", "EP-01"}}
    proven = {"SL-01": ["tests/a.py::test_a", "tests/b.py::test_b[1]", "tests/b.py::test_b[2]"]}

    assert report(table, proven).splitlines() == [
        "SL-01  tests/a.py::test_a",
        "SL-01  tests/b.py::test_b (2 cases)",
        "SL-02  missing",
        "EP-01  missing",
        "1 of 3 rows proven",
    ]
    assert summary(table, proven) == {"rows": 3, "proven": 1, "missing": {"SL": ["SL-02"], "EP": ["EP-01"]}}


def test_results_survive_the_file_and_a_torn_file_is_no_result(tmp_path: Path) -> None:
    path = tmp_path / "build" / "acceptance.json"
    results = Results("digest", (TestResult("test_a", ("SL-01",), "passed"),))
    write_results(results, path)
    assert read_results(path) == results

    path.write_text(path.read_text()[:20])
    assert read_results(path) is None


def test_the_digest_changes_with_a_source_and_not_with_what_a_build_makes(tmp_path: Path) -> None:
    (tmp_path / "parlora").mkdir()
    source = tmp_path / "parlora" / "errors.py"
    source.write_text("one")
    first = source_digest(tmp_path)
    (tmp_path / "parlora" / "_native.abi3.so").write_text("machine code")
    assert source_digest(tmp_path) == first
    source.write_text("two")
    assert source_digest(tmp_path) != first


PROJECT = """
import sys
sys.path.insert(0, {root!r})
import pytest
import tests.acceptance.recorder as recorder
from tests.acceptance.results import write_results
from pathlib import Path

recorder.source_digest = lambda: "digest"
recorder.write_results = lambda results: write_results(results, Path("results.json"))

def pytest_configure(config):
    config.addinivalue_line("markers", "row(*ids): rows")
    config.pluginmanager.register(recorder.RowRecorder(config))
"""

MARKED = """
import pytest

@pytest.fixture
def broken_end():
    yield
    raise RuntimeError

@pytest.mark.row("SL-01")
def test_passes(): pass

@pytest.mark.row("SL-02")
def test_fails(): assert False

@pytest.mark.row("SL-03")
def test_passes_but_leaves_something_behind(broken_end): pass

@pytest.mark.row("SL-04")
@pytest.mark.skip
def test_skipped(): pass
"""


def run_pytest(project: Path, marked: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    (project / "conftest.py").write_text(PROJECT.format(root=str(ROOT)))
    (project / "pytest.ini").write_text("[pytest]\ntestpaths = cases\n")
    (project / "cases").mkdir(exist_ok=True)
    (project / "cases" / "test_cases.py").write_text(marked)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_a_complete_run_records_the_worst_outcome_of_each_phase(tmp_path: Path) -> None:
    run_pytest(tmp_path, MARKED)
    outcomes = {row: test["outcome"] for test in recorded(tmp_path) for row in test["rows"]}
    assert outcomes == {"SL-01": "passed", "SL-02": "failed", "SL-03": "failed", "SL-04": "skipped"}


@pytest.mark.parametrize("selection", [["cases/test_cases.py"], ["-k", "passes"], ["-x"], ["--collect-only"]])
def test_a_partial_run_records_nothing(tmp_path: Path, selection: list[str]) -> None:
    run_pytest(tmp_path, MARKED, *selection)
    assert not (tmp_path / "results.json").exists()


def test_an_unknown_row_stops_the_run_and_is_named(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, MARKED.replace("SL-02", "SL-99"))
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "test_fails: not a row of docs/acceptance.md: SL-99" in result.stdout + result.stderr


def recorded(project: Path) -> list[dict[str, object]]:
    tests: list[dict[str, object]] = json.loads((project / "results.json").read_text())["tests"]
    return tests
