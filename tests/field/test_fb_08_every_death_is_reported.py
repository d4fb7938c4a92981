"""FB-08: a child's pid was killed by hand and its parent heard nothing; a stopped child was never reported at all."""

import os
import signal
from pathlib import Path

from parlora_actors.child_spec import ChildSpec, Restart, SupervisorSpec
from tests.supervision.nodes import supervised

TROUBLES = "tests.supervision.troubles."
SIGNALS = {
    signal.SIGKILL: "SIGKILL",
    signal.SIGSEGV: "SIGSEGV",
    signal.SIGABRT: "SIGABRT",
    signal.SIGTERM: "asked_by_system",
    signal.SIGSTOP: "unresponsive",
}


def test_each_way_to_go_has_its_own_report(tmp_path: Path) -> None:
    children = [
        *(ChildSpec(number.name, TROUBLES + "Quiet", restart=Restart.TEMPORARY) for number in SIGNALS),
        ChildSpec("exit", TROUBLES + "FinishSoon", restart=Restart.TEMPORARY),
        ChildSpec("raise", TROUBLES + "CrashSoon", restart=Restart.TEMPORARY),
    ]
    with supervised(SupervisorSpec(tuple(children), unresponsive_ms=1_000), tmp_path) as node:
        node.ready()
        for number in SIGNALS:
            os.kill(node.wait_log("up", role=number.name)["pid"], number)
        for number, how in SIGNALS.items():
            assert node.wait_log("child_down", child=number.name)["how"] == how
        assert node.wait_log("child_down", child="exit")["how"] == "normal"
        assert node.wait_log("child_down", child="raise")["how"] == "crash"
        assert len(node.log("child_down")) == len(children)
        node.stop()
