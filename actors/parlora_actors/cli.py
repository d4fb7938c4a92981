"""`parlora-actor`: run sessions from a shell. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Annotated

import typer

from parlora_actors.cli_exit import print_json, reported
from parlora_actors.messages.host import PROTOCOL_MAJOR, PROTOCOL_MINOR
from parlora_actors.version import package_version

app = typer.Typer(
    name="parlora-actor",
    help="Run full-duplex voice sessions, every part of them a supervised process.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line, on stdout.")]


@app.command()
def run(
    config: Annotated[Path, typer.Option("--config", help="TOML file that describes the session.")],
    as_json: Json = False,
) -> None:
    """Run one session in the foreground. The first Ctrl-C closes it in order, the second kills it."""
    from parlora_actors.cli_run import run_session

    with reported(as_json):
        sys.exit(run_session(config, as_json))


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option("--out", help="Folder that keeps the recordings and events.")] = None,
    as_json: Json = False,
) -> None:
    """Make a whole spoken call, offline, and prove what was said in it. Needs the extra offline."""
    from parlora_actors.cli_demo import run_demo

    with reported(as_json):
        sys.exit(run_demo(out, as_json))


@app.command()
def version(as_json: Json = False) -> None:
    """Print the versions of the package, of the protocol between processes, and of Python."""
    versions = {
        "parlora": package_version(),
        "protocol": f"{PROTOCOL_MAJOR}.{PROTOCOL_MINOR}",
        "python": platform.python_version(),
    }
    if as_json:
        print_json(versions)
    else:
        print("\n".join(f"{name} {value}" for name, value in versions.items()))


def main() -> None:
    """The console script."""
    app()


if __name__ == "__main__":
    main()
