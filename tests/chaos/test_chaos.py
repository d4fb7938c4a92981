"""A short storm, and by `make chaos` a long one: see `storm`. The seed is printed; PARLORA_SEED repeats it."""

import functools
import os
import random
import time

from parlora_actors.host import ActorHost
from tests.chaos.storm import Storm
from tests.kills.neighbour import Neighbour
from tests.sessions import Call, name_of, wait_for
from tests.shutdown.test_churn import standing

FAULTS = int(os.environ.get("PARLORA_FAULTS", "1000000"))
SECONDS = float(os.environ.get("PARLORA_CHAOS_S", "16"))
SETTLING = 0.3
"""The share of the storm after which every cache is warm: what is more at the end is a leak."""
MAX_GROWTH_KB = 1_024


def test_a_storm_leaves_the_node_and_its_neighbour_as_they_were() -> None:
    seed = int(os.environ.get("PARLORA_SEED", random.randrange(1_000_000)))
    print(f"\nchaos: PARLORA_SEED={seed}", flush=True)
    with ActorHost(max_sessions=32) as host:
        rage(host, seed, SETTLING)
        before = standing(host)
        neighbour = Neighbour(functools.partial(Call, host))
        storm = rage(host, seed + 1, 1 - SETTLING)
        neighbour.heard_everything()
        neighbour.call.end()
        wait_for("the node's processes to be as they were", lambda: standing(host).keys() == before.keys())
        after = standing(host)
        for pid, held in before.items():
            assert after[pid]["descriptors"] <= held["descriptors"], name_of(pid)
            assert after[pid]["memfds"] <= held["memfds"], name_of(pid)
            growth = after[pid]["private_kb"] - held["private_kb"]
            assert pid == os.getpid() or growth <= MAX_GROWTH_KB, f"{name_of(pid)} grew by {growth} KiB"
    print(f"chaos: {storm.dealt.total()} faults in the second part; ends: {dict(storm.ends)}", flush=True)


def rage(host: ActorHost, seed: int, share: float) -> Storm:
    storm = Storm(host, seed, int(FAULTS * share), time.monotonic() + SECONDS * share)
    storm.rage()
    assert storm.dealt
    return storm
