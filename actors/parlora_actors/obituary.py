"""The end of a session whose coordinator cannot tell it any more (design §8)."""

from __future__ import annotations

from typing import Any, Final

from parlora.audio.port import Loss
from parlora.errors import InvalidArgument
from parlora.wire import packed_size
from parlora_actors.messages.supervision import RequestMirror
from parlora_actors.supervised_process import ChildExit

COORDINATOR_DOWN: Final = "coordinator_down"
NODE_STOPPING: Final = "node_stopping"
"""The node's deadline came before the session's own end."""
POLICY_DOWN: Final = "policy_down"
"""The policy worker died more often than it may."""

_ENVELOPE_BYTES: Final = 512
"""What a note needs beside its payload."""


class Mirror:
    """The requests that the coordinator had submitted and that had not finished, as far as it said."""

    def __init__(self) -> None:
        self._unfinished: dict[str, dict[str, Any]] = {}

    def note(self, message: RequestMirror) -> None:
        """A request was submitted, or finished."""
        if message.finished:
            self._unfinished.pop(message.request_id, None)
        else:
            self._unfinished[message.request_id] = dict(message.detail)

    def uncertain(self) -> dict[str, dict[str, Any]]:
        """Each unfinished request, its outcome unknown: nobody is left who could say more."""
        return {request_id: {**detail, "status": "uncertain"} for request_id, detail in self._unfinished.items()}


def closed_without_coordinator(
    exit: ChildExit | None, mirror: Mirror, killed: int, lost: Loss, cause: str = COORDINATOR_DOWN
) -> dict[str, Any]:
    """The payload of `closed` where the coordinator did not tell it.

    `exit` says how the coordinator ended, `lost` how much audio was still in the rings: nobody will read it.
    """
    payload: dict[str, Any] = {
        "reason": COORDINATOR_DOWN if cause == COORDINATOR_DOWN else "failed",
        "cause": cause,
        "jobs": mirror.uncertain(),
        "killed": killed,
        "audio_discontinuity": {
            "cause": "session_ended",
            "dropped_frames": lost.frames,
            "dropped_bytes": lost.bytes,
            "dropped_duration_us": lost.duration_us,
        },
    }
    return payload if exit is None else {**payload, "how": exit.summary}


def fit_for_note(payload: dict[str, Any], limit_bytes: int) -> dict[str, Any]:
    """The payload, or as much of it as a note may carry: the application has had the whole from the coordinator."""
    kept = dict(payload)
    for name in ("commands", "health", "jobs"):
        if packed_size(kept) <= limit_bytes - _ENVELOPE_BYTES:
            return kept
        if kept.pop(name, None) is not None:
            kept["shortened"] = True
    if packed_size(kept) > limit_bytes - _ENVELOPE_BYTES:
        raise InvalidArgument("a closed payload does not fit into a note")
    return kept
