"""`parlora-actor node`: a standing node in the foreground, for any number of hosts that come and go."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from parlora.errors import AdapterFailed, ParloraError
from parlora_actors.cli_exit import CommandError, ExitCode, print_json, say, system_errors
from parlora_actors.cli_signals import Interrupted, Interrupts
from parlora_actors.host import STOPPED, ActorHost
from parlora_actors.run_directory import standing_directory

_POLL_S: Final = 0.1
"""How soon a signal is noticed."""


def run_node(
    run_dir: Path | None,
    path: Sequence[Path],
    preload: Sequence[str],
    max_sessions: int | None,
    log: Path | None,
    drain_ms: int,
    as_json: bool,
) -> ExitCode:
    """Run until the node is stopped, or breaks; returns the exit code. Raises `ParloraError`."""
    sys.path[:0] = [os.path.abspath(each) for each in path or (os.curdir,)]
    with system_errors():
        host = ActorHost(preload=preload, max_sessions=max_sessions, log=log, run_dir=run_dir or standing_directory())
    with Interrupts() as interrupts:
        try:
            with system_errors():
                host.start()
            interrupts.close_in_order()
            _tell_running(host, as_json)
            _serve(host, interrupts, drain_ms)
        except Interrupted:
            say("killed")
            host.kill()
            return interrupts.exit_code or ExitCode.FAILED
        finally:
            with system_errors():
                host.close()
    if as_json:
        print_json({"ok": True, "state": "stopped"})
    else:
        say("the node has stopped")
    return ExitCode.OK


def _tell_running(host: ActorHost, as_json: bool) -> None:
    if as_json:
        print_json({"ok": True, "state": "running", "run_dir": host.run_dir, "pid": host.pid})
    else:
        say(f"a node runs in {host.run_dir}; Ctrl-C stops it")


def _serve(host: ActorHost, interrupts: Interrupts, drain_ms: int) -> None:
    while not interrupts.asked:
        if host.wait_node_ended(_POLL_S):
            cause = host.node_end_cause
            if cause == STOPPED:
                return
            raise CommandError(ExitCode.SYSTEM, AdapterFailed(f"the node broke: {cause}", details={"cause": cause}))
    say("no new sessions; those that run may end; a second signal kills")
    try:
        host.drain(drain_ms / 1_000)
    except ParloraError as error:  # its gateway may just have died: then without waiting for anybody
        say(f"not drained: {error.message}")
