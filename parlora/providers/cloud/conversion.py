"""From one audio format to another inside an adapter: what a service speaks need not be what the session has.

Pipelines see the session's format only (acceptance PC-26).
"""

from __future__ import annotations

from parlora.audio import mulaw
from parlora.audio.format import AudioFormat, Encoding
from parlora.audio.resample import Resampler


class Conversion:
    """Converts a stream piece by piece; equal formats pass through. One thread at a time.

    `AudioFormat` is used beyond the two pipeline formats here: mono PCM16 or mu-law at any rate a resampler can do.
    """

    def __init__(self, source: AudioFormat, target: AudioFormat) -> None:
        self._is_same = source == target
        self._decode = source.encoding is Encoding.PCMU
        self._encode = target.encoding is Encoding.PCMU
        self._resampler = Resampler(source.sample_rate, target.sample_rate)

    def process(self, data: bytes) -> bytes:
        """The converted samples, 1.5 to 3 ms late if the rates differ."""
        if self._is_same or not data:
            return data
        pcm = self._resampler.process(mulaw.decode(data) if self._decode else data)
        return mulaw.encode(pcm) if self._encode else pcm

    def reset(self) -> None:
        """Forget what came before, as after a clear."""
        self._resampler.reset()
