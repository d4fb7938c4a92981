"""`parlora-actor run`: one session in the foreground, on a node of its own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from parlora.errors import ParloraError, Timeout
from parlora.events import Event, EventType, Source
from parlora.wire import to_data
from parlora_actors.cli_exit import CommandError, ExitCode, code_of, print_json, say, system_errors
from parlora_actors.cli_signals import Interrupted, Interrupts
from parlora_actors.config import RunConfig, load_config
from parlora_actors.host import ActorHost
from parlora_actors.session_handle import Session
from parlora_actors.session_life import COORDINATOR_DOWN, NODE_LOST, failure
from parlora_actors.subscriber import Subscriber

_POLL_S: Final = 0.1
"""How soon a signal is noticed while no event comes."""

_TOLD: Final[dict[tuple[str, str], str]] = {
    (Source.SESSION, EventType.READY): "ready",
    (Source.SESSION, EventType.TASK_SUBMITTED): "task submitted",
    (Source.SESSION, EventType.TASK_SUPERSEDED): "task superseded",
    (Source.SESSION, EventType.RESULT_DELIVERY): "result",
    (Source.SESSION, EventType.POLICY_FAILED): "policy failed",
    (Source.CHANNEL, EventType.DISCONNECTED): "channel disconnected",
    (Source.PROVIDER, EventType.OUTPUT_INTERRUPTED): "interrupted",
}
"""Events that a person at the terminal is told of; programs ask for `--json` and get all."""


def run_session(config_path: Path, as_json: bool) -> ExitCode:
    """Run until the session ends or a signal ends it; returns the exit code. Raises `ParloraError`."""
    return run_config(load_config(config_path), as_json)


def run_config(config: RunConfig, as_json: bool) -> ExitCode:
    """`run_session` for a configuration that was made another way."""
    if config.directory not in sys.path:
        sys.path.insert(0, config.directory)  # the application's modules lie beside its configuration
    host = ActorHost(**config.node)
    with Interrupts() as interrupts:
        try:
            with system_errors():
                host.start()
            return _serve(host, config, interrupts, as_json)
        except Interrupted:
            say("killed")
            host.kill()
            return interrupts.exit_code or ExitCode.FAILED
        finally:
            with system_errors():
                host.close()


def _serve(host: ActorHost, config: RunConfig, interrupts: Interrupts, as_json: bool) -> ExitCode:
    events = Subscriber()
    session = host.start_session(event_sink=events, **config.session)
    interrupts.close_in_order()
    say(f"session {session.id} starts; Ctrl-C ends it")
    failed = _follow(session, events, config.close_policy, interrupts, as_json)
    closed = session.wait_closed()
    code = interrupts.exit_code or ExitCode.OK
    if failed is not None:
        code = code_of(failed)
        say(f"error: {failed.message}")
    elif closed.get("cause") in (NODE_LOST, COORDINATOR_DOWN):
        code = ExitCode.SYSTEM
        say(f"error: the session ended: {closed['cause']}")
    if as_json:
        error = None if failed is None else failed.to_data()
        print_json({"ok": code is ExitCode.OK, "session_id": session.id, "closed": closed, "error": error})
    else:
        say(f"closed: {closed.get('reason', 'unknown')}")
    return code


def _follow(
    session: Session, events: Subscriber, policy: str, interrupts: Interrupts, as_json: bool
) -> ParloraError | None:
    """Tell events until `closed`; returns the session's failure, if it failed."""
    failed: ParloraError | None = None
    closing = False
    while True:
        if interrupts.asked and not closing:
            closing = True
            say("closing; Ctrl-C again kills")
            session.close(policy)
        try:
            item = events.get(_POLL_S)
        except Timeout:
            continue
        if not isinstance(item, Event):
            raise CommandError(ExitCode.SYSTEM, Timeout("this terminal takes the events too slowly"))
        tell_event(item, as_json)
        if item.is_a(Source.SESSION, EventType.FAILED):
            failed = failed or failure(item.payload)
        if item.is_a(Source.SESSION, EventType.CLOSED):
            return failed


def tell_event(event: Event, as_json: bool) -> None:
    """An event as data: one JSON line, or one line for people if it is of interest to them."""
    if as_json:
        print_json(to_data(event))
        return
    line = line_of(event)
    if line is not None:
        print(line, flush=True)


def line_of(event: Event) -> str | None:
    """An event in words, if it is of interest to people."""
    payload: dict[str, Any] = event.payload
    if event.is_a(Source.PROVIDER, EventType.TRANSCRIPT_DELTA):
        return f"{payload.get('speaker')}: {payload.get('delta')}"
    word = _TOLD.get((event.source, event.type))
    if word is None:
        return None
    stage = payload.get("stage")
    return f"[{word}{f': {stage}' if stage else ''}]"
