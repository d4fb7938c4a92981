"""Gemini 3.8 Live as a provider (spec 000 §5): options, capabilities, limits and resumption."""

from __future__ import annotations

from typing import Any, Final

from parlora.audio.format import AudioFormat, Encoding
from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import AdapterInit
from parlora.contract.provider import ContextKind, ProviderCapabilities, Speaker
from parlora.errors import InvalidArgument
from parlora.limits import AudioLimits
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.connection import End, Endpoint, EndReason
from parlora.providers.cloud.credentials import Credential, CredentialSource
from parlora.providers.cloud.options import check_integer, check_text, check_url
from parlora.providers.cloud.shell import CloudProvider
from parlora.providers.gemini.calls import Ledger
from parlora.providers.gemini.codec import CodecOptions, GeminiCodec
from parlora.providers.gemini.commands import INPUT_HZ, MODEL, OUTPUT_HZ, SetupOptions
from parlora.providers.gemini.functions import check_functions

API_VERSIONS: Final = ("v1beta", "v1alpha")
URL: Final = (
    "wss://generativelanguage.googleapis.com/ws/"
    "google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent"
)
DEFAULT_KEY_ENV: Final = "GEMINI_API_KEY"

STORE_US: Final = 10_000_000
MAX_AGE_MS: Final = 11_000
"""Gemini sends an answer faster than it is spoken, so the store is a reservoir (acceptance LM-07)."""

_HEARS: Final = AudioFormat(Encoding.PCM16LE, INPUT_HZ)
_SAYS: Final = AudioFormat(Encoding.PCM16LE, OUTPUT_HZ)
_MAX_DETECTION_MS: Final = 10_000
_LASTING_CODES: Final = frozenset({1007, 1008})  # invalid argument and policy: the same again would end the same way
_LASTING_STATUS: Final = range(400, 429)  # refused for what was asked; 429 and above are for now
_LASTING_REASONS: Final = frozenset({EndReason.TOO_LARGE, EndReason.PROTOCOL})


class Gemini(CloudProvider):
    """Gemini 3.8 Live over its WebSocket; mono PCM16 at 24 kHz or mu-law at 8 kHz, converted here.

    Options:

    * `api_key_env`: name of the environment variable that holds the key, default `GEMINI_API_KEY`; or `api_key_file`:
      path of a file that holds it.
    * `api_version`: `v1beta` (default) or `v1alpha`. `url`: in place of the service's own; `ws://` only to this
      machine. `ca_file`: PEM file of certificates to trust besides the system's.
    * `model`: `gemini-3.8-live`, the only one. `voice`: a prebuilt voice, e.g. `Puck`; `language`: a code such as
      `en-US`; None takes the service's default.
    * `functions`: what the model may call, `[{name, description, parameters}]`; each call is a delegation. By default
      one, `ask_application`.
    * `start_sensitivity`, `end_sensitivity`: `high` or `low`; `prefix_padding_ms`, `silence_duration_ms`: 0 to 10,000:
      the service's own speech detection.
    * `instructions_replace`: send appended instructions as a new system instruction. Default False, as content: it is
      not known whether this model takes the other message.
    * `usage_adds`: add up the token counts of the messages. Default True; the service does not say whether each is one
      response's or the session's.

    History may have entries `{speaker: user or assistant, text}`. Nothing is acknowledged: `context_submitted` tells
    that a text was written to the socket, no more. An answer to a delegation is its function's response; a quiet text
    for it leaves it open. Any other text is content of the caller's role, marked as the application's, for want of a
    role of its own. A speakable one interrupts what is being said, and a quiet one is read with what comes next.

    A connection that is lost, or that the service announces to end, is resumed in the same session: `reconnecting` and
    `resumed` by `provider_connection`, within 4 s, or the call fails. What the caller says meanwhile is lost, and told.
    """

    capabilities = ProviderCapabilities(
        audio_formats=(AudioFormat.pcm16(), AudioFormat.pcmu()),
        same_format_both_directions=True,
        full_duplex=True,
        transcripts=(Speaker.USER, Speaker.ASSISTANT),
        delegation_modes=("client",),
        context_update_kinds=(ContextKind.QUIET, ContextKind.SPEAKABLE, ContextKind.INSTRUCTION),
        input_mute=True,
        usage=True,
        context_acknowledgment=False,
    )
    resume_pause_ms = 1_000  # measured: refused at once after a loss, taken 1.5 s later

    def __init__(
        self,
        *,
        api_key_env: object = None,
        api_key_file: object = None,
        api_version: object = API_VERSIONS[0],
        url: object = None,
        ca_file: object = None,
        model: object = MODEL,
        voice: object = None,
        language: object = None,
        functions: object = None,
        start_sensitivity: object = None,
        end_sensitivity: object = None,
        prefix_padding_ms: object = None,
        silence_duration_ms: object = None,
        instructions_replace: object = False,
        usage_adds: object = True,
    ) -> None:
        super().__init__(CredentialSource(api_key_env, api_key_file, DEFAULT_KEY_ENV))
        version = _one_of(api_version, "api_version", API_VERSIONS)
        self._url = URL.format(version=version) if url is None else check_url(url)
        self._ca_file = check_text(ca_file, "ca_file")
        _one_of(model, "model", (MODEL,))
        setup = SetupOptions(
            voice=check_text(voice, "voice"),
            language=check_text(language, "language"),
            functions=check_functions(functions),
            start_sensitivity=_one_of(start_sensitivity, "start_sensitivity", (None, "high", "low")),
            end_sensitivity=_one_of(end_sensitivity, "end_sensitivity", (None, "high", "low")),
            prefix_padding_ms=check_integer(prefix_padding_ms, "prefix_padding_ms", 0, _MAX_DETECTION_MS),
            silence_duration_ms=check_integer(silence_duration_ms, "silence_duration_ms", 0, _MAX_DETECTION_MS),
        )
        self._options = CodecOptions(
            setup=setup,
            instructions_replace=_flag(instructions_replace, "instructions_replace"),
            usage_adds=_flag(usage_adds, "usage_adds"),
        )

    @classmethod
    def audio_limits(cls, format: AudioFormat) -> AudioLimits:
        """10 s of generated audio, none older than 11 s."""
        return AudioLimits(format.bytes_for_us(STORE_US), MAX_AGE_MS)

    def endpoint(self, credential: Credential) -> Endpoint:
        """The key goes into a header: URLs end up in logs."""
        return Endpoint(self._url, {"x-goog-api-key": credential.reveal()}, self._ca_file)

    def wire_formats(self, format: AudioFormat) -> tuple[AudioFormat, AudioFormat]:
        """The service hears PCM16 at 16 kHz and says PCM16 at 24 kHz, whatever the session's format."""
        return _HEARS, _SAYS

    def new_codec(self, init: AdapterInit) -> CloudCodec:
        """A session with the instructions and history of the application."""
        self._instructions = init.instructions
        return GeminiCodec(self._options, init.instructions, init.history, Ledger())

    def next_codec(self, previous: CloudCodec, snapshot: ContextSnapshot | None) -> CloudCodec | None:
        """The same session on another connection, if the service has given a handle for it."""
        if snapshot is not None or not isinstance(previous, GeminiCodec) or previous.ledger.handle is None:
            return None
        return GeminiCodec(self._options, self._instructions, (), previous.ledger)

    def is_resumable(self, end: End) -> bool:
        """Not after an end that says that what we sent, or who we are, is wrong."""
        if end.reason is EndReason.CLOSED_BY_SERVICE:
            return end.code not in _LASTING_CODES
        if end.reason is EndReason.REFUSED:
            return end.code not in _LASTING_STATUS
        return end.reason not in _LASTING_REASONS


def _one_of(value: object, field: str, allowed: tuple[str | None, ...]) -> Any:
    if value not in allowed or not isinstance(value, str | None):
        known = ", ".join(str(each) for each in allowed)
        raise InvalidArgument(f"{field} must be one of {known}", field=field)
    return value


def _flag(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgument(f"{field} must be True or False", field=field)
    return value
