"""What the last complete test run said about each row, and whether it still speaks of the sources as they are now."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.acceptance.table import ROOT

RESULTS = ROOT / "build" / "acceptance.json"

_SOURCE_FOLDERS = ("parlora", "actors", "native", "tests", "benchmarks", "docs")
_SOURCE_FILES = ("pyproject.toml", "setup.cfg", "setup.py", "Makefile", "README.md")
_SOURCE_SUFFIXES = {".py", ".c", ".h", ".txt", ".md", ".toml", ".cfg", ".wav", ""}
_MADE_BY_BUILD = {"_native.c", "__pycache__"}


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test that names rows; `outcome` is passed, failed or skipped over set-up, call and tear-down together."""

    __test__ = False

    test: str
    rows: tuple[str, ...]
    outcome: str


@dataclass(frozen=True, slots=True)
class Results:
    """The tests of one complete run, and the digest of the sources it ran on."""

    digest: str
    tests: tuple[TestResult, ...]


def source_digest(root: Path = ROOT) -> str:
    """A digest of everything that a test result depends on and that the repository holds."""
    digest = hashlib.sha256()
    files = [root / name for name in _SOURCE_FILES]
    for folder in _SOURCE_FOLDERS:
        files += [path for path in (root / folder).rglob("*") if path.suffix in _SOURCE_SUFFIXES]
    for path in sorted(files):
        if path.is_file() and not _MADE_BY_BUILD & set(path.parts):
            digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def write_results(results: Results, path: Path = RESULTS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(asdict(results), indent=1) + "\n")
    partial.replace(path)


def read_results(path: Path = RESULTS) -> Results | None:
    """The last results, or None where there are none that can be read."""
    try:
        data = json.loads(path.read_text())
        tests = tuple(TestResult(test["test"], tuple(test["rows"]), test["outcome"]) for test in data["tests"])
        return Results(data["digest"], tests)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def proven_rows(tests: Iterable[TestResult]) -> dict[str, list[str]]:
    """The rows that are proven, each with its passed tests.

    A row is proven when a test that names it passed and none that names it failed; a skipped test says nothing.
    """
    passed: dict[str, list[str]] = {}
    failed: set[str] = set()
    for result in tests:
        for row in result.rows:
            if result.outcome == "passed":
                passed.setdefault(row, []).append(result.test)
            elif result.outcome == "failed":
                failed.add(row)
    return {row: names for row, names in passed.items() if row not in failed}
