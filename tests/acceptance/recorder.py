"""The pytest plugin behind `@pytest.mark.row("SL-01", ...)`: checks the ids and records the outcomes.

Only a complete run is recorded (every test path, nothing selected away, not interrupted), so that a short run while
working never makes a row look unproven.
"""

import pytest

from tests.acceptance.results import Results, TestResult, source_digest, write_results
from tests.acceptance.table import read_table


class RowRecorder:
    """Collects, for each test that names rows, the ids and the outcome over its three phases."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._rows: dict[str, tuple[str, ...]] = {}
        self._outcomes: dict[str, str] = {}
        self._complete = config.args_source is pytest.Config.ArgsSource.TESTPATHS
        self._digest = source_digest() if self._complete else ""

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        if items:
            self._complete = False

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        known = read_table()
        for item in items:
            rows = rows_of(item)
            unknown = [row for row in rows if row not in known]
            if unknown:
                names = ", ".join(map(str, unknown))
                raise pytest.UsageError(f"{item.nodeid}: not a row of docs/acceptance.md: {names}")
            if rows:
                self._rows[item.nodeid] = rows

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self._outcomes.get(report.nodeid, "passed")
        ranking = ("passed", "skipped", "failed")  # The worst of the three phases is the outcome of the test.
        self._outcomes[report.nodeid] = max(before, report.outcome, key=ranking.index)

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if not self._complete or exitstatus not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
            return
        if self._config.option.collectonly or self._config.option.maxfail:
            return
        tests = [
            TestResult(test, rows, self._outcomes.get(test, "skipped")) for test, rows in sorted(self._rows.items())
        ]
        write_results(Results(self._digest, tuple(tests)))


def rows_of(item: pytest.Item) -> tuple[str, ...]:
    """The row ids that an item names, its own and those of its class and module, each once."""
    rows = [row for marker in item.iter_markers("row") for row in marker.args]
    return tuple(dict.fromkeys(rows))
