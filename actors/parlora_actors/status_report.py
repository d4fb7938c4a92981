"""What supervisors report to the monitor: small, bounded, once a second, and lost rather than waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from parlora.audio.ring import Ring
from parlora_actors.messages.monitor import ChildReport, RingView
from parlora_actors.supervised_process import ChildProcess
from parlora_actors.timing import now_us

REPORT_US: Final = 1_000_000
"""Time between two reports: what people watch, at a cost that no session notices."""

NODE_NOTE: Final = "node_report"
SESSION_NOTE: Final = "session_report"
SESSION_GONE_NOTE: Final = "session_gone"
"""Notes to the monitor, and, the second, from a session's supervisor to the node's."""


def report_child(process: ChildProcess, role: str) -> ChildReport:
    """One child."""
    state = "stopping" if process.asked else "up" if process.was_up else "starting"
    heartbeat = process.heartbeat
    age_ms = None if heartbeat is None else (now_us() - heartbeat.heard_us) // 1_000
    return ChildReport(role, process.actor.pid, state, process.incarnation, age_ms)


def view_ring(name: str, ring: Ring) -> RingView:
    """One ring's gauges; reading them touches neither its writer nor its reader."""
    stats = ring.stats()
    return RingView(
        name=name,
        queued_bytes=stats.queued.bytes,
        max_bytes=stats.max_bytes,
        frames_in=stats.frames_in,
        frames_out=stats.frames_out,
        dropped_frames=stats.dropped.frames,
        rejected_frames=sum(loss.frames for loss in stats.rejected.values()),
        epoch=stats.epoch,
    )


def summarize_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """A session's status map without its entries, which have no small bound: only their number by state."""
    return {
        "status": status["status"],
        "interpretation": status["interpretation"],
        "health": status["health"],
        "jobs": _count(status["jobs"].values()),
        "delegations": _count(status["delegations"].values()),
    }


def _count(entries: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    return dict(Counter(str(entry.get("status", "unknown")) for entry in entries))
