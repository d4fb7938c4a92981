"""Audio files in the session's own format: WAV and raw, PCM16 at 24 kHz or mu-law at 8 kHz, mono.

Nothing is converted: a file in another format is refused with what it is and what is allowed.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from parlora.audio.format import AudioFormat, Encoding
from parlora.errors import InvalidArgument

MAX_FILE_BYTES: Final = 172_800_000  # one hour of PCM16 at 24 kHz: the file is held in memory
_PCM: Final = 1
_MU_LAW: Final = 7
_EXTENSIBLE: Final = 0xFFFE  # the real tag is the first field of the sub-format
_HEADER: Final = struct.Struct("<4sI4s4sIHHIIHHH4sI")
_UNKNOWN_SIZE: Final = 0xFFFFFFFF  # a writer that streams does not know it; the data then ends with the file


@dataclass(frozen=True, slots=True)
class AudioFile:
    """The audio of a file; `kind` says what its header declares, empty for a raw file, which declares nothing."""

    path: str
    data: bytes = field(repr=False)
    kind: str

    @classmethod
    def load(cls, path: object, field: str) -> AudioFile:
        """Read a WAV file, or a raw one whose name does not end in `.wav`. Raises `InvalidArgument` naming `field`."""
        if not isinstance(path, str) or not path:
            raise InvalidArgument(f"{field} must be the path of a WAV or raw audio file", field=field)
        try:
            with open(path, "rb") as file:
                if os.fstat(file.fileno()).st_size > MAX_FILE_BYTES:
                    raise InvalidArgument(f"{field}: {path} is larger than {MAX_FILE_BYTES:,} bytes", field=field)
                content = file.read()
        except OSError as error:
            raise InvalidArgument(f"{field}: cannot read {path}: {error.strerror}", field=field) from None
        if content[:4] == b"RIFF" and content[8:12] == b"WAVE":
            kind, data = _parse(content, path, field)
        elif path.lower().endswith(".wav"):
            raise InvalidArgument(f"{field}: {path} is not a WAV file", field=field)
        else:
            kind, data = "", content
        if not data:
            raise InvalidArgument(f"{field}: {path} holds no audio", field=field)
        return cls(path, data, kind)

    def audio(self, format: AudioFormat, field: str) -> bytes:
        """The samples, if they are in `format`; raises `InvalidArgument` naming `field` and what is allowed."""
        if self.kind and self.kind != _kind(format):
            raise InvalidArgument(
                f"{field}: {self.path} is {self.kind}; the session needs {_kind(format)}", field=field
            )
        if len(self.data) % format.sample_bytes:
            raise InvalidArgument(f"{field}: {self.path} ends with half a sample", field=field)
        return self.data


class Recorder:
    """Writes a WAV file that is readable at any time, also after a kill: the header is brought up to date each second.

    Raises `InvalidArgument` naming `field` if the file cannot be created, `OSError` if writing fails later.
    """

    def __init__(self, path: object, format: AudioFormat, field: str) -> None:
        if not isinstance(path, str) or not path:
            raise InvalidArgument(f"{field} must be the path of the WAV file to write", field=field)
        self._format = format
        self._written = 0
        self._in_header = 0
        try:
            self._file: BinaryIO = open(path, "wb")  # noqa: SIM115 - open until close()
        except OSError as error:
            raise InvalidArgument(f"{field}: cannot write {path}: {error.strerror}", field=field) from None
        self._update()

    def write(self, audio: bytes) -> None:
        """Append samples."""
        self._file.write(audio)
        self._written += len(audio)
        if self._written - self._in_header >= self._format.bytes_per_second:
            self._update()

    def close(self) -> None:
        """Finish the file; a second close does nothing."""
        if not self._file.closed:
            self._update()
            self._file.close()

    def _update(self) -> None:
        self._file.seek(0)
        self._file.write(_header(self._format, self._written))
        self._file.seek(0, os.SEEK_END)
        self._file.flush()
        self._in_header = self._written


def _header(format: AudioFormat, size: int) -> bytes:
    tag = _PCM if format.encoding is Encoding.PCM16LE else _MU_LAW
    return _HEADER.pack(
        b"RIFF",
        size + _HEADER.size - 8,
        b"WAVE",
        b"fmt ",
        18,
        tag,
        format.channels,
        format.sample_rate,
        format.bytes_per_second,
        format.channels * format.sample_bytes,
        8 * format.sample_bytes,
        0,
        b"data",
        size,
    )


def _kind(format: AudioFormat) -> str:
    encoding = "16-bit PCM" if format.encoding is Encoding.PCM16LE else "8-bit mu-law"
    return _describe(encoding, format.sample_rate, format.channels)


def _describe(encoding: str, rate_hz: int, channels: int) -> str:
    return f"{encoding}, {rate_hz} Hz, {'mono' if channels == 1 else f'{channels} channels'}"


def _parse(content: bytes, path: str, field: str) -> tuple[str, bytes]:
    """What the `fmt ` chunk declares, and the content of the `data` chunk."""
    kind, at = "", 12
    while at + 8 <= len(content):
        name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
        body = content[at + 8 :] if size == _UNKNOWN_SIZE else content[at + 8 : at + 8 + size]
        if name == b"fmt " and len(body) >= 16:
            tag, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", body)
            if tag == _EXTENSIBLE and len(body) >= 26:
                tag = int.from_bytes(body[24:26], "little")
            encoding = {_PCM: "PCM", _MU_LAW: "mu-law"}.get(tag, f"encoding {tag}")
            kind = _describe(f"{bits}-bit {encoding}", rate_hz, channels)
        elif name == b"data" and kind:
            return kind, body
        at += 8 + size + size % 2  # chunks are padded to even sizes
    raise InvalidArgument(f"{field}: {path} is a damaged WAV file: it has no format or no data", field=field)
