"""The pages of docs/reference that are made from the code: `python -m tests.cli.reference` writes them anew."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import typer
from typer.core import TyperGroup

from parlora.limits import _BOUNDS, Limits
from parlora_actors import host_timing
from parlora_actors.cli import app
from parlora_actors.cli_exit import ExitCode
from parlora_actors.config import COMPONENTS, KEYS

FOLDER = Path(__file__).parents[2] / "docs" / "reference"

_EXAMPLE = """\
```toml
[session]
instructions = "You take orders for a lamp shop."
audio_format = "pcm16le"

[channel]
use = "parlora.channels.trivial:TrivialChannel"

[provider]
use = "parlora.providers.trivial:TrivialProvider"

[backend]
use = "parlora.backends.trivial:TrivialBackend"

[context_policy]
use = "parlora.policies:Delegate"

[limits]
max_jobs = 2
```
"""


def pages() -> dict[str, str]:
    """File name and content of every page."""
    return {
        "configuration.md": configuration(),
        "limits.md": limits(),
        "exit-codes.md": exit_codes(),
        "command-line.md": command_line(),
        "deadlines.md": deadlines(),
    }


def configuration() -> str:
    """Every key of the TOML file."""
    lines = [
        "# Configuration file\n",
        "`parlora-actor run --config FILE.toml` reads one TOML file.",
        "A key that is not listed here is an error that names it and what is allowed.",
        "The directory of the file comes first on the import path, so an application's modules may lie beside it.",
        "File names in options of components are relative to the directory in which the command was started.\n",
        _EXAMPLE,
    ]
    for table in ("session", *COMPONENTS, "node"):
        keys = [key for key in KEYS if key.table == table]
        lines += [f"## [{table}]\n", *_table(("Key", "Type", "Default", "Meaning"))]
        lines += [_row(f"`{key.name}`", key.type, key.default, key.meaning) for key in keys]
        lines.append("")
    lines += ["## [limits]\n", "Every limit of a session, all optional integers: see [limits](limits.md).\n"]
    return "\n".join(lines)


def limits() -> str:
    """Every limit with its default and bounds."""
    lines = [
        "# Limits\n",
        "Options of `parlora.Limits`, of `start_session(limits=...)` and of the table `[limits]` of a configuration.",
        "A value out of bounds is an error that names the option.",
        "Durations are milliseconds, sizes bytes, the rest counts.\n",
        *_table(("Option", "Default", "Bounds", "Meaning")),
    ]
    meanings = dict(re.findall(r"^    (\w+): (.*(?:\n      +.*)*)", Limits.__doc__ or "", re.M))
    for field in fields(Limits):
        bounds = _BOUNDS.get(field.name)
        default = "see meaning" if field.default is None else f"{field.default:,}"
        shown = "see meaning" if bounds is None else f"{bounds[0]:,} to {bounds[1]:,}"
        meaning = " ".join(meanings[field.name].split()).rstrip(".").removesuffix(f"; {shown}")
        lines.append(_row(f"`{field.name}`", default, shown, meaning))
    return "\n".join([*lines, ""])


def exit_codes() -> str:
    """Every exit code with its meaning."""
    lines = ["# Exit codes of parlora-actor\n", *_table(("Code", "Name", "Meaning"))]
    meanings = _constants(inspect.getsource(ExitCode))
    lines += [_row(str(int(code)), code.name, meanings[code.name]) for code in ExitCode]
    lines += [
        "",
        "An error is one line on stderr.",
        'With `--json` it is also an object on stdout: `{"ok": false, "error": {"code", "message", "details"}}`;',
        "`details.field` names the option or key at fault where there is one.",
    ]
    return "\n".join([*lines, ""])


def command_line() -> str:
    """Every command with its options."""
    lines = ["# parlora-actor\n", "Data goes to stdout, talk to stderr. Every command takes `--json`.\n"]
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, command in group.commands.items():
        lines += [f"## {name}\n", f"{' '.join((command.help or '').split())}\n", *_table(("Option", "Meaning"))]
        for parameter in command.params:
            lines.append(_row(f"`{', '.join(parameter.opts)}`", getattr(parameter, "help", "") or ""))
        lines.append("")
    return "\n".join(lines)


def deadlines() -> str:
    """Every fixed deadline of the host library with its reason."""
    lines = [
        "# Deadlines of the host library\n",
        "No option changes these; those of a session are its [limits](limits.md).\n",
        *_table(("Name", "Milliseconds", "Reason")),
    ]
    for name, reason in _constants(inspect.getsource(host_timing)).items():
        lines.append(_row(f"`{name}`", f"{getattr(host_timing, name):,}", reason))
    return "\n".join([*lines, ""])


def _constants(source: str) -> dict[str, str]:
    """The constants of a class or module, each with the string that stands below it."""
    [*body] = ast.parse(source).body
    if len(body) == 1 and isinstance(body[0], ast.ClassDef):
        body = body[0].body
    found = {}
    for first, second in pairwise(body):
        if isinstance(first, ast.Assign | ast.AnnAssign) and isinstance(second, ast.Expr):
            target = first.targets[0] if isinstance(first, ast.Assign) else first.target
            assert isinstance(target, ast.Name)
            assert isinstance(second.value, ast.Constant)
            found[target.id] = " ".join(str(second.value.value).split())
    return found


def _table(heads: tuple[str, ...]) -> list[str]:
    return [_row(*heads), "|" + "---|" * len(heads)]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Write every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
