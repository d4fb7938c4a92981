"""Where a provider's key comes from: an environment variable or a file, named by an option, read in the owner at start.

The key itself is in no option, event, log, repr, exception or command line: only its name travels.
"""

from __future__ import annotations

import os
import stat
from typing import Any, Final

from parlora.errors import InvalidArgument

_MAX_KEY_BYTES: Final = 16_384  # far above any key or token; a larger file is something else


class Credential:
    """A secret. Only `reveal` gives it out; it shows in no repr and is never pickled."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself, for the request header it belongs in."""
        return self._value

    def __repr__(self) -> str:
        return "Credential(hidden)"

    def __reduce__(self) -> Any:
        raise TypeError("a credential does not leave its process")


class CredentialSource:
    """The options `api_key_env` and `api_key_file`, checked without reading the key; at most one of them counts.

    With neither given the key is in the environment variable `default_env`.
    """

    def __init__(self, api_key_env: object, api_key_file: object, default_env: str) -> None:
        if api_key_env is not None and api_key_file is not None:
            raise InvalidArgument("give api_key_env or api_key_file, not both", field="api_key_file")
        self._env = default_env if api_key_env is None else _name(api_key_env, "api_key_env")
        self._file = None if api_key_file is None else _name(api_key_file, "api_key_file")

    def read(self) -> Credential:
        """The key; raises `InvalidArgument` naming the option, never what was found."""
        if self._file is not None:
            field, where, value = "api_key_file", f"the file {self._file}", _read_file(self._file)
        else:
            field, where = "api_key_env", f"the environment variable {self._env}"
            value = os.environ.get(self._env, "").strip()
        if not value:
            raise InvalidArgument(f"{field}: {where} holds no key", field=field)
        if not value.isascii() or not value.isprintable() or " " in value:
            raise InvalidArgument(f"{field}: {where} must hold one key of printable ASCII", field=field)
        return Credential(value)


def _name(value: object, field: str) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidArgument(f"{field} must be a non-empty string", field=field)
    return value


def _read_file(path: str) -> str:
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise InvalidArgument(f"api_key_file: {path} is no regular file", field="api_key_file")
            data = file.read(_MAX_KEY_BYTES + 1)
    except OSError as error:
        raise InvalidArgument(f"api_key_file: cannot read {path}: {error.strerror}", field="api_key_file") from None
    if len(data) > _MAX_KEY_BYTES:
        raise InvalidArgument(f"api_key_file: {path} is too large for a key", field="api_key_file")
    return data.decode("latin-1").strip()


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer must not hold startup up
