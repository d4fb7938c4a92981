"""What every test gets: the marker `row`, a run directory of its own, and the leftovers check."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy  # noqa: F401 - its threads exist before the first snapshot, so no test is blamed for them.
import pytest

from parlora.testing.fixtures import no_leftovers, parlora_subreaper  # noqa: F401
from tests.acceptance.recorder import RowRecorder

TESTS = Path(__file__).parent

PURE = {"unit", "acceptance", "architecture"}
"""Folders whose tests start no process; every test of any other folder ends with the leftovers check."""

# A busy machine is slow, not wrong, so no example has a time limit; CI tries the same examples each time.
hypothesis.settings.register_profile(
    "parlora",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    print_blob=True,
)
hypothesis.settings.load_profile("parlora")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RowRecorder(config), "parlora-rows")


@pytest.fixture(scope="session", autouse=True)
def _private_run_root() -> Iterator[None]:
    """Nodes of this test run live in a directory of their own, short enough for socket paths."""
    directory = tempfile.mkdtemp(prefix="parlora-test-", dir="/tmp")
    previous = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = directory
    yield
    if previous is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = previous
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(autouse=True)
def _process_tests_leave_nothing(request: pytest.FixtureRequest) -> None:
    if request.path.relative_to(TESTS).parts[0] not in PURE:
        request.getfixturevalue("no_leftovers")
