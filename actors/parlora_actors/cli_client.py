"""The commands that speak to a node that runs already: start, list, status, events, cancel, close, stop."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from parlora.errors import NotFound, Timeout
from parlora.events import Event, EventType, Source
from parlora.ids import new_id
from parlora.wire import to_data
from parlora_actors.cli_exit import CommandError, ExitCode, print_json, say, system_errors
from parlora_actors.cli_run import line_of
from parlora_actors.cli_signals import Interrupted, Interrupts
from parlora_actors.config import load_config
from parlora_actors.host_attached import AttachedHost, attach
from parlora_actors.host_timing import DRAIN_CLOSE_TIMEOUT_MS, now_us
from parlora_actors.session_handle import Session
from parlora_actors.subscriber import Subscriber

_POLL_S: Final = 0.1
"""How soon a signal is noticed while no event comes."""

_STOP_MARGIN_S: Final = 2.0
"""How much longer than the node's own deadline `stop` waits for its end."""


@contextlib.contextmanager
def attached(run_dir: Path | None) -> Iterator[AttachedHost]:
    """A host on the node; that there is none is the system's fault, what fails on it is not."""
    with system_errors():
        node = attach(run_dir)
    with node:
        yield node


def start_session(config_path: Path, run_dir: Path | None, wait: bool, as_json: bool) -> ExitCode:
    """Start a session that outlives this command."""
    config = load_config(config_path)
    if config.node:
        say("the table [node] is left out: the node runs already")
    with attached(run_dir) as node:
        session = node.start_session(**config.session)
        if wait:
            session.wait_ready()
        if as_json:
            print_json({"ok": True, "session_id": session.id, "ready": wait})
        else:
            print(session.id)
    return ExitCode.OK


def list_sessions(run_dir: Path | None, as_json: bool) -> ExitCode:
    """One line for each session."""
    with attached(run_dir) as node:
        found = node.sessions()
    now = now_us()
    for each in sorted(found, key=lambda session: session.started_us):
        age_ms = max(0, now - each.started_us) // 1_000
        if as_json:
            print_json({"session_id": each.session_id, "state": each.state, "age_ms": age_ms})
        else:
            print(f"{each.session_id}  {each.state}  {age_ms / 1_000:.1f} s")
    return ExitCode.OK


def show_status(session_id: str, run_dir: Path | None, as_json: bool) -> ExitCode:
    """The session's status map."""
    with attached(run_dir) as node:
        status = node.session(session_id).status()
    if as_json:
        print_json(status)
    else:
        print(json.dumps(status, indent=2, default=str))
    return ExitCode.OK


def follow_events(session_id: str, run_dir: Path | None, as_json: bool) -> ExitCode:
    """Every event from now on, to the session's end or a signal, which leaves the session alone."""
    with attached(run_dir) as node, Interrupts() as interrupts:
        events = Subscriber()
        try:
            node.session(session_id).subscribe(events)
            say(f"following {session_id}; Ctrl-C leaves it alone")
            return _follow(events, as_json)
        except Interrupted:
            return interrupts.exit_code or ExitCode.FAILED


def _follow(events: Subscriber, as_json: bool) -> ExitCode:
    while True:
        try:
            item = events.get(_POLL_S)
        except Timeout:
            continue
        if not isinstance(item, Event):
            raise CommandError(ExitCode.SYSTEM, Timeout(f"no more events come: {item.reason}"))
        if as_json:
            print_json(to_data(item))
        else:
            print(line_of(item) or f"[{item.source} {item.type}]", flush=True)
        if item.is_a(Source.SESSION, EventType.CLOSED):
            return ExitCode.OK


def cancel_request(
    session_id: str, request_id: str, revision: int | None, run_dir: Path | None, as_json: bool
) -> ExitCode:
    """Ask for a request to be cancelled; what became of it is in the session's events."""
    command_id = new_id()
    with attached(run_dir) as node:
        session = node.session(session_id)
        session.cancel(request_id, revision or _revision(session, request_id), command_id)
    if as_json:
        print_json({"ok": True, "session_id": session_id, "request_id": request_id, "command_id": command_id})
    else:
        say(f"cancel of {request_id} was admitted")
    return ExitCode.OK


def _revision(session: Session, request_id: str) -> int:
    job = session.status()["jobs"].get(request_id)
    if job is None:
        raise NotFound(f"the session has no request {request_id}", details={"request_id": request_id})
    return int(job["task_revision"])


def close_session(session_id: str, policy: str, run_dir: Path | None, as_json: bool) -> ExitCode:
    """Close a session in order and wait until nothing of it is left."""
    with attached(run_dir) as node:
        session = node.session(session_id)
        session.close(policy)
        closed: dict[str, Any] = session.wait_closed()
    if as_json:
        print_json({"ok": True, "session_id": session_id, "closed": closed})
    else:
        say(f"closed: {closed.get('reason', 'unknown')}")
    return ExitCode.OK


def stop_node(run_dir: Path | None, drain_ms: int, as_json: bool) -> ExitCode:
    """Stop the node and wait for its end."""
    with attached(run_dir) as node:
        sessions = node.stop_node(drain_ms / 1_000)
        if sessions:
            say(f"{sessions} sessions run")
        if not node.wait_node_ended((drain_ms + DRAIN_CLOSE_TIMEOUT_MS) / 1_000 + _STOP_MARGIN_S):
            raise CommandError(ExitCode.SYSTEM, Timeout("the node has not stopped in time"))
    if as_json:
        print_json({"ok": True, "state": "stopped", "sessions": sessions})
    else:
        say("the node has stopped")
    return ExitCode.OK
