"""mu-law (ITU-T G.711, PCMU) to and from PCM16: bit-equal to the reference, which Python 3.13 no longer carries."""

from __future__ import annotations

from parlora._native import ffi, lib
from parlora.errors import InvalidArgument

Data = bytes | bytearray | memoryview


def decode(data: Data) -> bytes:
    """PCM16 little-endian, 2 bytes for each mu-law byte; any byte count is legal (spec 000 §12)."""
    count = memoryview(data).nbytes
    out = bytearray(2 * count)
    lib.pl_mulaw_decode(ffi.from_buffer("uint8_t[]", data), count, ffi.from_buffer("int16_t[]", out))
    return bytes(out)


def encode(data: Data) -> bytes:
    """One mu-law byte for each PCM16 little-endian sample; raises `InvalidArgument` for half a sample."""
    size = memoryview(data).nbytes
    if size % 2:
        raise InvalidArgument(f"data must hold whole 2-byte samples, got {size} bytes", field="data")
    out = bytearray(size // 2)
    lib.pl_mulaw_encode(ffi.from_buffer("int16_t[]", data), size // 2, ffi.from_buffer("uint8_t[]", out))
    return bytes(out)
