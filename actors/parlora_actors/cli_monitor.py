"""`parlora-actor monitor`: what a node is doing, live or once."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from parlora.errors import Closed
from parlora.wire import to_data
from parlora_actors.cli_exit import ExitCode, print_json, say, system_errors
from parlora_actors.cli_signals import Interrupted, Interrupts
from parlora_actors.messages.monitor import NodeView, ProcessView, RingView, SessionView
from parlora_actors.monitor_client import NodeWatch

_BAR = 12


def watch_node(run_dir: Path | None, once: bool, as_json: bool) -> ExitCode:
    """Show the node until it ends or a signal comes. Raises `ParloraError`."""
    with Interrupts() as interrupts, system_errors():
        try:
            with NodeWatch(run_dir) as watch:
                return _show_once(watch, as_json) if once else _show_live(watch, as_json)
        except Interrupted:
            return interrupts.exit_code or ExitCode.OK


def _show_once(watch: NodeWatch, as_json: bool) -> ExitCode:
    watch.view()  # the first has no CPU figures, which need two looks
    view = watch.view()
    if as_json:
        print_json(to_data(view))
    else:
        Console().print(picture(view))
    return ExitCode.OK


def _show_live(watch: NodeWatch, as_json: bool) -> ExitCode:
    if as_json:
        for view in watch:
            print_json(to_data(view))
    else:
        with Live(console=Console(), auto_refresh=False, screen=False) as live:
            try:
                while True:
                    live.update(picture(watch.view()), refresh=True)
            except Closed:
                pass
    say("the node's monitor has ended")
    return ExitCode.OK


def picture(view: NodeView) -> RenderableType:
    """The node as people read it."""
    draining = ", draining" if view.is_draining else ""
    head = Text(
        f"{view.run_dir}  parlora {view.package}  "
        f"{len(view.sessions)} of {view.max_sessions} sessions{draining}  {len(view.processes)} processes"
    )
    if view.left_out:
        head.append(f" (and {view.left_out} more)")
    parts: list[RenderableType] = [head, _processes(view)]
    if view.sessions:
        parts.append(_sessions(view.sessions))
    return Group(*parts)


def _processes(view: NodeView) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("process")
    for name in ("pid", "state", "restarts", "heartbeat", "cpu", "memory"):
        table.add_column(name, justify="left" if name == "state" else "right")
    depths: dict[int, int] = {}
    for process in _in_order(view.processes):
        depth = depths.get(process.parent, -1) + 1
        depths[process.pid] = depth
        name = f"{'  ' * depth}{process.role}"
        if process.session_id is not None and process.role == "session_supervisor":
            name += f" {process.session_id}"
        table.add_row(
            Text(name),
            str(process.pid),
            Text(process.state, style="" if process.state in ("up", "running") else "bold"),
            _or_dash(process.restarts),
            "-" if process.heartbeat_age_ms is None else f"{process.heartbeat_age_ms} ms",
            "-" if process.cpu_percent is None else f"{process.cpu_percent:.1f} %",
            f"{process.memory_bytes / 2**20:.1f} MiB",
        )
    return table


def _in_order(processes: tuple[ProcessView, ...]) -> list[ProcessView]:
    """Each process right below its parent, children in the order of the view."""
    below: dict[int, list[ProcessView]] = {}
    pids = {process.pid for process in processes}
    for process in processes:
        below.setdefault(process.parent if process.parent in pids else 0, []).append(process)
    found: list[ProcessView] = []
    pending = below.get(0, [])[::-1]
    while pending:
        process = pending.pop()
        found.append(process)
        pending.extend(below.get(process.pid, [])[::-1])
    return found


def _sessions(sessions: tuple[SessionView, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("session", "status", "caller", "model", "jobs", "rings"):
        table.add_column(name)
    for session in sessions:
        status, health = session.status, session.status.get("health", {})
        rings = "  ".join(f"{ring.name} {_bar(ring)}" for ring in session.rings)
        table.add_row(
            Text(session.session_id),
            Text(str(status.get("status", "-"))),
            _frames(health, "input_forwarded"),
            _frames(health, "output_forwarded"),
            Text(", ".join(f"{count} {state}" for state, count in status.get("jobs", {}).items()) or "-"),
            Text(rings),
        )
    return table


def _frames(health: dict[str, dict[str, int]], direction: str) -> str:
    forwarded = health.get(direction)
    return "-" if forwarded is None else f"{forwarded['frames']:,} frames"


def _bar(ring: RingView) -> str:
    filled = 0 if ring.max_bytes == 0 else -(-_BAR * ring.queued_bytes // ring.max_bytes)
    lost = ring.dropped_frames + ring.rejected_frames
    return f"[{'#' * filled}{'.' * (_BAR - filled)}]{f' -{lost:,}' if lost else ''}"


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
