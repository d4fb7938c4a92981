"""`make acceptance`: which rows of docs/acceptance.md are proven, by which tests, and which are not.

The results of the last complete test run are used while they are of the sources as they are now; otherwise every test
runs first, its output on stderr. With `--json` the last line of stdout is one object.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter

from tests.acceptance.results import Results, proven_rows, read_results, source_digest
from tests.acceptance.table import ROOT, Row, read_table


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="make acceptance", description=__doc__)
    parser.add_argument("--json", action="store_true", help="end with one JSON object: rows, proven, missing by group")
    options = parser.parse_args(arguments)
    table = read_table()
    results = current_results()
    if results is None:
        print("acceptance: the test run did not finish, so nothing is known", file=sys.stderr)
        return 1
    proven = proven_rows(results.tests)
    print(report(table, proven))
    if options.json:
        print(json.dumps(summary(table, proven)))
    return 0


def current_results() -> Results | None:
    """The results of a complete run on the sources as they are; runs every test where there are none."""
    digest = source_digest()
    results = read_results()
    if results is None or results.digest != digest:
        print("acceptance: no complete test run of these sources; running every test", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=ROOT, stdout=sys.stderr, check=False)
        results = read_results()
    return results if results is not None and results.digest == digest else None


def report(table: dict[str, Row], proven: dict[str, list[str]]) -> str:
    """Every row in the order of the table, with the tests that prove it or the word missing.

    The cases of a parametrized test share one line.
    """
    lines = []
    for row in table.values():
        tests = Counter(test.partition("[")[0] for test in proven.get(row.id, ()))
        lines += [f"{row.id}  {test}" + (f" ({cases} cases)" if cases > 1 else "") for test, cases in tests.items()]
        lines += [] if tests else [f"{row.id}  missing"]
    count = sum(1 for row in table if row in proven)
    return "\n".join([*lines, f"{count} of {len(table)} rows proven"])


def summary(table: dict[str, Row], proven: dict[str, list[str]]) -> dict[str, object]:
    missing: dict[str, list[str]] = {}
    for row in table.values():
        if row.id not in proven:
            missing.setdefault(row.group, []).append(row.id)
    return {"rows": len(table), "proven": sum(1 for row in table if row in proven), "missing": missing}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
