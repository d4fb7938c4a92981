"""Two processes at full speed, without time-outs that could hide a lost wake-up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.native.cbuild import build, run


@pytest.mark.parametrize("clears", ["0", "1"], ids=["alone", "with a third process clearing and observing"])
def test_no_wake_up_is_lost_and_no_frame_torn_reordered_or_uncounted(tmp_path: Path, clears: str) -> None:
    program = build("ring_stress", tmp_path, "-O2")
    done = run(program, "500000", clears)
    assert done.returncode == 0, done.stderr + done.stdout
    result = json.loads(done.stdout)
    assert result["ok"]
    assert result["read"] + result["dropped"] == 500_000
    assert result["wakes"] > 1_000, "the sides hardly ever waited, so this proved little"
