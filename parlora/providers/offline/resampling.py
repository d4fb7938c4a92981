"""The former place of `parlora.providers.offline.samples`; its users are moving there."""

from parlora.providers.offline.samples import FRAME_BYTES, FRAME_MS, FRAME_SAMPLES, LISTEN_RATE_HZ, WIRE_RATE_HZ

__all__ = ["FRAME_BYTES", "FRAME_MS", "FRAME_SAMPLES", "LISTEN_RATE_HZ", "WIRE_RATE_HZ"]
