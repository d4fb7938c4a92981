"""How `parlora-actor` ends: exit codes, and errors as one line for people or one object for programs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from parlora.errors import InvalidArgument, ParloraError, Unsupported


class ExitCode(IntEnum):
    """The exit codes, each with its meaning."""

    OK = 0
    """everything asked for was done"""
    FAILED = 1
    """the session, or what the command had to prove, failed"""
    BAD_INPUT = 2
    """an option, the configuration file or a component named in it is wrong; the message names it"""
    SYSTEM = 3
    """the node could not start or broke, none runs where one should, or the machine lacks something"""
    INTERRUPTED = 130
    """ended by Ctrl-C (SIGINT)"""
    TERMINATED = 143
    """ended by SIGTERM"""


class CommandError(Exception):
    """Ends a command with an exit code; `error` is what to tell."""

    def __init__(self, code: ExitCode, error: ParloraError) -> None:
        super().__init__(error.message)
        self.code = code
        self.error = error


def code_of(error: ParloraError) -> ExitCode:
    """The exit code of a session's or an argument's error: whoever named a field can mend it."""
    if isinstance(error, InvalidArgument) or (isinstance(error, Unsupported) and "field" in error.details):
        return ExitCode.BAD_INPUT
    return ExitCode.FAILED


@contextlib.contextmanager
def system_errors() -> Iterator[None]:
    """What fails inside is the node's or the machine's fault, unless it is an argument's."""
    try:
        yield
    except ParloraError as error:
        code = ExitCode.BAD_INPUT if code_of(error) is ExitCode.BAD_INPUT else ExitCode.SYSTEM
        raise CommandError(code, error) from error


@contextlib.contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """End the process with the right code and one line on stderr (and one object on stdout) for what fails inside."""
    try:
        yield
    except CommandError as stop:
        _tell(stop.error, as_json)
        sys.exit(stop.code)
    except ParloraError as error:
        _tell(error, as_json)
        sys.exit(code_of(error))
    except BrokenPipeError:  # the reader of our output has gone: nobody is left to tell
        sys.stdout = None
        sys.exit(ExitCode.FAILED)


def _tell(error: ParloraError, as_json: bool) -> None:
    say(f"error: {error.message}")
    if as_json:
        print_json({"ok": False, "error": error.to_data()})


def say(text: str) -> None:
    """One line of talk, on stderr."""
    print(" ".join(text.splitlines()), file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """One line of data, on stdout."""
    print(json.dumps(value, default=str), flush=True)
