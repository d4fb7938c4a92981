"""A process may die at any instruction of the ring's calls."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.native.cbuild import build, run

CANNOT_RUN = 77


@pytest.mark.timeout(240)
def test_a_kill_after_any_instruction_leaves_a_ring_that_a_successor_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = build("kill_every_instruction", tmp_path, "-O2")
    shards = os.cpu_count() or 1
    with ThreadPoolExecutor(shards) as pool:
        ended = list(pool.map(lambda shard: run(program, str(shard), str(shards), timeout=230), range(shards)))
    if any(done.returncode == CANNOT_RUN for done in ended):
        pytest.skip(ended[0].stderr.strip())
    for done in ended:
        assert done.returncode == 0, done.stderr + done.stdout
    results = [json.loads(done.stdout) for done in ended]
    positions = {name: sum(r["operations"][name] for r in results) for name in results[0]["operations"]}
    total = sum(positions.values())
    with capsys.disabled():
        print(f"\nkilled after each of {total} instructions: {positions}; no inconsistency")
    assert sum(r["inconsistencies"] for r in results) == 0
    assert positions["write"] > 100
    assert positions["read"] > 100
    assert positions["clear"] > 10
    assert positions["arm_data"] > 10
