"""The options of the WAV channel, checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.channels.wav.files import AudioFile
from parlora.channels.wav.script import Clip, Release
from parlora.contract.channel import OutputPacing
from parlora.errors import InvalidArgument

MAX_CLIPS: Final = 256
MAX_WAIT_MS: Final = 600_000
DEFAULT_END_SILENCE_MS: Final = 2_000
DEFAULT_PATIENCE_MS: Final = 60_000  # a backend's job may take so long by default
# The session's first frames may meet parts that are still warming up; an ordinary file begins after this.
LEAD_IN_MS: Final = 200

_CLIP_KEYS: Final = ("path", "after_silence_ms", "while_speaking_ms", "after_utterances")


@dataclass(frozen=True, slots=True)
class ClipFile:
    """A clip whose format is not yet compared with the session's."""

    file: AudioFile
    field: str
    release: Release

    def clip(self, format: AudioFormat) -> Clip:
        """The clip; raises `InvalidArgument` if the file is in another format."""
        return Clip(self.file.audio(format, self.field), self.release)


def clip_files(caller: object, clips: object) -> list[ClipFile]:
    """The caller's side: one file, or clips. Raises `InvalidArgument` naming the option."""
    if (caller is None) == (clips is None):
        raise InvalidArgument("give either caller (one file) or clips (a list)", field="caller")
    if clips is None:
        release = Release(after_utterances=0, after_silence_ms=LEAD_IN_MS)
        return [ClipFile(AudioFile.load(caller, "caller"), "caller", release)]
    if not isinstance(clips, list | tuple) or not 1 <= len(clips) <= MAX_CLIPS:
        raise InvalidArgument(f"clips must be a list of 1 to {MAX_CLIPS} clips", field="clips")
    return [_clip_file(clip, index) for index, clip in enumerate(clips)]


def check_pacing(value: object) -> OutputPacing:
    """`channel` or `pipeline`."""
    if value not in tuple(OutputPacing):
        raise InvalidArgument("pacing must be 'channel' or 'pipeline'", field="pacing")
    return OutputPacing(str(value))


def check_end(end: object, silence_ms: object, utterances: int) -> Release | None:
    """When to hang up; None to stay on the line until the session closes."""
    if end not in ("keep", "disconnect"):
        raise InvalidArgument("end must be 'keep' or 'disconnect'", field="end")
    silence = check_number(silence_ms, "end_silence_ms", 0, MAX_WAIT_MS)
    return Release(utterances, after_silence_ms=silence) if end == "disconnect" else None


def check_number(value: object, field: str, least: int, most: int) -> int:
    """An integer within bounds."""
    if type(value) is not int or not least <= value <= most:
        raise InvalidArgument(f"{field} must be an integer from {least:,} to {most:,}", field=field)
    return value


def refuse_overwriting(record: object, field: str, files: Sequence[ClipFile]) -> None:
    """A recording would destroy the caller's file that it goes to; raises `InvalidArgument` naming `field`."""
    for each in files:
        if isinstance(record, str) and os.path.exists(record) and os.path.samefile(record, each.file.path):
            raise InvalidArgument(f"{field}: {record} is {each.field} itself; record to another file", field=field)


def _clip_file(clip: Any, index: int) -> ClipFile:
    field = f"clips[{index}]"
    if not isinstance(clip, Mapping):
        raise InvalidArgument(
            f"{field} must be a table with path and after_silence_ms or while_speaking_ms", field=field
        )
    for key in clip:
        if key not in _CLIP_KEYS:
            raise InvalidArgument(
                f"{field}.{key} is unknown; allowed are {', '.join(_CLIP_KEYS)}", field=f"{field}.{key}"
            )
    if ("after_silence_ms" in clip) == ("while_speaking_ms" in clip):
        raise InvalidArgument(f"{field} must have either after_silence_ms or while_speaking_ms", field=field)
    # The first clip may open the conversation; every other one, and any interruption, needs something said before.
    least = 1 if "while_speaking_ms" in clip else 0
    utterances = check_number(
        clip.get("after_utterances", max(least, min(index, 1))), f"{field}.after_utterances", least, 100
    )
    waits = {
        key: check_number(clip[key], f"{field}.{key}", 0, MAX_WAIT_MS)
        for key in ("after_silence_ms", "while_speaking_ms")
        if key in clip
    }
    return ClipFile(AudioFile.load(clip.get("path"), f"{field}.path"), f"{field}.path", Release(utterances, **waits))
