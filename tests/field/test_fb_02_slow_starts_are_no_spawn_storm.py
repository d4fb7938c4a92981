"""FB-02: a start that was too slow was killed and tried again at once, for ever, and made all others slower."""

from pathlib import Path

from parlora_actors.child_spec import ChildSpec, SupervisorSpec
from tests.supervision.nodes import supervised

INTENSITY = 3


def test_starts_that_are_too_slow_end_in_giving_up(tmp_path: Path) -> None:
    child = ChildSpec("slow", "tests.field.actors.SlowOnceMore", start_ms=150)
    with supervised(SupervisorSpec((child,), intensity=INTENSITY, period_ms=60_000), tmp_path) as node:
        node.ready()
        assert node.gone().cause == "root_down"
        assert len(node.log("spawned")) == 1 + INTENSITY
        assert node.log("node_down")[0]["exit"]["reason"] == "intensity"
