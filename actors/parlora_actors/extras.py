"""The extras of the package: what each brings, under which licence, and whether it is installed here."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Part:
    """One package of an extra: its name in the package index, and the licence of what it installs."""

    package: str
    licence: str


@dataclass(frozen=True, slots=True)
class Extra:
    """One extra. gives: what it makes possible."""

    name: str
    gives: str
    parts: tuple[Part, ...]

    @property
    def install(self) -> str:
        """The line that installs it."""
        return f"pip install 'parlora[{self.name}]'"


EXTRAS: Final = (
    Extra("local", "the microphone and loudspeaker of this machine", (Part("pyaudio", "MIT"),)),
    Extra(
        "offline",
        "speech recognition and synthesis without a key and without a network",
        (
            Part("pocketsphinx", "BSD-style"),
            Part("espeakng-loader", "GPL-3.0-or-later (the eSpeak NG library and voices inside it)"),
        ),
    ),
)
"""Every extra that is for users, as pyproject.toml declares them; docs/licences.md says more."""


def installed_version(package: str) -> str | None:
    """The version of an installed package, without importing it; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
