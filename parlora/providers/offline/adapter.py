"""The offline voice as a provider (spec 000 §5): options, capabilities and life cycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.contract.commands import CommandLog
from parlora.contract.provider import (
    ContextKind,
    ContextUpdate,
    MuteInput,
    Provider,
    ProviderCapabilities,
    ProviderCommand,
    Speaker,
)
from parlora.errors import Closed, InvalidArgument, ParloraError, Unsupported
from parlora.events import EventType
from parlora.ids import new_id
from parlora.providers.offline.dialogue import Dialogue
from parlora.providers.offline.espeak import DEFAULT_SPEED, DEFAULT_VOICE, ESpeak
from parlora.providers.offline.grammar import Grammar
from parlora.providers.offline.listener import Listener
from parlora.providers.offline.media import MediaThread
from parlora.providers.offline.pronunciation import check_pronunciations
from parlora.providers.offline.recognizer import DEFAULT_REJECT_BELOW, GrammarRecognizer, check_reject_below
from parlora.providers.offline.vad import DEFAULT_VAD_MODE, WebRtcVoiceActivity
from parlora.providers.offline.voice import OfflineVoice
from parlora.wire import to_data

DEFAULT_REPROMPT: Final = "Sorry, I did not understand that."
MAX_TEXT_CHARACTERS: Final = 16_384  # a quarter of an hour of speech

CAPABILITIES: Final = ProviderCapabilities(
    audio_formats=(AudioFormat.pcm16(),),
    transcripts=(Speaker.USER, Speaker.ASSISTANT),
    context_update_kinds=(ContextKind.QUIET, ContextKind.SPEAKABLE, ContextKind.INSTRUCTION),
    input_mute=True,
    usage=True,
    context_acknowledgment=True,
)


class Offline(Provider):
    """A full-duplex voice without key or network; needs the extra `offline`. English, mono PCM16 at 24 kHz only.

    Options:

    * `grammar`: JSGF rules with a top rule `<user>`: the sentences a caller may say. Others are unknown speech.
    * `pronounce`: ARPAbet phones for words the dictionary lacks, e.g. `{"parlora": "P AA R L AO R AH"}`.
    * `voice`: eSpeak voice, default `en-us+klatt4`; `speed`: words per minute, 80 to 350, default 170.
    * `reject_below`: how sure recognition must be, -100 to 0, default -4.5 (fit for a clear channel; nearer 0 rejects
      more); None accepts everything, which makes a command of nearly all unknown speech.
    * `reprompt`: spoken once for each unknown utterance; None for nothing.
    * `greeting`: spoken when the caller's audio begins; default none.
    * `vad_mode`: 0 to 3, default 2; higher takes less for speech.

    Not fit for telephone quality or loud noise. Numbers should be read back: one in twenty unknown sentences is still
    taken for a known one.
    """

    def __init__(
        self,
        grammar: object = None,
        *,
        pronounce: object = None,
        voice: object = DEFAULT_VOICE,
        speed: object = DEFAULT_SPEED,
        reject_below: object = DEFAULT_REJECT_BELOW,
        reprompt: object = DEFAULT_REPROMPT,
        greeting: object = None,
        vad_mode: object = DEFAULT_VAD_MODE,
    ) -> None:
        self._grammar = Grammar.parse(grammar)
        self._pronounce = check_pronunciations(pronounce)
        self._voice = voice
        self._speed = speed
        self._reject_below = check_reject_below(reject_below)
        self._reprompt = _check_text(reprompt, "reprompt")
        self._greeting = _check_text(greeting, "greeting")
        self._vad_mode = vad_mode
        self._init: AdapterInit | None = None
        self._dialogue: Dialogue | None = None
        self._media: MediaThread | None = None
        self._commands: CommandLog | None = None

    def start(self, init: AdapterInit) -> None:
        """Load the models (0.2 to 0.5 s), start both threads and report `ready`.

        Raises `Unsupported` for another format or a missing extra, `InvalidArgument` naming a bad option.
        """
        self._init = init
        if init.audio_format is None or init.audio_format not in CAPABILITIES.audio_formats:
            raise Unsupported(
                "audio_format must be mono PCM16LE at 24 kHz: the offline provider speaks no other",
                details={"field": "audio_format"},
            )
        if init.audio_in is None or init.audio_out is None:
            raise InvalidArgument("a provider needs both audio ports", field="audio_in")
        recognizer = GrammarRecognizer(self._grammar, pronounce=self._pronounce, reject_below=self._reject_below)
        synthesizer = ESpeak(self._voice, self._speed)
        synthesizer.speak("Ready.")  # the first phrase takes up to 55 ms longer than all others
        voice = OfflineVoice(Listener(recognizer, WebRtcVoiceActivity(self._vad_mode)))
        self._commands = CommandLog(init.limits.max_records)
        self._dialogue = Dialogue(voice, new_id, reprompt=self._reprompt, greeting=self._greeting)
        if init.instructions:
            self._dialogue.keep(ContextUpdate(ContextKind.INSTRUCTION, init.instructions))
        self._media = MediaThread(
            self._dialogue, synthesizer, init.audio_in, init.audio_out, init.event_sink, init.limits
        )
        ready = {"capabilities": to_data(CAPABILITIES), "audio_format": init.audio_format.to_data()}
        init.event_sink.emit(EventType.READY, ready)
        self._media.start()

    def append_context(self, update: ContextUpdate, command_id: str) -> None:
        """Admit a text; `context_acknowledged` or `context_rejected` follows within some 20 ms."""
        if update.kind not in CAPABILITIES.context_update_kinds:
            raise Unsupported(f"kind must be quiet, speakable or instruction, got {update.kind!r}")
        if not isinstance(update.text, str) or not update.text.strip() or len(update.text) > MAX_TEXT_CHARACTERS:
            raise InvalidArgument(f"text must have 1 to {MAX_TEXT_CHARACTERS} characters", field="text")
        self._post(command_id, "append_context", update, lambda dialogue: dialogue.append(update, command_id))

    def control(self, command: ProviderCommand, command_id: str) -> None:
        """Mute or open the input; `control_completed` follows."""
        if not isinstance(command, MuteInput):
            raise Unsupported(f"the offline provider has no control {type(command).__name__}")
        self._post(command_id, "control", command, lambda dialogue: dialogue.mute(command.on, command_id))

    def clear_output(self, epoch: int) -> None:
        """Stop what is being said; texts that wait for their turn stay."""
        self._running().post(lambda dialogue: dialogue.clear())

    def resume_output(self, token: str) -> None:
        """The session's queues are clear after an interruption: speaking may go on."""
        self._running().post(lambda dialogue: dialogue.resume(token))

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Stop at once, report the final usage and `closed`: everything there was to finalize was in this process."""
        init, self._init = self._init, None
        if init is None:
            return  # never started, or closed already
        media, self._media = self._media, None
        if media is not None and self._dialogue is not None:
            media.stop()
            init.event_sink.emit(EventType.USAGE_FINAL, self._dialogue.usage(final=True))
        init.event_sink.emit(EventType.CLOSED, {"finalization_observed": True}, command_id=command_id)

    def _post(self, command_id: str, operation: str, command: object, effect: Callable[[Dialogue], None]) -> None:
        """Admit a command once; a repeated id with the same command acts no second time."""
        media = self._running()
        assert self._commands is not None
        if not self._commands.admit(command_id, operation, command):
            return
        try:
            media.post(effect)
        except ParloraError:
            self._commands.forget(command_id)
            raise
        self._commands.settle(command_id)

    def _running(self) -> MediaThread:
        if self._media is None:
            raise Closed("the provider is not running")
        return self._media


def _check_text(value: Any, field: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_TEXT_CHARACTERS:
        raise InvalidArgument(f"{field} must be a text of 1 to {MAX_TEXT_CHARACTERS} characters, or None", field=field)
    return value
