"""The TOML file of `parlora-actor run`: what it may hold, and every way in which it can be wrong.

A file is read completely before anything is started. Each error is one `InvalidArgument` that names the key and says
what is allowed.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.contract.adapter import ClosePolicy
from parlora.errors import InvalidArgument
from parlora.limits import Limits
from parlora_actors.host_timing import NODE_START_TIMEOUT_MS

COMPONENTS: Final = ("channel", "provider", "backend", "context_policy")
"""Tables that name a component: `use` and, beside it, the component's own options."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table: its type in TOML's words, its default as shown to people, and what it means."""

    table: str
    name: str
    type: str
    default: str
    meaning: str

    @property
    def path(self) -> str:
        """The key as it is named in errors and in the reference."""
        return f"{self.table}.{self.name}"


_TYPES: Final[dict[str, type | tuple[type, ...]]] = {
    "string": str,
    "integer": int,
    "table": dict,
    "array of strings": list,
    "array of tables": list,
}

KEYS: Final = (
    Key("session", "instructions", "string", "none", "what the provider is told about its part"),
    Key("session", "audio_format", "string", "pcm16le", "pcm16le (24 kHz) or pcmu (8 kHz)"),
    Key("session", "id", "string", "a fresh one", "the session's id, at most 128 bytes"),
    Key("session", "close", "string", "finish", "what becomes of running jobs at the end: finish or cancel"),
    Key("session", "context", "table", "empty", "the application context of the first snapshot"),
    Key("session", "history", "array of tables", "empty", "earlier words, oldest first: speaker, text"),
    *(
        Key(table, "use", "string", "required", "import path of the component, package.module:Name; "
            "every other key of the table is an option of the component")
        for table in COMPONENTS
    ),
    Key("node", "preload", "array of strings", "empty", "modules imported before the first fork"),
    Key("node", "env_drop", "array of strings", "empty", "environment variables that no process of the node shall see"),
    Key("node", "log", "string", "in the run directory", "file for the node's log, one JSON object a line"),
    Key("node", "startup_timeout_ms", "integer", f"{NODE_START_TIMEOUT_MS:,}", "how long the node may take to start"),
)  # fmt: skip
"""Every key but those of `[limits]`, which are the fields of `Limits`."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """A valid configuration: the arguments of `ActorHost` and of `start_session`."""

    directory: str
    node: dict[str, Any]
    session: dict[str, Any]
    close_policy: str


def load_config(path: Path) -> RunConfig:
    """Read and check the file; raises `InvalidArgument` naming the file or the key."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidArgument(f"cannot read {path}: {error.strerror}", field="--config") from None
    except UnicodeDecodeError:
        raise InvalidArgument(f"{path} is not UTF-8 text", field="--config") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidArgument(f"{path} is not valid TOML: {error}", field="--config") from None
    return parse_config(data, str(path.resolve().parent))


def parse_config(data: dict[str, Any], directory: str) -> RunConfig:
    """Check the content of a file; `directory` is where the application's modules are looked for first."""
    tables = ("session", *COMPONENTS, "limits", "node")
    for name, value in data.items():
        if name not in tables:
            raise InvalidArgument(f"{name} is no table of a configuration; allowed are {', '.join(tables)}", field=name)
        if not isinstance(value, dict):
            raise InvalidArgument(f"{name} must be a table: [{name}]", field=name)
    session = _table(data, "session")
    node = _table(data, "node")
    policy = session.pop("close", str(ClosePolicy.FINISH))
    policies = [str(item) for item in ClosePolicy]
    if policy not in policies:
        raise InvalidArgument(f"session.close must be one of {', '.join(policies)}", field="session.close")
    if "id" in session:
        session["session_id"] = session.pop("id")
    if "audio_format" in session:
        session["audio_format"] = AudioFormat.from_data(session["audio_format"], "session.audio_format")
    session |= {name: _component(data, name) for name in COMPONENTS}
    session["limits"] = _limits(data.get("limits", {}))
    return RunConfig(directory, node, session, policy)


def _table(data: dict[str, Any], table: str) -> dict[str, Any]:
    known = {key.name: key for key in KEYS if key.table == table}
    values = dict(data.get(table, {}))
    for name, value in values.items():
        if name not in known:
            raise InvalidArgument(f"{table}.{name} is no key; allowed are {', '.join(known)}", field=f"{table}.{name}")
        key = known[name]
        if not isinstance(value, _TYPES[key.type]) or isinstance(value, bool):
            raise InvalidArgument(f"{key.path} must be {_article(key.type)}", field=key.path)
        inner = str if key.type == "array of strings" else dict
        if isinstance(value, list) and not all(isinstance(item, inner) for item in value):
            raise InvalidArgument(f"{key.path} must be {_article(key.type)}", field=key.path)
    return values


def _component(data: dict[str, Any], table: str) -> tuple[str, dict[str, Any]]:
    options = dict(data.get(table, {}))
    use = options.pop("use", None)
    if not isinstance(use, str):
        raise InvalidArgument(f"{table}.use is required: an import path, package.module:Name", field=f"{table}.use")
    return use, options


def _limits(data: dict[str, Any]) -> Limits:
    known = [field.name for field in fields(Limits)]
    for name, value in data.items():
        if name not in known:
            raise InvalidArgument(f"limits.{name} is no key; allowed are {', '.join(known)}", field=f"limits.{name}")
        if type(value) is not int:
            raise InvalidArgument(f"limits.{name} must be an integer", field=f"limits.{name}")
    return Limits.from_data(data)


def _article(type: str) -> str:
    return f"an {type}" if type[0] in "aeiou" else f"a {type}"
