"""`parlora-actor monitor`: once and live, for people and for programs."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

import parlora
from parlora_actors.cli_exit import ExitCode
from parlora_actors.cli_monitor import picture
from parlora_actors.messages.monitor import NodeView, ProcessView, RingView, SessionView
from tests.cli.conftest import Outcome
from tests.node.conftest import Command
from tests.sessions import TRIVIAL


def test_once_as_json_is_one_object_with_cpu_figures(
    cli: Callable[..., Outcome], node: parlora.ActorHost, run_dir: Path
) -> None:
    session = node.start_session(**TRIVIAL)
    session.wait_ready(20)
    outcome = cli("monitor", "--once", "--json", "--run-dir", run_dir)
    assert outcome.code == ExitCode.OK
    view = json.loads(outcome.out)
    assert any(process["cpu_percent"] is not None for process in view["processes"])
    assert {process["role"] for process in view["processes"]} >= {"launcher", "gateway", "monitor"}


def test_live_views_come_until_a_signal(
    command: Callable[..., Command], node: parlora.ActorHost, run_dir: Path
) -> None:
    live = command("monitor", "--json", "--run-dir", run_dir)
    first, second = live.line(), live.line()
    assert second["at_us"] > first["at_us"]
    live.process.send_signal(signal.SIGINT)
    assert live.end()[0] == ExitCode.INTERRUPTED


def test_without_a_node_it_is_one_line_and_exit_code_3(cli: Callable[..., Outcome], run_dir: Path) -> None:
    outcome = cli("monitor", "--once", "--run-dir", run_dir)
    assert (outcome.code, outcome.err) == (ExitCode.SYSTEM, f"error: no node runs in {run_dir}\n")


def test_the_picture_names_what_a_view_holds() -> None:
    process = ProcessView(7, 1, "launcher", None, "running", None, None, None, 2**20)
    worker = ProcessView(9, 7, "policy", "s1", "frozen", 2, 1_500, 12.5, 3 * 2**20)
    ring = RingView("capture", 480, 960, 10, 9, 1, 0, 0)
    health = {"input_forwarded": {"frames": 1234}, "output_forwarded": {"frames": 5}}
    session = SessionView("s1", 10, (ring,), {"status": "ready", "health": health, "jobs": {"submitted": 1}})
    view = NodeView(1, "/run/node", 7, "0.1.0", 8, True, 5, (worker, process), (session,), left_out=3)
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(picture(view))
    console.file.close()
    text = console.export_text()
    for part in (
        "/run/node", "draining", "3 more", "  policy", "frozen", "1500 ms", "12.5 %", "3.0 MiB", "1,234 frames",
        "1 submitted", "capture [######......] -1",
    ):  # fmt: skip
        assert part in text
    assert text.index("launcher") < text.index("policy")
