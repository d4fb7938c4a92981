"""The acceptance table, `docs/acceptance.md`, as data."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "acceptance.md"

_ROW = re.compile(r"^\| (?P<id>[A-Z]{2}-\d{2,}) \| (?P<text>.*?) \| (?P<source>[^|]*) \|$")


@dataclass(frozen=True, slots=True)
class Row:
    """One testable statement."""

    id: str
    text: str
    source: str

    @property
    def group(self) -> str:
        return self.id.partition("-")[0]


def read_table(path: Path = TABLE) -> dict[str, Row]:
    """The rows by id, in the order of the table.

    Raises:
        ValueError: if an id stands twice.
    """
    rows: dict[str, Row] = {}
    for line in path.read_text().splitlines():
        match = _ROW.match(line)
        if match:
            row = Row(match["id"], match["text"], match["source"])
            if row.id in rows:
                raise ValueError(f"{path}: row {row.id} stands twice")
            rows[row.id] = row
    return rows
