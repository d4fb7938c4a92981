"""What an exception may say about itself outside of its process: where, and of which kind, but not about what.

The text of an exception and the values in its frames may hold credentials, speech or application data. So a report
names files, lines, functions and types; a text is kept only where the interpreter, the operating system or Parlora
itself wrote it.
"""

from __future__ import annotations

import os
import traceback
from types import TracebackType
from typing import Any, Final

from parlora.errors import ParloraError

_MAX_FRAMES: Final = 20
_MAX_CAUSES: Final = 4
_MAX_TEXT: Final = 300
_OWN_WORDS: Final = (ParloraError, AttributeError, NameError, ImportError, TypeError)


def describe_crash(error: BaseException) -> dict[str, Any]:
    """The failure as plain data: `{type, text, frames, causes}`; frames run from the outermost call inwards."""
    causes: list[dict[str, Any]] = []
    cause = error.__cause__ or error.__context__
    while cause is not None and len(causes) < _MAX_CAUSES:
        causes.append(_describe(cause))
        cause = cause.__cause__ or cause.__context__
    return _describe(error) | {"causes": causes}


def _describe(error: BaseException) -> dict[str, Any]:
    return {"type": _name(type(error)), "text": _text(error), "frames": _frames(error.__traceback__)}


def _name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    if isinstance(error, _OWN_WORDS):
        return str(error)[:_MAX_TEXT]
    return ""


def _frames(trace: TracebackType | None) -> list[str]:
    return [
        f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"
        for frame in traceback.extract_tb(trace, limit=-_MAX_FRAMES)
    ]
