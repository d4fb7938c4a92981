"""What Gemini Live takes from a client: as strict as the service is documented to be, from its field tables.

Both spellings of a field are taken, as the service does; what comes out is in camel case.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Any, Final

INVALID: Final = 1007
POLICY: Final = 1008
MODELS: Final = frozenset({"models/gemini-3.8-live"})

_VERBATIM: Final = {"args", "response", "properties", "parametersJsonSchema"}  # what is in these is not the service's
_MESSAGES: Final = {
    "setup": {
        "model", "generationConfig", "systemInstruction", "tools", "realtimeInputConfig", "inputAudioTranscription",
        "outputAudioTranscription", "sessionResumption", "contextWindowCompression", "historyConfig", "proactivity",
        "safetySettings", "labels",
    },
    "clientContent": {"turns", "turnComplete"},
    "realtimeInput": {"audio", "text", "audioStreamEnd", "activityStart", "activityEnd", "video"},
    "toolResponse": {"functionResponses"},
    "contextUpdate": {"systemInstruction", "tools"},
}  # fmt: skip
_GENERATION: Final = {
    "responseModalities", "speechConfig", "temperature", "topP", "topK", "maxOutputTokens", "seed", "mediaResolution",
}  # fmt: skip
_REALTIME: Final = {
    "automaticActivityDetection", "activityHandling", "turnCoverage", "interimTranscriptTimestampEnabled",
}  # fmt: skip
_DETECTION: Final = {
    "disabled", "startOfSpeechSensitivity", "endOfSpeechSensitivity", "prefixPaddingMs", "silenceDurationMs",
}  # fmt: skip
_RESPONSE: Final = {"id", "name", "response", "scheduling", "willContinue"}
_SCHEDULING: Final = {"SILENT", "WHEN_IDLE", "INTERRUPT"}
_FUNCTION: Final = {"name", "description", "parameters", "parametersJsonSchema", "behavior"}


@dataclass(frozen=True)
class Refusal(Exception):
    """Why the connection is closed: a close code and its reason."""

    code: int
    reason: str


def camel(value: Any) -> Any:
    """The same with every field of the service's in camel case."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub(r"_([a-z])", lambda found: found[1].upper(), str(key)): item for key, item in value.items()}
    return {key: item if key in _VERBATIM else camel(item) for key, item in named.items()}


def check(message: Any) -> tuple[str, dict[str, Any]]:
    """The message's one key and what is under it, in camel case; raises `Refusal`."""
    if not isinstance(message, dict) or len(message) != 1:
        raise Refusal(INVALID, "a message is an object with one field")
    ((kind, body),) = camel(message).items()
    if kind not in _MESSAGES:
        raise Refusal(INVALID, f"Unknown name {kind[:40]}")
    _known(body, _MESSAGES[kind], kind)
    _CHECKS[kind](body)
    return kind, body


def audio(blob: Any) -> tuple[bytes, int]:
    """The PCM16 in an audio message and its rate."""
    _known(blob, {"mimeType", "data"}, "audio")
    rate = re.fullmatch(r"audio/pcm(?:;rate=(\d+))?", str(blob.get("mimeType")))
    try:
        # the vendor's client writes URL-safe base64
        data = base64.b64decode(str(blob.get("data")).replace("-", "+").replace("_", "/"), validate=True)
    except (binascii.Error, ValueError):
        raise Refusal(INVALID, "audio is no base64") from None
    if rate is None or not data or len(data) % 2:
        raise Refusal(INVALID, "audio must be PCM16")
    return data, int(rate[1] or 16_000)


def _known(value: Any, names: set[str], where: str) -> None:
    if not isinstance(value, dict):
        raise Refusal(INVALID, f"{where} must be an object")
    unknown = sorted(set(value) - names)
    if unknown:
        raise Refusal(INVALID, f"Unknown name {unknown[0][:40]} at {where}")


def _check_setup(setup: dict[str, Any]) -> None:
    if setup.get("model") not in MODELS:
        raise Refusal(POLICY, "the model is not found, or not supported for bidiGenerateContent")
    generation = setup.get("generationConfig", {})
    _known(generation, _GENERATION, "setup.generationConfig")  # neither thinkingConfig nor enableAffectiveDialog
    if generation.get("responseModalities", ["AUDIO"]) != ["AUDIO"]:
        raise Refusal(INVALID, "response modalities must be AUDIO")
    if setup.get("proactivity", {}).get("proactiveAudio") is False:
        raise Refusal(INVALID, "proactive audio cannot be off")
    _known(
        setup.get("sessionResumption", {}), {"handle"}, "setup.sessionResumption"
    )  # `transparent` is not for this API
    realtime = setup.get("realtimeInputConfig", {})
    _known(realtime, _REALTIME, "setup.realtimeInputConfig")
    _known(realtime.get("automaticActivityDetection", {}), _DETECTION, "setup.automaticActivityDetection")
    for tool in setup.get("tools", []):
        _known(tool, {"functionDeclarations", "googleSearch"}, "setup.tools")
        for function in tool.get("functionDeclarations", []):
            _check_function(function)


def _check_function(function: Any) -> None:
    _known(function, _FUNCTION, "setup.tools.functionDeclarations")
    if not re.fullmatch(r"[A-Za-z_].{0,127}", str(function.get("name", ""))):
        raise Refusal(INVALID, "a function's name begins with a letter or _")
    if function.get("behavior", "NON_BLOCKING") not in ("NON_BLOCKING", "BLOCKING"):
        raise Refusal(INVALID, "no such behavior")


def _check_content(content: dict[str, Any]) -> None:
    for turn in content.get("turns", []):
        _known(turn, {"role", "parts"}, "clientContent.turns")
        if turn.get("role") not in ("user", "model"):
            raise Refusal(INVALID, "Please use a valid role: user, model.")
        for part in turn.get("parts", []):
            _known(part, {"text"}, "clientContent.turns.parts")


def _check_input(body: dict[str, Any]) -> None:
    if len(body) != 1:
        raise Refusal(INVALID, "a realtime input has one field")
    if "audio" in body:
        audio(body["audio"])


def _check_responses(body: dict[str, Any]) -> None:
    for response in body.get("functionResponses", []):
        _known(response, _RESPONSE, "toolResponse.functionResponses")
        if not isinstance(response.get("response"), dict):
            raise Refusal(INVALID, "a response must be an object")
        if response.get("scheduling", "WHEN_IDLE") not in _SCHEDULING:
            raise Refusal(INVALID, "no such scheduling")


def _check_update(body: dict[str, Any]) -> None:
    _known(body.get("systemInstruction", {}), {"parts", "role"}, "contextUpdate.systemInstruction")


_CHECKS: Final = {
    "setup": _check_setup,
    "clientContent": _check_content,
    "realtimeInput": _check_input,
    "toolResponse": _check_responses,
    "contextUpdate": _check_update,
}
