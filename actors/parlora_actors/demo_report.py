"""What the demonstration showed, as one object, and whether that is what it had to show."""

from __future__ import annotations

from typing import Any

from parlora.orderdesk.demo_script import ANSWERS, SUPERSEDED
from parlora.orderdesk.evidence import statements
from parlora.orderdesk.orders import spoken
from parlora_actors.demo_ledger import CallLedger
from parlora_actors.demo_proof import Heard, judge_recording


def report(ledger: CallLedger, heard: list[Heard], processes: int, leftovers: list[str]) -> dict[str, Any]:
    """The object that `demo --json` ends with; `problems` names, in words, everything that keeps `ok` from being true.

    ready_ms: from the start of the session to `ready`. processes: of node and session while the call ran. answers: each
    whole fact recognized in the assistant's recorded speech. superseded: lookups whose question was taken back while
    they ran. late_results: how many of their results arrived after that; withheld: how many of those were not handed
    on. stale_results_spoken: utterances in the recorded speech that name the order that was taken back, or say
    something untrue. unrecognized: utterances that could have been anything; the one that was cut short may be.
    """
    verdict = judge_recording(heard)
    superseded = ledger.superseded()
    late = [each for each in superseded if each.came_late]
    answers = [
        {
            "order": statement.number,
            "operation": str(statement.operation),
            "true": statement.true,
            "start_ms": utterance.start_ms,
            "text": utterance.text,
        }
        for utterance in heard
        for statement in statements(utterance.text)
    ]
    problems = [f"{operation} of order {order} was not heard" for order, operation in verdict.missing]
    stale = [each.text for each in heard if _is_stale(each)]
    problems += [f"this should not have been said: {text}" for text in stale]
    unrecognized = [each for each in heard if not each.text]
    if len(unrecognized) > ledger.interruptions:
        problems.append(f"{len(unrecognized)} utterances were not recognized, so they prove nothing")
    if [each.order for each in superseded] != [SUPERSEDED]:
        problems.append(f"the lookup of order {SUPERSEDED} was not superseded while it ran")
    elif not late:
        problems.append(f"the result of order {SUPERSEDED} did not arrive after the correction")
    elif not all(each.withheld for each in late):
        problems.append(f"the result of order {SUPERSEDED} was not withheld")
    if ledger.interruptions != 1:
        problems.append(f"{ledger.interruptions} interruptions instead of 1")
    if ledger.failure is not None:
        error = ledger.failure.get("error") or {}
        problems.append(f"the session failed: {error.get('message', ledger.failure.get('cause'))}")
    problems += [f"left behind: {each}" for each in leftovers]
    return {
        "ok": not problems,
        "ready_ms": ledger.ready_ms,
        "processes": processes,
        "answers": answers,
        "superseded": len(superseded),
        "late_results": len(late),
        "withheld": sum(each.withheld for each in late),
        "stale_results_spoken": len(stale),
        "unrecognized": len(unrecognized),
        "interruptions": ledger.interruptions,
        "discontinuities": ledger.discontinuities,
        "leftovers": leftovers,
        "problems": problems,
    }


def _is_stale(utterance: Heard) -> bool:
    return spoken(SUPERSEDED) in utterance.text or bool(judge_recording([utterance]).stale)


EXPECTED = tuple((order, str(operation)) for order, operation in ANSWERS)
"""Order and operation of the answers that the caller waits for."""
