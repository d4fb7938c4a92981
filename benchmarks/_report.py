"""What every benchmark prints: readable lines, and with --json one object as the last line.

A promise is a ratio taken from one run; `ok` is false when one is not met, and the exit code is then 1.

    report = Report("ring")
    report.at_least("batch_vs_pipe", 12.3, 8)
    report.figure("frames_per_s", 400_000)
    sys.exit(report.finish())
"""

from __future__ import annotations

import json
import sys
from typing import Any


class Report:
    def __init__(self, name: str, argv: list[str] | None = None) -> None:
        self.name = name
        self.ok = True
        self.figures: dict[str, Any] = {}
        self.as_json = "--json" in (sys.argv[1:] if argv is None else argv)
        self._lines: list[str] = []

    def figure(self, key: str, value: Any, note: str = "") -> None:
        """A number that is told, not judged."""
        self._add(key, value, note)

    def at_least(self, key: str, value: float, bound: float) -> None:
        """A promise: `value` is `bound` or more."""
        self._judge(key, value, value >= bound, f"at least {bound:g}")

    def at_most(self, key: str, value: float, bound: float) -> None:
        """A promise: `value` is `bound` or less."""
        self._judge(key, value, value <= bound, f"at most {bound:g}")

    def finish(self) -> int:
        """Print everything; 0 if all promises were kept."""
        for line in self._lines:
            print(line, file=sys.stderr if self.as_json else sys.stdout)
        if self.as_json:
            print(json.dumps({"name": self.name, "ok": self.ok, "figures": self.figures}))
        else:
            print("ok" if self.ok else "NOT OK: a promise above is not kept")
        return 0 if self.ok else 1

    def _judge(self, key: str, value: float, kept: bool, promise: str) -> None:
        self.ok = self.ok and kept
        self._add(key, value, f"promised {promise}: {'kept' if kept else 'NOT KEPT'}")

    def _add(self, key: str, value: Any, note: str) -> None:
        rounded = round(value, 3) if isinstance(value, float) else value
        self.figures[key] = rounded
        self._lines.append(f"{self.name}: {key} = {rounded}" + (f"   ({note})" if note else ""))
