"""Grok Voice 3.0 as a provider (spec 000 §5): options, capabilities and limits."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from parlora.audio.format import AudioFormat
from parlora.contract.adapter import AdapterInit
from parlora.contract.provider import ContextKind, ProviderCapabilities, Speaker
from parlora.errors import InvalidArgument
from parlora.limits import AudioLimits
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.connection import Endpoint
from parlora.providers.cloud.credentials import Credential, CredentialSource
from parlora.providers.cloud.options import check_integer, check_text, check_url
from parlora.providers.cloud.shell import CloudProvider
from parlora.providers.gemini.functions import check_functions
from parlora.providers.grok.codec import GrokCodec
from parlora.providers.grok.commands import DEFAULT_FUNCTIONS, MODELS, SessionOptions

URL: Final = "wss://api.x.ai/v1/realtime"
DEFAULT_KEY_ENV: Final = "XAI_API_KEY"

STORE_US: Final = 20_000_000
MAX_AGE_MS: Final = 21_000
"""Grok sends an answer faster than it is spoken, so the store is a reservoir (acceptance LM-08)."""

_MAX_DETECTION_MS: Final = 10_000
_THRESHOLD: Final = (0.1, 0.9)


class Grok(CloudProvider):
    """Grok Voice 3.0 over its realtime WebSocket; mono PCM16 at 24 kHz or mu-law at 8 kHz, as they are.

    Options:

    * `api_key_env`: name of the environment variable that holds the key, default `XAI_API_KEY`; or `api_key_file`: path
      of a file that holds it.
    * `url`: in place of the service's own; `ws://` only to this machine. `ca_file`: PEM file of certificates to trust
      besides the system's.
    * `model`: `grok-voice-3.0` (default) or `grok-voice-latest`. `voice`: a voice's name or id, e.g. `eve`; `language`:
      hint of what the caller speaks, e.g. `en`; `reasoning_effort`: `high` or `none`. None takes the service's default.
    * `functions`: what the model may call, `[{name, description, parameters}]` with a JSON Schema as `parameters`; each
      call is a delegation. By default one, `ask_application`.
    * `threshold`: 0.1 to 0.9; `prefix_padding_ms`, `silence_duration_ms`: 0 to 10,000: the service's speech detection.

    History may have entries `{speaker: user or assistant, text}`. Updates are speakable ones only, and nothing is
    acknowledged: `context_submitted` tells that a text was written to the socket, no more. An answer to a delegation is
    its function's output; any other text is a message of the role system. The service is then asked to answer: at once,
    or when it has finished what it is saying and the caller is silent. If it begins no response within the session's
    `startup_timeout_ms` after that, the call fails.

    An interruption tells the service how much of the answer had left the generated audio's queue. A lost connection,
    and the service's own limits (`timeout`, `max_duration`), end the call.
    """

    capabilities = ProviderCapabilities(
        audio_formats=(AudioFormat.pcm16(), AudioFormat.pcmu()),
        same_format_both_directions=True,
        full_duplex=True,
        transcripts=(Speaker.USER, Speaker.ASSISTANT),
        delegation_modes=("client",),
        context_update_kinds=(ContextKind.SPEAKABLE,),
        input_mute=True,
        usage=False,
        context_acknowledgment=False,
    )

    def __init__(
        self,
        *,
        api_key_env: object = None,
        api_key_file: object = None,
        url: object = URL,
        ca_file: object = None,
        model: object = MODELS[0],
        voice: object = None,
        language: object = None,
        reasoning_effort: object = None,
        functions: object = None,
        threshold: object = None,
        prefix_padding_ms: object = None,
        silence_duration_ms: object = None,
    ) -> None:
        super().__init__(CredentialSource(api_key_env, api_key_file, DEFAULT_KEY_ENV))
        model = _one_of(model, "model", MODELS)
        url = check_url(url)
        if urlsplit(url).query:
            raise InvalidArgument("url must have no query: the model is an option of its own", field="url")
        self._url = f"{url}?{urlencode({'model': model})}"
        self._ca_file = check_text(ca_file, "ca_file")
        self._options = SessionOptions(
            voice=check_text(voice, "voice"),
            language=check_text(language, "language"),
            functions=DEFAULT_FUNCTIONS if functions is None else check_functions(functions),
            reasoning_effort=_one_of(reasoning_effort, "reasoning_effort", (None, "high", "none")),
            threshold=_check_threshold(threshold),
            prefix_padding_ms=check_integer(prefix_padding_ms, "prefix_padding_ms", 0, _MAX_DETECTION_MS),
            silence_duration_ms=check_integer(silence_duration_ms, "silence_duration_ms", 0, _MAX_DETECTION_MS),
        )

    @classmethod
    def audio_limits(cls, format: AudioFormat) -> AudioLimits:
        """20 s of generated audio, none older than 21 s."""
        return AudioLimits(format.bytes_for_us(STORE_US), MAX_AGE_MS)

    def endpoint(self, credential: Credential) -> Endpoint:
        """The key goes into a header, the model into the query."""
        return Endpoint(self._url, {"Authorization": f"Bearer {credential.reveal()}"}, self._ca_file)

    def wire_formats(self, format: AudioFormat) -> tuple[AudioFormat, AudioFormat]:
        """The service speaks both formats itself."""
        return format, format

    def new_codec(self, init: AdapterInit) -> CloudCodec:
        """A session with the instructions and history of the application."""
        assert init.audio_format is not None
        timeout_ms = init.limits.startup_timeout_ms
        return GrokCodec(self._options, init.audio_format, init.instructions, init.history, timeout_ms)


def _one_of(value: object, field: str, allowed: tuple[str | None, ...]) -> Any:
    if not isinstance(value, str | None) or value not in allowed:
        known = ", ".join(str(each) for each in allowed)
        raise InvalidArgument(f"{field} must be one of {known}", field=field)
    return value


def _check_threshold(value: object) -> float | None:
    least, most = _THRESHOLD
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidArgument(f"threshold must be a number from {least} to {most}", field="threshold")
    return value
