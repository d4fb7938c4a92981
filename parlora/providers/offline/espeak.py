"""eSpeak NG as the synthesizer.

eSpeak NG is licensed under GPL-3.0-or-later while Parlora is MIT: it is an opt-in extra, never imported before it is
chosen, and loaded into the provider's own process only.

The library has one voice and one state per process, so every call takes a class-wide lock and sets its own voice.
ctypes lets the GIL go while it speaks. The same text never gives the same samples twice (it adds breath noise).
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any, ClassVar, Final

import numpy as np

from parlora.audio.resample import Resampler
from parlora.errors import AdapterFailed, InvalidArgument
from parlora.providers.offline.extras import load_extra
from parlora.providers.offline.samples import WIRE_RATE_HZ, Samples, to_bytes, to_samples
from parlora.providers.offline.synthesizer import Speech, WordMark

DEFAULT_VOICE: Final = "en-us+klatt4"  # the clearest of the measured ones, to people and to the recognizer
DEFAULT_SPEED: Final = 170  # words per minute
MIN_SPEED: Final = 80
MAX_SPEED: Final = 350

_PITCH: Final = 50
_GAIN: Final = 0.8  # eSpeak's loudest vowels reach full scale; resampling overshoots a little
_LEAD_SAMPLES: Final = WIRE_RATE_HZ // 100  # 10 ms kept before the first sound
_QUIET: Final = 60  # below this a sample counts as silence when the pause before the first sound is cut

# Values of the library's C interface (speak_lib.h).
_OUTPUT_SYNCHRONOUS: Final = 2
_DO_NOT_EXIT: Final = 0x8000
_UTF8: Final = 1
_RATE: Final = 1
_PITCH_PARAMETER: Final = 3
_EVENT_END: Final = 0
_EVENT_WORD: Final = 1


class _Event(ctypes.Structure):
    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position_ms", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(_Event))


class ESpeak:
    """Speaks English text. `voice` is an eSpeak voice, with `+variant` if wanted; `speed` is in words per minute.

    Raises `InvalidArgument` naming the option, and `Unsupported` with the install line if the extra is missing.
    """

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _library: ClassVar[_Library | None] = None

    def __init__(self, voice: object = DEFAULT_VOICE, speed: object = DEFAULT_SPEED) -> None:
        if not isinstance(voice, str) or not voice:
            raise InvalidArgument("voice must be an eSpeak voice name such as 'en-us+klatt4'", field="voice")
        if isinstance(speed, bool) or not isinstance(speed, int) or not MIN_SPEED <= speed <= MAX_SPEED:
            raise InvalidArgument(f"speed must be {MIN_SPEED} to {MAX_SPEED} words per minute", field="speed")
        self._voice = voice
        self._speed = speed
        with ESpeak._lock:
            if ESpeak._library is None:
                ESpeak._library = _Library()
            ESpeak._library.check_voice(voice)

    def speak(self, text: str) -> Speech:
        """The speech for `text`, without the pause that eSpeak puts before the first sound."""
        with ESpeak._lock:
            assert ESpeak._library is not None
            pieces, words = ESpeak._library.synthesize(text, self._voice, self._speed)
            rate_hz = ESpeak._library.rate_hz
        resampler = Resampler(rate_hz, WIRE_RATE_HZ)
        quieter = to_samples(np.concatenate([np.zeros(0, np.int16), *pieces]) * _GAIN)
        audio = np.frombuffer(resampler.process(to_bytes(quieter)) + resampler.flush(), "<i2")
        loud = np.flatnonzero(np.abs(audio) > _QUIET)
        start = max(0, int(loud[0]) - _LEAD_SAMPLES) if len(loud) else 0
        marks = (WordMark(max(0, ms * WIRE_RATE_HZ // 1000 - start), characters) for ms, characters in words)
        return Speech(audio[start:], tuple(marks))


class _Library:
    """The loaded library; every method runs under the class lock of `ESpeak`."""

    def __init__(self) -> None:
        loader = load_extra("espeakng_loader")
        self._data = str(loader.get_data_path())
        self._c: Any = ctypes.CDLL(str(loader.get_library_path()))
        self.rate_hz = int(self._c.espeak_Initialize(_OUTPUT_SYNCHRONOUS, 0, self._data.encode(), _DO_NOT_EXIT))
        if self.rate_hz <= 0:
            raise AdapterFailed("eSpeak NG did not start")
        self._pieces: list[Samples] = []
        self._words: list[tuple[int, int]] = []
        self._callback = _Callback(self._receive)  # kept: the library calls it for as long as it is loaded
        self._c.espeak_SetSynthCallback(self._callback)

    def check_voice(self, voice: str) -> None:
        """Raise `InvalidArgument` if the voice or its variant does not exist (the library accepts any variant)."""
        _, _, variant = voice.partition("+")
        variants = os.path.join(self._data, "voices", "!v")
        known = not variant or variant in os.listdir(variants)
        if not known or self._c.espeak_SetVoiceByName(voice.encode()) != 0:
            raise InvalidArgument(
                f"voice {voice!r} is not one of eSpeak's; allowed are names such as en-us, en-us+klatt4, en-gb-x-rp+f3",
                field="voice",
            )

    def synthesize(self, text: str, voice: str, speed: int) -> tuple[list[Samples], list[tuple[int, int]]]:
        """The audio in pieces, and for each word when it begins (ms) and the characters of text up to its end."""
        encoded = text.encode() + b"\0"
        self._pieces, self._words = [], []
        self._c.espeak_SetVoiceByName(voice.encode())
        self._c.espeak_SetParameter(_RATE, speed, 0)
        self._c.espeak_SetParameter(_PITCH_PARAMETER, _PITCH, 0)
        self._c.espeak_Synth(encoded, len(encoded), 0, 1, 0, _UTF8, None, None)
        return self._pieces, self._words

    def _receive(self, audio: Any, count: int, events: Any) -> int:
        if count > 0:
            self._pieces.append(np.ctypeslib.as_array(audio, (count,)).copy())
        index = 0
        while events and events[index].type != _EVENT_END:
            event = events[index]
            if event.type == _EVENT_WORD:
                self._words.append((event.audio_position_ms, event.text_position - 1 + event.length))
            index += 1
        return 0
