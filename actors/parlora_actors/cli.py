"""`parlora-actor`: run sessions from a shell. Data goes to stdout, talk to stderr."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Annotated, Final

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

RunDir = Annotated[
    Path | None, typer.Option("--run-dir", help="The node's directory; by default that of this user's standing node.")
]
SessionId = Annotated[str, typer.Argument(help="The session's id, as in list.")]

DEFAULT_DRAIN_MS: Final = 3_000
"""How long running sessions may go on after the first signal to a node. With the time to close them it is 9 s: a
container that is stopped has 10."""


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
    mic: Annotated[
        bool,
        typer.Option("--mic", help="Be the caller yourself, with microphone and headphones. Needs the extra local."),
    ] = False,
    input_device: Annotated[
        str | None, typer.Option("--input-device", help="With --mic: name or index, as in devices.")
    ] = None,
    output_device: Annotated[
        str | None, typer.Option("--output-device", help="With --mic: name or index, as in devices.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a whole spoken call, offline, and prove what was said in it. Needs the extra offline."""
    with reported(as_json):
        if mic:
            from parlora_actors.cli_mic import run_mic

            sys.exit(run_mic(out, input_device, output_device, as_json))
        from parlora_actors.cli_demo import run_demo

        sys.exit(run_demo(out, as_json))


@app.command()
def devices(as_json: Json = False) -> None:
    """List the sound devices of this machine. Needs the extra local."""
    from parlora_actors.cli_mic import show_devices

    with reported(as_json):
        sys.exit(show_devices(as_json))


@app.command()
def node(
    run_dir: RunDir = None,
    path: Annotated[
        list[Path] | None,
        typer.Option("--path", help="Folder of the application's modules; repeatable; by default the current one."),
    ] = None,
    preload: Annotated[
        list[str] | None, typer.Option("--preload", help="Module to import before the first fork; repeatable.")
    ] = None,
    max_sessions: Annotated[
        int | None, typer.Option("--max-sessions", min=1, help="Sessions at once; by default 4 per core.")
    ] = None,
    log: Annotated[Path | None, typer.Option("--log", help="File for the node's log, one JSON object a line.")] = None,
    drain_ms: Annotated[
        int, typer.Option("--drain-ms", min=0, help="How long running sessions may go on after the first signal.")
    ] = DEFAULT_DRAIN_MS,
    as_json: Json = False,
) -> None:
    """Run a node in the foreground, for hosts that come and go. SIGTERM or Ctrl-C drains and stops it."""
    from parlora_actors.cli_node import run_node

    with reported(as_json):
        sys.exit(run_node(run_dir, path or (), preload or (), max_sessions, log, drain_ms, as_json))


@app.command()
def start(
    config: Annotated[Path, typer.Option("--config", help="TOML file that describes the session.")],
    run_dir: RunDir = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Return when the session is ready, or at once.")
    ] = True,
    as_json: Json = False,
) -> None:
    """Start a session on a running node; it goes on when this command has ended."""
    from parlora_actors.cli_client import start_session

    with reported(as_json):
        sys.exit(start_session(config, run_dir, wait, as_json))


@app.command("list")
def list_(run_dir: RunDir = None, as_json: Json = False) -> None:
    """List the sessions of a running node."""
    from parlora_actors.cli_client import list_sessions

    with reported(as_json):
        sys.exit(list_sessions(run_dir, as_json))


@app.command()
def status(session: SessionId, run_dir: RunDir = None, as_json: Json = False) -> None:
    """Print the status of a session: jobs, delegations, health; no transcripts and no results."""
    from parlora_actors.cli_client import show_status

    with reported(as_json):
        sys.exit(show_status(session, run_dir, as_json))


@app.command()
def events(session: SessionId, run_dir: RunDir = None, as_json: Json = False) -> None:
    """Print the events of a session as they happen, until it ends. Ctrl-C leaves the session alone."""
    from parlora_actors.cli_client import follow_events

    with reported(as_json):
        sys.exit(follow_events(session, run_dir, as_json))


@app.command()
def cancel(
    session: SessionId,
    request: Annotated[str, typer.Argument(help="The request's id, as in status and events.")],
    revision: Annotated[
        int | None, typer.Option("--revision", min=1, help="Task revision it must have; by default its present one.")
    ] = None,
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Cancel a queued request, or ask the backend to cancel a submitted one."""
    from parlora_actors.cli_client import cancel_request

    with reported(as_json):
        sys.exit(cancel_request(session, request, revision, run_dir, as_json))


@app.command()
def close(
    session: SessionId,
    policy: Annotated[str, typer.Option("--policy", help="What becomes of running jobs: finish or cancel.")] = "finish",
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Close a session in order and wait until nothing of it is left."""
    from parlora_actors.cli_client import close_session

    with reported(as_json):
        sys.exit(close_session(session, policy, run_dir, as_json))


@app.command()
def stop(
    drain: Annotated[
        bool, typer.Option("--drain", help="Let running sessions end first, for at most --drain-ms.")
    ] = False,
    drain_ms: Annotated[int, typer.Option("--drain-ms", min=0, help="How long --drain waits for them.")] = 60_000,
    run_dir: RunDir = None,
    as_json: Json = False,
) -> None:
    """Stop a running node: no new sessions, those that run are closed in order."""
    from parlora_actors.cli_client import stop_node

    with reported(as_json):
        sys.exit(stop_node(run_dir, drain_ms if drain else 0, as_json))


@app.command("fake-provider")
def fake_provider(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which service to stand in for: openai, gemini or grok.")],
    port: Annotated[int, typer.Option("--port", min=0, max=65_535, help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    as_json: Json = False,
) -> None:
    """Serve a local stand-in for a cloud service, whose caller asks for an order. Prints its URL; Ctrl-C ends it."""
    from parlora_actors.cli_fake import run_fake

    with reported(as_json):
        sys.exit(run_fake(name, port, as_json))


@app.command()
def monitor(
    run_dir: RunDir = None,
    once: Annotated[bool, typer.Option("--once", help="Print one view and end.")] = False,
    as_json: Json = False,
) -> None:
    """Show what a running node does: processes, rings, sessions, once a second. It changes nothing there."""
    from parlora_actors.cli_monitor import watch_node

    with reported(as_json):
        sys.exit(watch_node(run_dir, once, as_json))


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say whether a node can run on this machine, how well, and how to get what is missing. Starts nothing."""
    from parlora_actors.cli_doctor import report

    with reported(as_json):
        sys.exit(report(as_json))


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
