"""Voice activity: does a 20 ms frame hold speech, and when do such frames amount to someone speaking?"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np

from parlora.errors import InvalidArgument
from parlora.providers.offline.extras import load_extra
from parlora.providers.offline.samples import FRAME_MS, LISTEN_FRAME_BYTES, LISTEN_RATE_HZ, to_bytes, to_samples

DEFAULT_VAD_MODE: Final = 2  # measured: onset p50 48 ms, p99 61 ms on a quiet line; mode 3 is 12 ms later


class VoiceActivity(Protocol):
    """Judges frames of 20 ms of PCM16 at 16 kHz, in order."""

    def __call__(self, frame: bytes) -> bool:
        """Whether the frame holds speech."""


class WebRtcVoiceActivity:
    """The WebRTC detector inside PocketSphinx. `mode` 0 to 3: higher takes fewer frames for speech."""

    def __init__(self, mode: object = DEFAULT_VAD_MODE) -> None:
        if not isinstance(mode, int) or isinstance(mode, bool) or mode not in range(4):
            raise InvalidArgument("vad_mode must be 0, 1, 2 or 3", field="vad_mode")
        self._vad = load_extra("pocketsphinx").Vad(mode, LISTEN_RATE_HZ, FRAME_MS / 1000)
        for frame in _faint_noise():
            self(frame)

    def __call__(self, frame: bytes) -> bool:
        """Whether the frame holds speech."""
        return bool(self._vad.is_speech(frame))


def _faint_noise() -> Iterator[bytes]:
    """Two seconds at -50 dBFS: a detector that has never heard noise takes the first 80 ms of it for speech."""
    random = np.random.default_rng(0)
    for _ in range(2_000 // FRAME_MS):
        yield to_bytes(to_samples(random.standard_normal(LISTEN_FRAME_BYTES // 2) * 104))


class Onset:
    """Someone speaks once 3 of the last 4 frames are speech: one odd frame neither starts nor hides a word."""

    NEEDED: Final = 3
    WINDOW: Final = 4

    def __init__(self) -> None:
        self._recent: deque[bool] = deque(maxlen=self.WINDOW)

    def add(self, speech: bool) -> bool:
        """Add a frame's judgement; True if speech has begun."""
        self._recent.append(speech)
        return sum(self._recent) >= self.NEEDED

    @property
    def voiced(self) -> int:
        """Speech frames in the window."""
        return sum(self._recent)

    @property
    def window_ms(self) -> int:
        """How far back the window reaches: speech began there at the earliest."""
        return len(self._recent) * FRAME_MS

    def reset(self) -> None:
        """Forget the window."""
        self._recent.clear()
