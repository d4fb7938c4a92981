"""Sample rate conversion of PCM16 mono, piece by piece, with 1.5 to 3 ms of delay and nothing withheld.

Common streaming resamplers hold 7 to 100 ms back, or do not filter and let everything above the new Nyquist frequency
fold into speech. This one is a polyphase FIR: about 70 dB of stop band, flat to 0.85 of the lower rate's Nyquist.
"""

from __future__ import annotations

from typing import Any

from parlora._native import ffi, lib
from parlora.errors import InvalidArgument


class Resampler:
    """Converts a stream from `source_hz` to `target_hz`; equal rates pass through.

    down = Resampler(24_000, 16_000)
    speech = down.process(chunk) + down.process(next_chunk)     # PCM16 little-endian in and out

    Raises `InvalidArgument` if one rate is over 8 times the other or their ratio is not one of numbers up to 512
    (22,050 and 24,000 Hz are 147 and 160). One thread at a time.
    """

    def __init__(self, source_hz: int, target_hz: int) -> None:
        self.source_hz, self.target_hz = source_hz, target_hz
        native = lib.pl_resampler_new(source_hz, target_hz) if 0 < source_hz < 2**20 and 0 < target_hz < 2**20 else None
        if not native:
            raise InvalidArgument(f"cannot resample {source_hz} Hz to {target_hz} Hz", field="source_hz")
        self._native = ffi.gc(native, lib.pl_resampler_free)
        up = ffi.new("uint32_t *")
        delay = lib.pl_resampler_delay(self._native, up)
        self._delay_samples = 0 if source_hz == target_hz else -(-delay // up[0])

    @property
    def delay_us(self) -> int:
        """How much later a sound leaves than it came in."""
        return self._delay_samples * 1_000_000 // self.source_hz

    def process(self, data: Any) -> bytes:
        """The samples that `data` (bytes or an int16 array) completes; raises `InvalidArgument` for half a sample."""
        view = memoryview(data)
        if view.nbytes % 2:
            raise InvalidArgument(f"data must hold whole 2-byte samples, got {view.nbytes} bytes", field="data")
        if self.source_hz == self.target_hz:
            return view.tobytes()
        count = view.nbytes // 2
        out = bytearray(2 * lib.pl_resampler_output_count(self._native, count))
        lib.pl_resampler_process(
            self._native, ffi.from_buffer("int16_t[]", data), count, ffi.from_buffer("int16_t[]", out)
        )
        return bytes(out)

    def flush(self) -> bytes:
        """The end of the stream, still in the filter; the resampler is then as new."""
        rest = self.process(bytes(2 * self._delay_samples))
        self.reset()
        return rest

    def reset(self) -> None:
        """Forget what came before, as after a clear."""
        lib.pl_resampler_reset(self._native)
