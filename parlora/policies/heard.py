"""What a snapshot says about the caller's words: which have been acted on and which are new. Pure.

A policy keeps no memory, for its worker may be replaced at any time: what it has handled must show in the snapshot.
Two things tell. The policies here write `heard_through`, the `arrival_order` of the newest caption they acted on, into
the input of every task. And a delegation that was claimed or associated settles the captions that ended before it,
where the provider gives times.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from parlora.context.snapshot import ContextSnapshot
from parlora.contract.provider import Speaker

HEARD_THROUGH: Final = "heard_through"
"""The key in a task's input that says up to which caption its caller was heard."""

FRAGMENT_GAP_MS: Final = 300
"""Captions closer than this are pieces of one utterance; between two utterances a recognizer hears more silence."""


@dataclass(frozen=True, slots=True)
class Words:
    """What the caller said, oldest first; `through` is the newest caption's arrival order, 0 if there is none.

    Captions are fragments: those that follow each other closely, or whose times are unknown, are one utterance.
    """

    utterances: tuple[str, ...]
    through: int

    @property
    def text(self) -> str:
        """All of it as one text."""
        return " ".join(self.utterances)


def new_words(snapshot: ContextSnapshot) -> Words:
    """What the caller said that no task and no settled delegation covers yet."""
    heard = max((_heard_through(task) for task in snapshot.tasks.values()), default=0)
    settled = _settled_until(snapshot.pending_delegations.values())
    fresh = [
        caption
        for caption in caller_captions(snapshot)
        if caption["arrival_order"] > heard and not _is_settled(caption, settled)
    ]
    return Words(_utterances(fresh), fresh[-1]["arrival_order"] if fresh else 0)


def caller_captions(snapshot: ContextSnapshot) -> list[dict[str, Any]]:
    """The caller's captions in the order of their arrival, blank ones left out."""
    return [
        caption
        for caption in reversed(snapshot.transcripts)
        if caption["speaker"] == Speaker.USER and caption["delta"].strip()
    ]


def pending(snapshot: ContextSnapshot) -> list[dict[str, Any]]:
    """Delegations that wait for a decision, oldest first."""
    waiting = [each for each in snapshot.pending_delegations.values() if each["status"] == "pending"]
    return sorted(waiting, key=lambda each: (each["received_at_us"], each["id"]))


def newest_task(snapshot: ContextSnapshot) -> dict[str, Any] | None:
    """The task that acts on the latest words, None if there is none."""
    newest: dict[str, Any] | None = None
    for task in snapshot.tasks.values():
        if newest is None or _heard_through(task) >= _heard_through(newest):
            newest = task
    return newest


def words_have_come(snapshot: ContextSnapshot, delegation: dict[str, Any]) -> bool:
    """Whether the words that led to the delegation are known to be here, going by the provider's times."""
    offset, generation = delegation["offset_ms"], delegation["provider_generation"]
    return offset is not None and any(
        caption["end_ms"] is not None and caption["end_ms"] >= offset and caption["provider_generation"] == generation
        for caption in caller_captions(snapshot)
    )


def wait_expired(target: dict[str, Any], key: str) -> bool:
    """Whether the wait with this key on a delegation or task is over."""
    wait = target.get("context_wait")
    return wait is not None and wait["recheck_key"] == key and bool(wait["expired"])


def _utterances(captions: list[dict[str, Any]]) -> tuple[str, ...]:
    # A provider that sends pieces of words writes the spaces itself; one that sends whole utterances does not.
    joint = "" if any(caption["delta"] != caption["delta"].strip() for caption in captions) else " "
    found: list[str] = []
    ended_ms: float | None = None
    for caption in captions:
        start_ms = caption["start_ms"]
        apart = start_ms is not None and ended_ms is not None and start_ms - ended_ms >= FRAGMENT_GAP_MS
        if not found or apart:
            found.append(caption["delta"])
        else:
            found[-1] += joint + caption["delta"]
        ended_ms = caption["end_ms"]
    return tuple(" ".join(utterance.split()) for utterance in found)


def _heard_through(task: dict[str, Any]) -> int:
    value = task["input"].get(HEARD_THROUGH)
    return value if isinstance(value, int) else 0


def _settled_until(delegations: Iterable[dict[str, Any]]) -> dict[int, float]:
    """Per provider generation, the offset of the latest delegation that was claimed."""
    settled: dict[int, float] = {}
    for each in delegations:
        offset, generation = each["offset_ms"], each["provider_generation"]
        if each["status"] == "claimed" and offset is not None:
            settled[generation] = max(offset, settled.get(generation, offset))
    return settled


def _is_settled(caption: dict[str, Any], settled: dict[int, float]) -> bool:
    until = settled.get(caption["provider_generation"])
    return until is not None and caption["end_ms"] is not None and caption["end_ms"] <= until
