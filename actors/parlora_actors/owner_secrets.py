"""Keep an adapter's secrets out of what it says.

An option named `..._env` names an environment variable, one named like `api_key_file` a file; their contents are
secrets, read in the owner and nowhere else. A service may repeat a key in its error, and an adapter pass that on: so
what an owner sends is searched for them (spec 000 §2).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, Final

HIDDEN: Final = "<secret>"

MIN_CHARACTERS: Final = 6
"""A shorter value would also be found in innocent words."""

_SECRET_FILE: Final = re.compile(r"(key|secret|token|password|credentials?)s?_file$")

MAX_FILE_BYTES: Final = 16 * 1024
"""A larger file holds something else than a key."""


class Secrets:
    """The secrets that a component's options name."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._values = tuple(sorted(_values(options), key=len, reverse=True))

    def hide(self, data: Any) -> Any:
        """Plain data with every secret replaced; the same object if there is none to look for."""
        if not self._values:
            return data
        if isinstance(data, str):
            for value in self._values:
                data = data.replace(value, HIDDEN)
            return data
        if isinstance(data, Mapping):
            return {self.hide(key): self.hide(value) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self.hide(value) for value in data]
        return data


def _values(options: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for name, value in options.items():
        if isinstance(value, Mapping):
            found |= _values(value)
        elif isinstance(value, str) and name.endswith("_env"):
            found |= _lines(os.environ.get(value, ""))
        elif isinstance(value, str) and _SECRET_FILE.search(name):
            found |= _lines(_content(value))
    return found


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError):
        return ""
    return content.decode(errors="replace") if len(content) <= MAX_FILE_BYTES else ""


def _lines(text: str) -> set[str]:
    return {line.strip() for line in text.splitlines() if len(line.strip()) >= MIN_CHARACTERS}
