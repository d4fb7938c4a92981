"""The sound devices of this machine, as PyAudio tells of them. The package is imported on first use, never before."""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from parlora.errors import InvalidArgument, Unsupported

INSTALL_LINE: Final = "apt-get install portaudio19-dev && pip install 'parlora[local]'"


class Direction(StrEnum):
    """Which way sound goes."""

    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Device:
    """One device. `input_channels` and `output_channels` are 0 where it cannot; `rate_hz` is what it prefers."""

    index: int
    name: str
    host_api: str
    input_channels: int
    output_channels: int
    rate_hz: int
    is_default_input: bool
    is_default_output: bool

    def channels(self, direction: Direction) -> int:
        """How many it has in this direction."""
        return self.input_channels if direction is Direction.INPUT else self.output_channels

    def is_default(self, direction: Direction) -> bool:
        """Whether the system takes this one where none is named."""
        return self.is_default_input if direction is Direction.INPUT else self.is_default_output


def load_pyaudio() -> Any:
    """The module; raises `Unsupported` with the install line without the extra."""
    try:
        return importlib.import_module("pyaudio")
    except ImportError as error:
        raise Unsupported(
            f"the local channel needs the package pyaudio: {INSTALL_LINE}",
            details={"package": "pyaudio", "install": INSTALL_LINE},
        ) from error


@contextlib.contextmanager
def library() -> Iterator[Any]:
    """PortAudio, ended with the block. It looks for devices once, when it begins."""
    opened = open_library()
    try:
        yield opened
    finally:
        opened.terminate()


def open_library() -> Any:
    """PortAudio; the caller ends it with `terminate`."""
    pyaudio = load_pyaudio()
    with quiet():
        return pyaudio.PyAudio()


def devices_of(opened: Any) -> list[Device]:
    """Every device that the library found."""
    defaults = {direction: _default(opened, direction) for direction in Direction}
    found = []
    for index in range(opened.get_device_count()):
        about = opened.get_device_info_by_index(index)
        found.append(
            Device(
                index=index,
                name=str(about["name"]),
                host_api=str(opened.get_host_api_info_by_index(about["hostApi"])["name"]),
                input_channels=int(about["maxInputChannels"]),
                output_channels=int(about["maxOutputChannels"]),
                rate_hz=int(about["defaultSampleRate"]),
                is_default_input=index == defaults[Direction.INPUT],
                is_default_output=index == defaults[Direction.OUTPUT],
            )
        )
    return found


def list_devices() -> list[Device]:
    """Every sound device of this machine; raises `Unsupported` with the install line without the extra `local`."""
    with library() as opened:
        return devices_of(opened)


def choose(devices: Sequence[Device], wanted: str | int | None, direction: Direction) -> Device:
    """The device with this index or name, or the system's default; raises `InvalidArgument` naming the option."""
    field = f"{direction}_device"
    able = [device for device in devices if device.channels(direction)]
    if not able:
        raise Unsupported(f"this machine has no {direction} device", details={"field": field})
    if wanted is None:
        return next((device for device in able if device.is_default(direction)), able[0])
    for device in able:
        if wanted == (device.index if isinstance(wanted, int) else device.name):
            return device
    names = ", ".join(f"{device.index} ({device.name})" for device in able)
    raise InvalidArgument(f"{field}: there is no {wanted!r}; there are {names}", field=field)


def _default(opened: Any, direction: Direction) -> int | None:
    ask = (
        opened.get_default_input_device_info if direction is Direction.INPUT else opened.get_default_output_device_info
    )
    try:
        return int(ask()["index"])
    except OSError:
        return None


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """PortAudio and ALSA write dozens of lines about devices that are not there to the process's stderr."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
