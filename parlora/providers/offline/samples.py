"""The rates and sizes of the offline voice, and samples as numpy arrays."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.int16]

WIRE_RATE_HZ: Final = 24_000  # what the session speaks
LISTEN_RATE_HZ: Final = 16_000  # what the acoustic model was trained on
FRAME_MS: Final = 20
FRAME_SAMPLES: Final = WIRE_RATE_HZ * FRAME_MS // 1000
FRAME_BYTES: Final = 2 * FRAME_SAMPLES
LISTEN_FRAME_BYTES: Final = 2 * LISTEN_RATE_HZ * FRAME_MS // 1000


def to_samples(signal: NDArray[np.floating[Any]]) -> Samples:
    """Round and clip to 16 bit."""
    clipped: Samples = np.clip(np.rint(signal), -32768, 32767).astype(np.int16)
    return clipped


def to_bytes(samples: Samples) -> bytes:
    """PCM16 little-endian."""
    return samples.astype("<i2", copy=False).tobytes()
