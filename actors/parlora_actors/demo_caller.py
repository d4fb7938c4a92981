"""The synthesized caller of the demonstration: its sentences as clips, and the folder that the call is kept in."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from parlora.errors import InvalidArgument
from parlora.orderdesk.demo_script import Line

_PROBE: Final = ".parlora-probe"


@contextlib.contextmanager
def output_folder(out: Path | None) -> Iterator[Path]:
    """The folder for the call's files, made if it is not there; without `out` one that goes when the block ends.

    Raises `InvalidArgument` if it cannot be written, before anything else is done.
    """
    if out is None:
        with tempfile.TemporaryDirectory(prefix="parlora-demo-") as folder:
            yield Path(folder)
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe = out / _PROBE
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InvalidArgument(f"--out: cannot write to {out}: {error.strerror}", field="--out") from None
    yield out.resolve()


def caller_options(script: Sequence[Line], folder: Path, clips: Path) -> dict[str, Any]:
    """The options of a `WavChannel` that speaks the script: one clip a line, written to the folder `clips`.

    Needs the extra `offline`; raises `Unsupported` with the install line without it.
    """
    from parlora.testing.caller import CallerVoice, write_wav

    voice = CallerVoice()
    spoken = []
    for index, line in enumerate(script):
        path = clips / f"clip-{index}.wav"
        write_wav(path, voice.say(line.text))
        spoken.append(_clip(line, str(path)))
    return {
        "clips": spoken,
        "record": os.fspath(folder / "assistant.wav"),
        "record_caller": os.fspath(folder / "caller.wav"),
    }


def _clip(line: Line, path: str) -> dict[str, Any]:
    clip: dict[str, Any] = {"path": path, "after_utterances": 1 if line.answered else 0}
    if line.interrupts_after_ms is not None:
        clip["while_speaking_ms"] = line.interrupts_after_ms
    else:
        clip["after_silence_ms"] = line.after_silence_ms
    return clip
