"""`parlora-actor doctor`: whether a node can run here, how well, and how to get what is missing."""

from __future__ import annotations

from typing import Any, Final

from parlora.wire import to_data
from parlora_actors.cli_exit import ExitCode, print_json
from parlora_actors.doctor import Check, Status, can_run_a_node, examine
from parlora_actors.extras import EXTRAS, Extra, installed_version
from parlora_actors.version import package_version

_MARKS: Final = {Status.OK: "ok", Status.LIMITED: "--", Status.MISSING: "!!"}


def report(as_json: bool) -> ExitCode:
    """Print everything; `SYSTEM` if a node cannot run."""
    checks = examine()
    ok = can_run_a_node(checks)
    extras = [_extra(extra) for extra in EXTRAS]
    if as_json:
        print_json({"ok": ok, "parlora": package_version(), "checks": to_data(checks), "extras": extras})
    else:
        print("\n".join([*_check_lines(checks), "", *_extra_lines(extras), "", _verdict(checks)]))
    return ExitCode.OK if ok else ExitCode.SYSTEM


def _extra(extra: Extra) -> dict[str, Any]:
    parts = [
        {"package": part.package, "licence": part.licence, "version": installed_version(part.package)}
        for part in extra.parts
    ]
    return {
        "name": extra.name,
        "gives": extra.gives,
        "installed": all(part["version"] is not None for part in parts),
        "install": extra.install,
        "parts": parts,
    }


def _check_lines(checks: list[Check]) -> list[str]:
    lines: list[str] = []
    group = ""
    for check in checks:
        if check.group != group:
            group = check.group
            lines += [*([""] if lines else []), group]
        advice = f": {check.advice}" if check.advice else ""
        lines.append(f"  {_MARKS[check.status]}  {check.name.replace('_', ' ')}: {check.found}{advice}")
    return lines


def _extra_lines(extras: list[dict[str, Any]]) -> list[str]:
    lines = ["extras"]
    for extra in extras:
        how = "" if extra["installed"] else f"; {extra['install']}"
        lines.append(f"  {'ok' if extra['installed'] else '--'}  {extra['name']}: {extra['gives']}{how}")
        for part in extra["parts"]:
            lines.append(f"        {part['package']} {part['version'] or '(not installed)'}, {part['licence']}")
    return lines


def _verdict(checks: list[Check]) -> str:
    missing = [check.name.replace("_", " ") for check in checks if check.status is Status.MISSING]
    if missing:
        return f"a node cannot run here: {', '.join(missing)}"
    limited = sum(check.status is Status.LIMITED for check in checks)
    return f"a node can run here{f'; {limited} things are limited' if limited else ''}"
