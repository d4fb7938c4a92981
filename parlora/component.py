"""Which adapter or policy to run: an import path and options that survive msgpack (design §7).

A component is built in another process, so it is named, not passed: `("package.module:Attribute", {options})`.
A class or function that can be imported under its own name may be given in place of the path.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass, field
from typing import Any, Final

from parlora.errors import InvalidArgument
from parlora.wire import pack

_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


@dataclass(frozen=True, slots=True)
class Component:
    """An implementation and its options. Options may hold secrets' names, never secrets; they show in no repr."""

    path: str
    options: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, value: object, field: str) -> Component:
        """A component from `(implementation, options)`, an implementation alone, or a `Component`.

        Raises `InvalidArgument` naming `field`, without importing anything.
        """
        implementation: object
        options: Any
        if isinstance(value, Component):
            implementation, options = value.path, value.options
        elif isinstance(value, tuple | list):
            if len(value) != 2:
                raise InvalidArgument(f"{field} must be an (implementation, options) pair", field=field)
            implementation, options = value
        else:
            implementation, options = value, {}
        if not isinstance(options, dict) or not all(isinstance(key, str) for key in options):
            raise InvalidArgument(f"{field} options must be a dict with string keys", field=f"{field}.options")
        try:
            pack(options)
        except InvalidArgument as error:
            raise InvalidArgument(f"{field} options: {error.message}", field=f"{field}.options") from None
        return cls(_path_of(implementation, field), options)

    def load(self, field: str) -> Any:
        """Import and return the attribute; raises `InvalidArgument` naming `field` if that fails."""
        module_name, _, attribute = self.path.partition(":")
        try:
            found: Any = importlib.import_module(module_name)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (Exception, SystemExit) as error:  # an import runs application code: anything may come
            raise InvalidArgument(
                f"{field}: cannot import {self.path}: {type(error).__name__}: {error}", field=field
            ) from error
        return found

    def build(self, field: str) -> Any:
        """Import the attribute and call it with the options; raises `InvalidArgument` naming `field`."""
        factory = self.load(field)
        if not callable(factory):
            raise InvalidArgument(f"{field}: {self.path} is not callable", field=field)
        try:
            return factory(**self.options)
        except InvalidArgument as error:
            inner = error.details.get("field")
            named = f"{field}.options.{inner}" if inner else field
            raise InvalidArgument(f"{field}: {error.message}", field=named) from error
        except TypeError as error:
            message = f"{field}: {self.path}: {error}{_allowed(factory, self.options)}"
            raise InvalidArgument(message, field=f"{field}.options") from error


def _allowed(factory: Any, options: dict[str, Any]) -> str:
    """What the options may be, if they do not fit; an error from within says so itself."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):  # of some classes in C
        return ""
    try:
        signature.bind(**options)
    except TypeError:
        names = [name for name, each in signature.parameters.items() if each.kind in _NAMED]
        return f"; allowed are {', '.join(names)}" if names else "; it takes no options"
    return ""


def _path_of(implementation: object, field: str) -> str:
    if isinstance(implementation, str):
        module_name, colon, attribute = implementation.partition(":")
        names = [*module_name.split("."), *attribute.split(".")]
        if not colon or not all(name.isidentifier() for name in names):
            raise InvalidArgument(f"{field} must look like 'package.module:Name', got {implementation!r}", field=field)
        return implementation
    name: object = getattr(implementation, "__qualname__", None)
    home: object = getattr(implementation, "__module__", None)
    if not isinstance(name, str) or not isinstance(home, str) or getattr(implementation, "__self__", None):
        raise InvalidArgument(f"{field} must be an import path, a class or a module-level function", field=field)
    if "<" in name:  # <lambda> or <locals>: another process cannot import it
        raise InvalidArgument(
            f"{field} must be importable by name; {name} is a lambda or is defined inside a function", field=field
        )
    return f"{home}:{name}"
