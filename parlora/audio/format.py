"""The two pipeline formats (spec 000 §2, §12)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from parlora.errors import InvalidArgument, Unsupported


class Encoding(StrEnum):
    """How one sample is written."""

    PCM16LE = "pcm16le"
    PCMU = "pcmu"


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """One pipeline format. The default is mono PCM16LE at 24 kHz; phone sessions choose `AudioFormat.pcmu()`.

    A session uses one format in both directions. Only the two formats above are supported;
    `check_supported` refuses any other.
    """

    encoding: Encoding = Encoding.PCM16LE
    sample_rate: int = 24_000
    channels: int = 1

    @classmethod
    def pcm16(cls) -> AudioFormat:
        """Mono PCM16 little-endian at 24 kHz."""
        return cls()

    @classmethod
    def pcmu(cls) -> AudioFormat:
        """Mono mu-law at 8 kHz: one byte per sample, 125 us per byte."""
        return cls(Encoding.PCMU, 8_000, 1)

    @property
    def sample_bytes(self) -> int:
        """Bytes of one sample: 2 for PCM16LE, 1 for mu-law."""
        return 2 if self.encoding is Encoding.PCM16LE else 1

    @property
    def bytes_per_second(self) -> int:
        """48,000 for PCM16LE at 24 kHz, 8,000 for mu-law at 8 kHz."""
        return self.sample_rate * self.channels * self.sample_bytes

    @property
    def silence_byte(self) -> int:
        """The byte that silence is made of: 0x00 for PCM16LE, 0xFF for mu-law."""
        return 0x00 if self.encoding is Encoding.PCM16LE else 0xFF

    def bytes_for_us(self, duration_us: int) -> int:
        """Whole samples that fit `duration_us`, in bytes."""
        samples = duration_us * self.sample_rate // 1_000_000
        return samples * self.channels * self.sample_bytes

    def duration_us(self, size_bytes: int) -> int:
        """Play time of `size_bytes`, in microseconds, rounded down."""
        return size_bytes * 1_000_000 // self.bytes_per_second

    def silence(self, duration_us: int) -> bytes:
        """`duration_us` of silence."""
        return bytes([self.silence_byte]) * self.bytes_for_us(duration_us)

    def to_data(self) -> dict[str, Any]:
        """The format as plain data: `{encoding, sample_rate, channels}`."""
        return {"encoding": str(self.encoding), "sample_rate": self.sample_rate, "channels": self.channels}

    @classmethod
    def from_data(cls, data: object, field: str = "audio_format") -> AudioFormat:
        """The supported format that `data` describes; anything else is `InvalidArgument` or `Unsupported`."""
        if isinstance(data, AudioFormat):
            return data.check_supported(field)
        if data in ("pcm16le", "pcm16"):
            return cls.pcm16()
        if data == "pcmu":
            return cls.pcmu()
        if not isinstance(data, dict) or set(data) != {"encoding", "sample_rate", "channels"}:
            raise InvalidArgument(
                f"{field} must be AudioFormat.pcm16(), AudioFormat.pcmu(), 'pcm16le' or 'pcmu'", field=field
            )
        try:
            encoding = Encoding(data["encoding"])
        except ValueError:
            raise Unsupported(f"{field}.encoding must be pcm16le or pcmu", details={"field": field}) from None
        return cls(encoding, data["sample_rate"], data["channels"]).check_supported(field)

    def check_supported(self, field: str = "audio_format") -> AudioFormat:
        """Return self if it is one of the two pipeline formats, else raise `Unsupported` naming `field`."""
        if self in (AudioFormat(), AudioFormat.pcmu()):
            return self
        raise Unsupported(f"{field} must be mono PCM16LE at 24 kHz or mono mu-law at 8 kHz", details={"field": field})
