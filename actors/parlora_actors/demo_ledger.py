"""What the events of the demonstration's call prove, and when the call is over. Pure: events in, facts out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from parlora.events import Event, EventType, Source
from parlora.orderdesk.evidence import Statement, statements

QUIET_US: Final = 1_200_000
"""The call is over when all is answered and the assistant has been silent for so long."""


@dataclass
class Lookup:
    """One request to the backend: what was asked, whether it was taken back, and what became of its result."""

    request_id: str
    order: str
    operation: str
    superseded_at_us: int | None = None
    completed_at_us: int | None = None
    stage: str | None = None

    @property
    def came_late(self) -> bool:
        """Whether its result arrived after the caller had taken the question back."""
        return None not in (self.superseded_at_us, self.completed_at_us) and (
            (self.completed_at_us or 0) > (self.superseded_at_us or 0)
        )

    @property
    def withheld(self) -> bool:
        """Whether the session recorded the result and refused to hand it to the provider."""
        return self.came_late and self.stage == "stale"


@dataclass
class CallLedger:
    """Facts of one call, kept from its events."""

    started_at_us: int
    expected: tuple[tuple[str, str], ...]
    """Order and operation of each answer that the caller waits for."""

    ready_ms: int | None = None
    lookups: dict[str, Lookup] = field(default_factory=dict)
    interruptions: int = 0
    discontinuities: list[dict[str, Any]] = field(default_factory=list)
    captions: list[str] = field(default_factory=list)
    failure: dict[str, Any] | None = None
    closed: dict[str, Any] | None = None
    _quiet_since_us: int | None = None

    def observe(self, event: Event) -> None:
        """Take note of one event."""
        payload = event.payload
        match (event.source, event.type):
            case (Source.SESSION, EventType.READY):
                self.ready_ms = (event.at_us - self.started_at_us) // 1_000
            case (Source.SESSION, EventType.FAILED):
                self.failure = payload
            case (Source.SESSION, EventType.CLOSED):
                self.closed = payload
            case (Source.SESSION, EventType.TASK_SUBMITTED):
                self._submitted(payload["request"])
            case (Source.SESSION, EventType.TASK_SUPERSEDED):
                for request_id in payload["obsolete_request_ids"]:
                    self.lookups[request_id].superseded_at_us = event.at_us
            case (Source.BACKEND, EventType.REQUEST_COMPLETED) if event.request_id in self.lookups:
                self.lookups[event.request_id].completed_at_us = event.at_us
            case (Source.SESSION, EventType.RESULT_DELIVERY) if event.request_id in self.lookups:
                self.lookups[event.request_id].stage = payload["stage"]
            case (Source.PROVIDER, EventType.OUTPUT_INTERRUPTED):
                self.interruptions += 1
            case (_, EventType.AUDIO_DISCONTINUITY):
                self.discontinuities.append({"source": event.source, **payload})
            case (Source.PROVIDER, EventType.TRANSCRIPT_DELTA) if payload.get("speaker") == "assistant":
                self.captions.append(str(payload.get("delta", "")))
            case (Source.PROVIDER, EventType.PROVIDER_SPEECH):
                self._quiet_since_us = event.at_us if payload.get("status") == "idle" else None

    def is_over(self, now_us: int) -> bool:
        """Whether everything has been answered, the late result has arrived, and the assistant has fallen silent."""
        if self.closed is not None:
            return True
        quiet = self._quiet_since_us is not None and now_us - self._quiet_since_us >= QUIET_US
        return quiet and not self.unanswered() and any(each.came_late for each in self.lookups.values())

    def unanswered(self) -> list[tuple[str, str]]:
        """Expected answers of which the assistant's own captions show nothing yet, in order."""
        waiting = list(self.expected)
        for statement in self.said():
            if waiting and (statement.number, str(statement.operation)) == waiting[0]:
                waiting.pop(0)
        return waiting

    def said(self) -> list[Statement]:
        """The whole facts in the assistant's captions."""
        return [statement for caption in self.captions for statement in statements(caption)]

    def superseded(self) -> list[Lookup]:
        """The lookups whose question was taken back while they ran."""
        return [each for each in self.lookups.values() if each.superseded_at_us is not None]

    def _submitted(self, request: dict[str, Any]) -> None:
        asked = request["input"]
        lookup = Lookup(request["id"], str(asked.get("order")), str(asked.get("operation")))
        self.lookups.setdefault(lookup.request_id, lookup)
