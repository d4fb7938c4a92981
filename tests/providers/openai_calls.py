"""A GPT-Live adapter on memory ports, against the local fake."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from parlora.audio.format import AudioFormat
from parlora.errors import Closed
from parlora.limits import Limits
from parlora.providers.cloud.connection import Timing
from parlora.providers.openai.adapter import OpenAI
from parlora.testing.adapters import AdapterHarness
from parlora.testing.ports import MemoryPort
from parlora.testing.providers.openai import FakeOpenAI

KEY = "sk-test-5be1f2a7c3d94e60"
"""Looked for in everything that comes out."""

KEY_ENV = "PARLORA_TEST_OPENAI_KEY"


class Quick(OpenAI):
    """Finds out about a silent service in half a second instead of 15."""

    timing = Timing(ping_ms=100, silent_ms=500, stall_ms=500, finish_ms=300)


class Drain:
    """Reads generated audio as an output pipeline does, and keeps it."""

    def __init__(self, port: MemoryPort) -> None:
        self._port = port
        self._stopping = threading.Event()
        self.data = b""
        self.largest = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(2)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._port.wait(time.monotonic_ns() // 1_000 + 20_000)
            try:
                for frame in self._port.read(96_000):
                    self.data += frame.data
                    self.largest = max(self.largest, len(frame.data))
            except Closed:
                return


@contextmanager
def calling(
    fake: FakeOpenAI,
    *,
    drain: bool = True,
    adapter: type[OpenAI] = Quick,
    limits: Limits | None = None,
    audio_format: AudioFormat | None = None,
    options: dict[str, Any] | None = None,
    **more: Any,
) -> Iterator[AdapterHarness]:
    """A started adapter; `harness.heard` is what it generated, if it is drained."""
    built = adapter(api_key_env=KEY_ENV, url=fake.url, **(options or {}))
    with AdapterHarness(built, limits=limits, audio_format=audio_format, **more) as harness:
        drained = Drain(harness.audio_out) if drain else None
        harness.heard = drained  # type: ignore[attr-defined]
        try:
            harness.start()
            yield harness
        finally:
            if drained is not None:
                drained.stop()


def until(what: str, look: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + timeout_s
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited {timeout_s} s for {what}"
        time.sleep(0.005)
    return found
