"""Fixtures for pytest. In your `conftest.py`:

    from parlora.testing.fixtures import no_leftovers, parlora_subreaper  # noqa: F401

A test that asks for `no_leftovers` fails if it leaves anything behind. `parlora_subreaper` is taken by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parlora.testing import leftovers


@pytest.fixture
def no_leftovers() -> Iterator[leftovers.Snapshot]:
    """The test leaves no process, memfd, descriptor, thread, socket file or run directory; gives the first snapshot."""
    before = leftovers.snapshot()
    yield before
    try:
        leftovers.check(before)
    except leftovers.LeftoversError:
        leftovers.kill(before)
        raise


@pytest.fixture(scope="session", autouse=True)
def parlora_subreaper() -> None:
    """Orphans of a test fall to this process, where the leftovers check sees them, instead of to init."""
    leftovers.become_subreaper()
