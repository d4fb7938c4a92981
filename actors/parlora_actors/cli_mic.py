"""`parlora-actor devices`, and `demo --mic`: the order desk with a person at the microphone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from parlora.channels.local.devices import Direction, choose, list_devices
from parlora.contract.adapter import ClosePolicy
from parlora.errors import InvalidArgument
from parlora.orderdesk.config import session_options
from parlora.wire import to_data
from parlora_actors.cli_exit import ExitCode, print_json, say
from parlora_actors.cli_run import run_config
from parlora_actors.config import RunConfig

CHANNEL: Final = "parlora.channels.local:LocalAudio"
GREETING: Final = "Order desk, which order do you want to check?"


def show_devices(as_json: bool) -> ExitCode:
    """One line for each device, the system's choices marked. Raises `Unsupported` with the install line."""
    for device in list_devices():
        if as_json:
            print_json(to_data(device))
            continue
        able = [f"{device.channels(direction)} {direction}" for direction in Direction if device.channels(direction)]
        default = [f"default {direction}" for direction in Direction if device.is_default(direction)]
        print(
            f"{device.index}: {device.name} ({', '.join([device.host_api, f'{device.rate_hz} Hz', *able, *default])})"
        )
    return ExitCode.OK


def run_mic(out: Path | None, input_device: str | None, output_device: str | None, as_json: bool) -> ExitCode:
    """The call, until Ctrl-C. Raises `InvalidArgument` for a device that is not there, before anything is started."""
    if out is not None:
        raise InvalidArgument("--out: a call with --mic is not recorded", field="--out")
    found = list_devices()
    options: dict[str, Any] = {}
    for direction, given in ((Direction.INPUT, input_device), (Direction.OUTPUT, output_device)):
        wanted = int(given) if given is not None and given.isdecimal() else given
        chosen = choose(found, wanted, direction)
        say(f"{direction}: {chosen.name}")
        options[f"{direction}_device"] = wanted
    say("use headphones: with loudspeakers the desk hears itself")
    say("say: check order one two three")
    session = {"channel": (CHANNEL, options), **session_options(greeting=GREETING)}
    return run_config(RunConfig(os.getcwd(), {}, session, str(ClosePolicy.CANCEL)), as_json)
