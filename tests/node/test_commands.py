"""`parlora-actor node` in a process of its own, and the commands against it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import parlora
from parlora_actors.cli_exit import ExitCode
from tests.cli.conftest import Outcome
from tests.node.conftest import WAIT_S, Command
from tests.sessions import TRIVIAL

Commands = Callable[..., Command]
Cli = Callable[..., Outcome]


def test_a_session_is_started_listed_followed_and_closed_by_commands(
    command: Commands,
    cli: Cli,
    run_dir: Path,
    config: Path,
) -> None:
    node = command("node", "--json", "--run-dir", run_dir)
    assert node.line()["run_dir"] == str(run_dir)
    at = ("--json", "--run-dir", run_dir)

    session_id = json.loads(cli("start", "--config", config, *at).out)["session_id"]
    (listed,) = [json.loads(line) for line in cli("list", *at).out.splitlines()]
    assert (listed["session_id"], listed["state"]) == (session_id, "running")
    assert json.loads(cli("status", session_id, *at).out)["status"] == "ready"

    missing = cli("cancel", session_id, "nothing", *at)
    assert missing.code == ExitCode.FAILED
    assert json.loads(missing.out)["error"]["code"] == "not_found"

    assert cli("close", session_id, "--policy", "kill", *at).code == ExitCode.BAD_INPUT
    closed = cli("close", session_id, "--policy", "cancel", *at)
    assert closed.code == ExitCode.OK
    assert json.loads(closed.out)["closed"]["job_policy"] == "cancel"
    assert cli("list", *at).out == ""
    assert cli("status", session_id, *at).code == ExitCode.FAILED

    stopped = cli("stop", *at)
    assert (stopped.code, json.loads(stopped.out)["state"]) == (ExitCode.OK, "stopped")
    code, out, _ = node.end()
    assert (code, json.loads(out)) == (ExitCode.OK, {"ok": True, "state": "stopped"})
    assert not run_dir.exists()


def test_events_are_followed_to_the_end_of_the_session(
    command: Commands, node: parlora.ActorHost, run_dir: Path
) -> None:
    session = node.start_session(**TRIVIAL)
    session.wait_ready(WAIT_S)
    follower = command("events", session.id, "--json", "--run-dir", run_dir)
    follower.said(session.id)
    session.control(("mute_input", True), "mute-1")
    session.close()
    session.wait_closed(WAIT_S)
    code, out, _ = follower.end()
    events = [json.loads(line) for line in out.splitlines()]
    assert code == ExitCode.OK
    assert events[0]["command_id"] == "mute-1"
    assert (events[-1]["source"], events[-1]["type"]) == ("session", "closed")


def test_a_follower_that_is_interrupted_leaves_the_session_alone(
    command: Commands, node: parlora.ActorHost, run_dir: Path
) -> None:
    session = node.start_session(**TRIVIAL)
    session.wait_ready(WAIT_S)
    follower = command("events", session.id, "--run-dir", run_dir)
    follower.said(session.id)
    follower.process.send_signal(signal.SIGINT)
    assert follower.end()[0] == ExitCode.INTERRUPTED
    assert session.status()["status"] == "ready"


def test_the_first_signal_drains_a_node_and_closes_what_still_runs(command: Commands, run_dir: Path) -> None:
    node = command("node", "--json", "--drain-ms", "100", "--run-dir", run_dir)
    node.line()
    with parlora.attach(run_dir) as host:
        session = host.start_session(**TRIVIAL)
        session.wait_ready(WAIT_S)
        node.process.send_signal(signal.SIGTERM)
        assert session.wait_closed(WAIT_S)["reason"] == "requested"
    code, out, _ = node.end()
    assert (code, json.loads(out)["state"]) == (ExitCode.OK, "stopped")


def test_the_second_signal_kills_a_node(command: Commands, run_dir: Path) -> None:
    node = command("node", "--json", "--drain-ms", "60000", "--run-dir", run_dir)
    node.line()
    with parlora.attach(run_dir) as host:
        session = host.start_session(**TRIVIAL)
        session.wait_ready(WAIT_S)
        node.process.send_signal(signal.SIGTERM)
        node.said("second signal kills")
        node.process.send_signal(signal.SIGINT)
        assert session.wait_closed(WAIT_S)
    assert node.end()[0] == ExitCode.TERMINATED
    assert not run_dir.exists()


def test_a_node_that_breaks_ends_the_command_with_its_cause(command: Commands, run_dir: Path) -> None:
    node = command("node", "--json", "--run-dir", run_dir)
    os.kill(node.line()["pid"], signal.SIGKILL)
    code, out, err = node.end()
    assert code == ExitCode.SYSTEM
    assert "the node broke" in err
    assert json.loads(out)["ok"] is False


@pytest.mark.parametrize(
    "arguments",
    [("list",), ("status", "s"), ("events", "s"), ("cancel", "s", "r"), ("close", "s"), ("stop",)],
    ids=lambda arguments: arguments[0],
)
def test_a_command_without_a_node_is_one_line_and_exit_code_3(
    cli: Cli,
    run_dir: Path,
    arguments: tuple[str, ...],
) -> None:
    outcome = cli(*arguments, "--run-dir", run_dir)
    assert outcome.code == ExitCode.SYSTEM
    assert outcome.err == f"error: no node runs in {run_dir}\n"
    assert outcome.out == ""


def test_a_second_node_in_a_directory_is_refused(
    cli: Cli,
    node: parlora.ActorHost,
    run_dir: Path,
) -> None:
    outcome = cli("node", "--run-dir", run_dir)
    assert outcome.code == ExitCode.SYSTEM
    assert outcome.err == f"error: a node runs in {run_dir} already\n"
