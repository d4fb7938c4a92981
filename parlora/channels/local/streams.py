"""The two streams to the sound card: one for both directions stalls where ALSA is a plugin of a sound server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from parlora.channels.local.devices import Device, Direction
from parlora.errors import ParloraError

PERIOD_US: Final = 20_000
"""How much the device takes or gives at a time, as carriers do. With half of it a sound server on a busy machine ran
dry more often."""

SILENT_US: Final = 1_500_000
"""A device that has not come for so long is gone: a busy interpreter lets it come after a fraction of that."""

CLOSE_S: Final = 0.5
"""How long a stream may take to close; a dead sound server may never let it."""

FIRST_US: Final = 5_000_000
"""How long a device may take to come for audio for the first time: a sound server that wakes up takes a second or two,
and a call that began before would overflow at once."""

COMMON_RATES_HZ: Final = (48_000, 44_100)
OUTPUT_UNDERFLOW: Final = 4
INPUT_OVERFLOW: Final = 2


@dataclass(frozen=True, slots=True)
class DeviceFormat:
    """What a device agreed to: PCM16 of this rate with so many channels."""

    rate_hz: int
    channels: int


def negotiate(library: Any, pyaudio: Any, device: Device, direction: Direction, wanted_hz: int) -> DeviceFormat:
    """The first format that the device takes: the session's rate, its own, a common one; mono before stereo."""
    for channels in (1, 2):
        if channels > device.channels(direction):
            continue
        for rate_hz in dict.fromkeys((wanted_hz, device.rate_hz, *COMMON_RATES_HZ)):
            asked = {
                f"{direction}_device": device.index,
                f"{direction}_channels": channels,
                f"{direction}_format": pyaudio.paInt16,
            }
            try:
                if library.is_format_supported(rate_hz, **asked):
                    return DeviceFormat(rate_hz, channels)
            except ValueError:
                continue
    raise ParloraError(
        f"the {direction} device {device.name} takes no 16-bit format that can be converted",
        code="device_format",
        details={"field": f"{direction}_device"},
    )


class Stream:
    """One direction, in callback mode. `work(data, frames, now_us)` runs on PortAudio's thread; its bytes are played.

    An exception in it ends the stream; `failure` keeps it.
    """

    def __init__(self, direction: Direction, work: Callable[[bytes, int, int], bytes | None]) -> None:
        self._direction = direction
        self._work = work
        self._stream: Any = None
        self._done: tuple[int, int] = (0, 1)
        self._opened_us = 0
        self._last_us = 0
        self._came = threading.Event()
        self.xruns = 0
        self.failure: BaseException | None = None

    def open(self, library: Any, pyaudio: Any, device: Device, agreed: DeviceFormat) -> None:
        """Open and run; raises `ParloraError` with the code `device_unavailable` if the device refuses."""
        self._done = (pyaudio.paContinue, pyaudio.paComplete)
        self._opened_us = _now_us()
        try:
            self._stream = library.open(
                rate=agreed.rate_hz,
                channels=agreed.channels,
                format=pyaudio.paInt16,
                frames_per_buffer=agreed.rate_hz * PERIOD_US // 1_000_000,
                stream_callback=self._callback,
                **{str(self._direction): True, f"{self._direction}_device_index": device.index},
            )
        except (OSError, RuntimeError, ValueError) as error:
            raise ParloraError(
                f"the {self._direction} device {device.name} cannot be opened: {error}",
                code="device_unavailable",
                details={"field": f"{self._direction}_device"},
            ) from error

    def _callback(self, data: bytes | None, frames: int, times: object, flags: int) -> tuple[bytes | None, int]:
        self._last_us = now_us = _now_us()
        self._came.set()
        if flags & (OUTPUT_UNDERFLOW | INPUT_OVERFLOW):
            self.xruns += 1
        try:
            return self._work(data or b"", frames, now_us), self._done[0]
        except BaseException as error:  # PortAudio would lose it
            self.failure = error
            return None, self._done[1]

    def wait_running(self, deadline_us: int) -> None:
        """Wait until the device has come for the first time; raises `ParloraError` with `device_unavailable`."""
        if not self._came.wait(max(0, deadline_us - _now_us()) / 1e6) or self.failure is not None:
            raise ParloraError(
                f"the {self._direction} device does not run",
                code="device_unavailable",
                details={"field": f"{self._direction}_device"},
            )

    def is_alive(self) -> bool:
        """Whether the device still comes for audio; a stream whose server died stops without a word."""
        if self.failure is not None or self._stream is None or not self._stream.is_active():
            return False
        return _now_us() - max(self._last_us, self._opened_us) < SILENT_US

    def close(self) -> None:
        """Stop and close, however the device is; gives up after `CLOSE_S`, for a dead server may hold it for ever."""
        stream, self._stream = self._stream, None
        if stream is not None:
            thread = threading.Thread(target=_close, args=(stream,), name="local-close", daemon=True)
            thread.start()
            thread.join(CLOSE_S)


def _close(stream: Any) -> None:
    try:
        stream.close()
    except OSError:
        return


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
