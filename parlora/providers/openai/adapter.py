"""GPT-Live as a provider (spec 000 §5): options, capabilities, limits and recovery."""

from __future__ import annotations

from typing import Final

from parlora.audio.format import AudioFormat
from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import AdapterInit
from parlora.contract.provider import ContextKind, ProviderCapabilities, Speaker
from parlora.errors import InvalidArgument
from parlora.ids import new_id
from parlora.limits import AudioLimits
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.connection import Endpoint
from parlora.providers.cloud.credentials import Credential, CredentialSource
from parlora.providers.cloud.options import check_ca_file, check_integer, check_text, check_url
from parlora.providers.cloud.shell import CloudProvider
from parlora.providers.openai.commands import MODELS, StartOptions
from parlora.providers.openai.session import LiveSession, history_of

URL: Final = "wss://api.openai.com/v1/live/sessions"
DEFAULT_KEY_ENV: Final = "OPENAI_API_KEY"

STORE_US: Final = 2_000_000
MAX_AGE_MS: Final = 3_000
"""GPT-Live speaks in real time, silence included, so two seconds bridge any hitch (acceptance LM-06)."""

_MAX_DELAY_MS: Final = 60_000


class OpenAI(CloudProvider):
    """GPT-Live over its WebSocket; mono PCM16 at 24 kHz or mu-law at 8 kHz, the same both ways.

    Options:

    * `api_key_env`: name of the environment variable that holds the key, default `OPENAI_API_KEY`; or `api_key_file`:
      path of a file that holds it.
    * `url`: default `wss://api.openai.com/v1/live/sessions`; `ws://` only to this machine. `ca_file`: PEM file of
      certificates to trust besides the system's.
    * `model`: `gpt-live-1` (default) or `gpt-live-1.1`. `voice`: a built-in voice; None takes the service's default.
    * `acknowledgement_delay_ms`: before the model says by itself that it is working on a delegation; 0 to 60,000.
    * `safety_identifier`: a stable id of the end user.

    Instructions and history are the session's; the history may have 128 messages `{speaker: user, assistant or
    developer, text}`. Token limits (16,384 for instructions, 8,192 for history, 500 an append) are the service's to
    judge. Speech status is not reported: the service has no such event, so `provider_speech` stays unknown.

    After an overload of the generated-audio store the transport is replaced within 5 s, or the session fails. The fresh
    one is told the startup history and the newest captions; appends not acknowledged by then stay without an outcome,
    and delegation ids of before are void at the service.
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
        context_acknowledgment=True,
    )
    recovers_output = True

    def __init__(
        self,
        *,
        api_key_env: object = None,
        api_key_file: object = None,
        url: object = URL,
        ca_file: object = None,
        model: object = MODELS[0],
        voice: object = None,
        acknowledgement_delay_ms: object = None,
        safety_identifier: object = None,
    ) -> None:
        super().__init__(CredentialSource(api_key_env, api_key_file, DEFAULT_KEY_ENV))
        self._url = check_url(url)
        self._ca_file = check_ca_file(ca_file)
        self._options = StartOptions(
            model=check_text(model, "model", optional=False),
            voice=check_text(voice, "voice"),
            acknowledgement_delay_ms=check_integer(
                acknowledgement_delay_ms, "acknowledgement_delay_ms", 0, _MAX_DELAY_MS
            ),
            safety_identifier=check_text(safety_identifier, "safety_identifier"),
        )

    @classmethod
    def audio_limits(cls, format: AudioFormat) -> AudioLimits:
        """2 s of generated audio, none older than 3 s."""
        return AudioLimits(format.bytes_for_us(STORE_US), MAX_AGE_MS)

    def endpoint(self, credential: Credential) -> Endpoint:
        """The Live endpoint; the model goes into the first message, never into the URL."""
        return Endpoint(self._url, {"Authorization": f"Bearer {credential.reveal()}"}, self._ca_file)

    def wire_formats(self, format: AudioFormat) -> tuple[AudioFormat, AudioFormat]:
        """The service speaks both pipeline formats itself."""
        return format, format

    def new_codec(self, init: AdapterInit) -> CloudCodec:
        """A session with the instructions and history of the application."""
        if init.audio_format is None:
            raise InvalidArgument("a provider needs an audio format", field="audio_format")
        self._format, self._instructions, self._history = init.audio_format, init.instructions, init.history
        return LiveSession(self._options, init.audio_format, init.instructions, init.history, new_id())

    def next_codec(self, previous: CloudCodec, snapshot: ContextSnapshot | None) -> CloudCodec | None:
        """A fresh session that knows what was said; a lost connection is not resumed, for the service cannot."""
        if snapshot is None or not isinstance(previous, LiveSession):
            return None
        history = history_of(self._history, snapshot.transcripts)
        return LiveSession(self._options, self._format, self._instructions, history, new_id(), previous.seconds)
