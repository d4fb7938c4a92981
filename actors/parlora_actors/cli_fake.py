"""`parlora-actor fake-provider`: a local stand-in for a cloud service, for trying and for tests of one's own."""

from __future__ import annotations

import importlib
import signal
from typing import Any, Final

from parlora.errors import InvalidArgument
from parlora_actors.cli_exit import CommandError, ExitCode, print_json, say
from parlora_actors.cli_signals import Interrupted, Interrupts

_FAKES: Final = {
    "openai": "parlora.testing.providers.openai:FakeOpenAI",
    "gemini": "parlora.testing.providers.gemini:FakeGemini",
    "grok": "parlora.testing.providers.grok:FakeGrok",
}
"""By the provider's name; each has `demo(port)`, `url`, `start` and `stop`."""


def run_fake(name: str, port: int, as_json: bool) -> ExitCode:
    """Serve until a signal comes; the URL is the first line on stdout."""
    if name not in _FAKES:
        raise InvalidArgument(f"NAME must be one of {', '.join(sorted(_FAKES))}, got {name}", field="NAME")
    module, _, attribute = _FAKES[name].partition(":")
    maker: Any = getattr(importlib.import_module(module), attribute)
    with Interrupts() as interrupts:
        try:
            fake = maker.demo(port)
        except OSError as error:
            wrong = InvalidArgument(f"--port: cannot listen on port {port}: {error.strerror}", field="--port")
            raise CommandError(ExitCode.BAD_INPUT, wrong) from error
        fake.start()
        try:
            if as_json:
                print_json({"provider": name, "url": fake.url})
            else:
                print(fake.url, flush=True)
            say("any key is let in; Ctrl-C ends")
            while not interrupts.asked:
                signal.pause()
        except Interrupted:
            pass
        finally:
            fake.stop()
        return interrupts.exit_code or ExitCode.OK
