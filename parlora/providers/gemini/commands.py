"""What we send to Gemini Live, as JSON text: one function a message, no state."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from parlora.contract.provider import ContextKind, DelegationOutcome
from parlora.errors import InvalidArgument
from parlora.providers.gemini.functions import DEFAULT_FUNCTIONS

MODEL: Final = "gemini-3.8-live"
INPUT_HZ: Final = 16_000
OUTPUT_HZ: Final = 24_000

_AUDIO_HEAD: Final = '{"realtimeInput":{"audio":{"mimeType":"audio/pcm;rate=16000","data":"'
_ROLE: Final = {"user": "user", "assistant": "model"}

NOTES: Final[dict[ContextKind, str]] = {
    ContextKind.QUIET: "Note from the application, not said by the caller; do not answer it: ",
    ContextKind.SPEAKABLE: "Note from the application, not said by the caller; tell the caller: ",
    ContextKind.INSTRUCTION: "Instruction from the application, not said by the caller; follow it from now on: ",
}
"""What a text outside a function call begins with: the service has no role of its own for it, only the caller's."""

_OUTCOMES: Final[dict[DelegationOutcome, dict[str, str]]] = {
    # never empty: an empty result makes the model call again with other arguments
    DelegationOutcome.COMPLETED: {"output": "Done. There is nothing to tell."},
    DelegationOutcome.NO_CONTENT: {"output": "Done. There is nothing to tell."},
    DelegationOutcome.SUPERSEDED: {"output": "A newer request has taken the place of this one."},
    DelegationOutcome.CANCELLED: {"error": "The work was cancelled."},
    DelegationOutcome.FAILED: {"error": "The work failed."},
    DelegationOutcome.UNCERTAIN: {"error": "It is not known whether the work was done."},
}


class Scheduling(StrEnum):
    """When a function's response is spoken of. The service's own pages also spell the last one `INTERRUPTED`."""

    SILENT = "SILENT"
    WHEN_IDLE = "WHEN_IDLE"
    INTERRUPT = "INTERRUPT"


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """What `setup` may say beside instructions and history; None takes the service's default.

    voice: a prebuilt voice's name. language: a BCP-47 code. start_sensitivity, end_sensitivity: `high` or `low`.
    prefix_padding_ms, silence_duration_ms: of the service's own speech detection.
    """

    voice: str | None = None
    language: str | None = None
    functions: tuple[Mapping[str, Any], ...] = DEFAULT_FUNCTIONS
    start_sensitivity: str | None = None
    end_sensitivity: str | None = None
    prefix_padding_ms: int | None = None
    silence_duration_ms: int | None = None


def setup(options: SetupOptions, instructions: str | None, *, history: bool, handle: str | None) -> str:
    """The first message. history: whether a startup history follows. handle: of the session that is resumed."""
    generation: dict[str, Any] = {"responseModalities": ["AUDIO"]}
    speech = _without_none(
        voiceConfig=None if options.voice is None else {"prebuiltVoiceConfig": {"voiceName": options.voice}},
        languageCode=options.language,
    )
    if speech:
        generation["speechConfig"] = speech
    body: dict[str, Any] = {
        "model": f"models/{MODEL}",
        "generationConfig": generation,
        "tools": [{"functionDeclarations": [{**each, "behavior": "NON_BLOCKING"} for each in options.functions]}],
        "realtimeInputConfig": {
            "activityHandling": "START_OF_ACTIVITY_INTERRUPTS",
            "automaticActivityDetection": _detection(options),
        },
        "inputAudioTranscription": {},
        "outputAudioTranscription": {},
        "sessionResumption": {} if handle is None else {"handle": handle},
        # without it a session ends after 15 minutes
        "contextWindowCompression": {"slidingWindow": {}},
    }
    if instructions:
        body["systemInstruction"] = _instruction(instructions)
    if history:
        body["historyConfig"] = {"initialHistoryInClientContent": True}
    return _json({"setup": body})


def history(entries: Sequence[Mapping[str, Any]]) -> str:
    """What was said before the call, which starts no answer; raises `InvalidArgument` naming the entry."""
    turns = [_turn_of(entry, index) for index, entry in enumerate(entries)]
    return _json({"clientContent": {"turns": turns, "turnComplete": True}})


def audio(data: bytes) -> str:
    """PCM16 at 16 kHz."""
    return _AUDIO_HEAD + base64.b64encode(data).decode("ascii") + '"}}}'


def content(text: str, *, speak: bool) -> str:
    """A text outside any call. speak: begin to answer at once, which interrupts what is being said."""
    turn = {"role": "user", "parts": [{"text": text}]}
    return _json({"clientContent": {"turns": [turn], "turnComplete": speak}})


def system_instruction(text: str) -> str:
    """Replace the system instruction."""
    return _json({"contextUpdate": {"systemInstruction": _instruction(text)}})


def response(call_id: str, name: str, body: Mapping[str, Any], scheduling: Scheduling, *, more: bool = False) -> str:
    """A response to a function call. more: further ones will follow, else this is the last."""
    answer: dict[str, Any] = {"id": call_id, "name": name, "response": dict(body), "scheduling": str(scheduling)}
    if more:
        answer["willContinue"] = True
    return _json({"toolResponse": {"functionResponses": [answer]}})


def outcome(call_id: str, name: str, how: DelegationOutcome) -> str:
    """The last response to a call for which nothing is to be said."""
    return response(call_id, name, _OUTCOMES[how], Scheduling.SILENT)


def _detection(options: SetupOptions) -> dict[str, Any]:
    start, end = options.start_sensitivity, options.end_sensitivity
    return _without_none(
        startOfSpeechSensitivity=None if start is None else f"START_SENSITIVITY_{start.upper()}",
        endOfSpeechSensitivity=None if end is None else f"END_SENSITIVITY_{end.upper()}",
        prefixPaddingMs=options.prefix_padding_ms,
        silenceDurationMs=options.silence_duration_ms,
    )


def _instruction(text: str) -> dict[str, Any]:
    return {"parts": [{"text": text}]}


def _turn_of(entry: Mapping[str, Any], index: int) -> dict[str, Any]:
    role, text = entry.get("speaker"), entry.get("text")
    if role not in _ROLE or not isinstance(text, str) or not text:
        raise InvalidArgument(
            f"history[{index}] must be {{speaker: user or assistant, text: non-empty}}", field=f"history[{index}]"
        )
    return {"role": _ROLE[role], "parts": [{"text": text}]}


def _without_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _json(message: Mapping[str, Any]) -> str:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False)
