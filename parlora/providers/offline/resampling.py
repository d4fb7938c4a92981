"""Sample rate conversion for speech: a streaming polyphase filter in numpy, holding back under one millisecond."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]
Signal = NDArray[np.float32]

WIRE_RATE_HZ: Final = 24_000  # what the session speaks
LISTEN_RATE_HZ: Final = 16_000  # what the acoustic model was trained on
FRAME_SAMPLES: Final = 480  # 20 ms at the wire rate
FRAME_BYTES: Final = 2 * FRAME_SAMPLES
FRAME_MS: Final = 20

_ZERO_CROSSINGS: Final = 10  # of the windowed sinc on each side: -80 dB outside the pass band, 30 taps for 24 to 16 kHz
_KAISER_BETA: Final = 8.0
_PASS_BAND: Final = 0.94  # of the lower Nyquist rate, leaves room for the slope of the filter


class Resampler:
    """Converts one stream from `source_hz` to `target_hz`; call it with successive pieces."""

    def __init__(self, source_hz: int, target_hz: int) -> None:
        common = math.gcd(source_hz, target_hz)
        self._up, self._down = target_hz // common, source_hz // common
        ratio = min(1.0, target_hz / source_hz)
        taps = 2 * math.ceil(_ZERO_CROSSINGS / ratio)
        cut = ratio * _PASS_BAND
        time = (np.arange(taps * self._up) - (taps * self._up - 1) / 2) / self._up
        response = cut * np.sinc(cut * time) * np.kaiser(taps * self._up, _KAISER_BETA)
        self._phases = np.ascontiguousarray(response.reshape(taps, self._up).T, dtype=np.float32)
        self._lags = np.arange(taps - 1, -1, -1)
        self._history: Signal = np.zeros(taps - 1, np.float32)
        self._position = 0

    def __call__(self, piece: Samples | Signal) -> Signal:
        """The converted samples that `piece` completes, as unclipped floats in the 16-bit range."""
        size = len(piece)
        signal = np.concatenate([self._history, piece.astype(np.float32)])
        count = max(0, -(-(size * self._up - self._position) // self._down))
        steps = self._position + self._down * np.arange(count)
        windows = signal[(steps // self._up)[:, None] + self._lags]
        converted: Signal = np.einsum("ij,ij->i", windows, self._phases[steps % self._up])
        self._position += self._down * count - size * self._up
        self._history = signal[size:]
        return converted


def to_samples(signal: NDArray[np.floating]) -> Samples:
    """Round and clip to 16 bit."""
    clipped: Samples = np.clip(np.rint(signal), -32768, 32767).astype(np.int16)
    return clipped
