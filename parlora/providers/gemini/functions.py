"""The client functions an application offers to Gemini, each call of which becomes a delegation."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from parlora.errors import InvalidArgument

DEFAULT_FUNCTIONS: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": "ask_application",
        "description": "Hand a request of the caller to the application, which can look things up and do things. "
        "It answers later; go on talking meanwhile, and never make up what it will say.",
        "parameters": {
            "type": "OBJECT",
            "properties": {"request": {"type": "STRING", "description": "What the caller wants, in one sentence."}},
            "required": ["request"],
        },
    },
)
"""Offered if an application names none of its own."""

MAX_FUNCTIONS: Final = 64
MAX_DECLARATION_BYTES: Final = 16_384

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")  # documented: 128 characters, a letter or _ first
_FIELDS: Final = {"name", "description", "parameters"}


def check_functions(value: object) -> tuple[dict[str, Any], ...]:
    """The declarations as they go out; raises `InvalidArgument` naming the entry.

    value: None for the default, or 1 to 64 of `{name, description, parameters}`; `parameters` is the service's Schema
    and may be left out.
    """
    if value is None:
        return DEFAULT_FUNCTIONS
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_FUNCTIONS:
        raise InvalidArgument(f"functions must be a list of 1 to {MAX_FUNCTIONS} declarations", field="functions")
    checked = tuple(_check(entry, f"functions[{index}]") for index, entry in enumerate(value))
    if len({entry["name"] for entry in checked}) < len(checked):
        raise InvalidArgument("functions must have different names", field="functions")
    return checked


def _check(entry: object, field: str) -> dict[str, Any]:
    if not isinstance(entry, Mapping) or not set(entry) <= _FIELDS:
        raise InvalidArgument(f"{field} may have name, description and parameters only", field=field)
    name, description, parameters = entry.get("name"), entry.get("description"), entry.get("parameters")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(
            f"{field}.name must have 1 to 128 of A-Z a-z 0-9 _ . : - and begin with a letter or _",
            field=f"{field}.name",
        )
    if not isinstance(description, str) or not description.strip():
        raise InvalidArgument(f"{field}.description must be a non-empty text", field=f"{field}.description")
    declaration: dict[str, Any] = {"name": name, "description": description}
    if parameters is not None:
        if not isinstance(parameters, Mapping):
            raise InvalidArgument(f"{field}.parameters must be a mapping", field=f"{field}.parameters")
        declaration["parameters"] = copy.deepcopy(dict(parameters))
    try:
        size = len(json.dumps(declaration))
    except (TypeError, ValueError, RecursionError):
        raise InvalidArgument(f"{field}.parameters must be plain data", field=f"{field}.parameters") from None
    if size > MAX_DECLARATION_BYTES:
        raise InvalidArgument(f"{field} may have at most {MAX_DECLARATION_BYTES} bytes as JSON", field=field)
    return declaration
