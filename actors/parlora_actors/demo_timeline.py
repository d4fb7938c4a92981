"""The call as it happens, for people: a line for each thing said or done, and on a terminal a live line below them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from parlora.events import Event, EventType, Source
from parlora_actors.demo_ledger import CallLedger
from parlora_actors.host_timing import now_us

_STYLES: Final = {"caller": "cyan", "assistant": "green", "desk": "yellow", "session": "bold"}
_REFRESH_HZ: Final = 8


class Timeline:
    """Writes to stderr; `tell` each event after the ledger has seen it."""

    def __init__(self, ledger: CallLedger) -> None:
        self._ledger = ledger
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._live: Live | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """While entered, a terminal shows the time and what runs below the lines."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, get_renderable=self._status, refresh_per_second=_REFRESH_HZ, transient=True):
            yield

    def tell(self, event: Event) -> None:
        """Write the event's line, if it has one."""
        line = self._line(event)
        if line is None:
            return
        who, what = line
        at_s = max(0, event.at_us - self._ledger.started_at_us) / 1_000_000
        text = Text(f"{at_s:6.1f} s  ")
        text.append(f"{who:<10}", style=_STYLES[who])
        text.append(what)
        self._console.print(text)

    def _line(self, event: Event) -> tuple[str, str] | None:
        payload = event.payload
        match (event.source, event.type):
            case (Source.SESSION, EventType.READY):
                return "session", f"ready after {self._ledger.ready_ms} ms"
            case (Source.PROVIDER, EventType.TRANSCRIPT_DELTA):
                who = "caller" if payload.get("speaker") == "user" else "assistant"
                return who, str(payload.get("delta")) or "(not understood)"
            case (Source.PROVIDER, EventType.OUTPUT_INTERRUPTED):
                return "caller", "interrupts"
            case (Source.SESSION, EventType.TASK_SUBMITTED):
                return "desk", f"looks up {self._name(event.request_id)}"
            case (Source.SESSION, EventType.TASK_SUPERSEDED):
                old = ", ".join(self._name(request_id) for request_id in payload["obsolete_request_ids"])
                return "desk", f"corrected: {old or 'the last question'} is not wanted any more"
            case (Source.SESSION, EventType.RESULT_RECORDED):
                kept = "" if payload["current"] else ": too late, it is not told"
                return "desk", f"found {self._name(event.request_id)}{kept}"
            case (Source.SESSION, EventType.FAILED):
                return "session", f"failed: {payload.get('error', {}).get('message', payload.get('cause'))}"
            case (Source.SESSION, EventType.CLOSED):
                return "session", f"closed: {payload.get('reason')}"
        return None

    def _name(self, request_id: str | None) -> str:
        lookup = self._ledger.lookups.get(request_id or "")
        return "a request" if lookup is None else f"{lookup.operation} of order {lookup.order}"

    def _status(self) -> Text:
        lookups = self._ledger.lookups.values()
        running = [f"{each.operation} of {each.order}" for each in lookups if each.completed_at_us is None]
        at_s = max(0, now_us() - self._ledger.started_at_us) / 1_000_000
        return Text(f"{at_s:6.1f} s  lookups running: {', '.join(running) or 'none'}", style="dim")
