"""What the assistant really said: its recorded speech, recognized with a grammar that holds every order's facts.

Captions are the provider's own word for what it said. This hears the recording instead, and could hear any fact of any
order in it: what is recognized is evidence. Nothing is rejected as unknown, so that no stale answer can hide there:
whatever was said is taken for the nearest thing that the desk could say. A statement must still be whole: of 72 that
were cut off, none was taken for one.
"""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from parlora.orderdesk.demo_script import Verdict, judge
from parlora.orderdesk.evidence import statements
from parlora.orderdesk.grammar import desk
from parlora.providers.offline.grammar import Grammar
from parlora.providers.offline.happenings import CallerSaid, Happening
from parlora.providers.offline.listener import Listener
from parlora.providers.offline.recognizer import GrammarRecognizer
from parlora.providers.offline.samples import FRAME_BYTES
from parlora.providers.offline.vad import DEFAULT_VAD_MODE, WebRtcVoiceActivity

_NOISE: Final = 30.0
"""Samples of noise mixed in, about -60 dBFS: voice detection and the decoder rely on a line that is never silent."""

_TAIL_BYTES: Final = FRAME_BYTES * 50
"""A second of silence behind the recording, so that its last utterance ends."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One utterance of the recording; `text` is empty where no sentence of the desk's was recognized."""

    start_ms: int
    end_ms: int
    text: str


def hear(recording: Path) -> list[Heard]:
    """Every utterance in a mono PCM16 WAV file at 24 kHz."""
    with wave.open(str(recording), "rb") as file:
        audio = file.readframes(file.getnframes()) + bytes(_TAIL_BYTES)
    recognizer = GrammarRecognizer(Grammar.parse(desk()), reject_below=None)
    listener = Listener(recognizer, WebRtcVoiceActivity(DEFAULT_VAD_MODE))
    random = np.random.default_rng(1)
    happened: list[Happening] = []
    for start in range(0, len(audio) - FRAME_BYTES + 1, FRAME_BYTES):
        samples = np.frombuffer(audio, "<i2", FRAME_BYTES // 2, start)
        noisy = np.clip(samples + random.normal(0, _NOISE, len(samples)), -32_768, 32_767)
        happened += listener.feed(noisy.astype("<i2").tobytes())
    return [Heard(item.start_ms, item.end_ms, item.text) for item in happened if isinstance(item, CallerSaid)]


def judge_recording(heard: list[Heard]) -> Verdict:
    """Compare what was heard with what the caller should have been told and must not have been."""
    return judge([statement for utterance in heard for statement in statements(utterance.text)])


def write_stereo(left: Path, right: Path, mixed: Path) -> None:
    """The two sides of the call as one file: caller left, assistant right, both from the call's first moment."""
    sides = []
    for path in (left, right):
        with wave.open(str(path), "rb") as file:
            rate = file.getframerate()
            sides.append(np.frombuffer(file.readframes(file.getnframes()), "<i2"))
    stereo = np.zeros((max(len(side) for side in sides), 2), "<i2")
    for column, side in enumerate(sides):
        stereo[: len(side), column] = side
    with wave.open(str(mixed), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(stereo.tobytes())
