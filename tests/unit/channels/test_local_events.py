"""What the local channel tells, on a sound card made of threads."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from parlora.channels.local import LocalAudio
from parlora.channels.local import channel as channel_module
from parlora.channels.local.devices import Device
from parlora.testing.adapters import AdapterHarness

CARD = Device(0, "card", "ALSA", 1, 2, 48_000, True, True)
MEASURED = {
    "poll_gap_us", "last_capture_us", "last_playback_us", "input_rate_hz", "output_rate_hz",
    "capture_queued_bytes", "playback_queued_bytes",
}  # fmt: skip


class Card:
    """Comes for audio every few milliseconds on a thread, as a device does; `flags` is what it reports."""

    def __init__(self) -> None:
        self.flags = 0
        self.alive = True

    def is_format_supported(self, rate: int, **_: Any) -> bool:
        return rate == 48_000

    def open(self, *, rate: int, frames_per_buffer: int, stream_callback: Any, **_: Any) -> Any:
        over = threading.Event()

        def run() -> None:
            while not over.wait(0.004) and self.alive:
                stream_callback(bytes(2 * frames_per_buffer), frames_per_buffer, {}, self.flags)

        thread = threading.Thread(target=run)
        thread.start()

        def close() -> None:
            over.set()
            thread.join()

        return SimpleNamespace(is_active=lambda: self.alive, close=close)

    def terminate(self) -> None:
        self.alive = False


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Card:
    made = Card()
    constants = SimpleNamespace(paInt16=8, paContinue=0, paComplete=1)
    monkeypatch.setattr(channel_module, "load_pyaudio", lambda: constants)
    monkeypatch.setattr(channel_module, "open_library", lambda: made)
    monkeypatch.setattr(channel_module, "devices_of", lambda _: [CARD])
    return made


@pytest.mark.row("LA-06", "LA-08")
def test_overflow_and_underrun_come_with_measurements_and_without_a_cause(card: Card) -> None:
    with AdapterHarness(LocalAudio()) as channel:
        channel.start()
        lost = channel.wait_for("audio_discontinuity").payload  # nobody takes what is captured
        assert (lost["stream"], lost["cause"]) == ("input", "capture_overflow")
        assert lost["dropped_frames"] * 960 == lost["dropped_bytes"]
        assert set(lost) == MEASURED | {"stream", "cause", "dropped_frames", "dropped_bytes", "dropped_duration_us"}
        card.flags = 4
        underrun = channel.wait_for("device_underrun").payload
        assert set(underrun) == MEASURED | {"count"}
        for payload in (lost, underrun):
            assert payload["capture_queued_bytes"] == 9_600
            assert payload["input_rate_hz"] == payload["output_rate_hz"] == 48_000
            assert payload["poll_gap_us"] > 0
            assert min(payload["last_capture_us"], payload["last_playback_us"]) > 0
        assert channel.close_adapter().payload["reason"] == "closed"


def test_a_device_that_stops_coming_ends_the_channel_with_its_code(card: Card) -> None:
    with AdapterHarness(LocalAudio()) as channel:
        channel.start()
        card.alive = False
        assert channel.wait_for("failed").payload["error"]["code"] == "device_lost"
