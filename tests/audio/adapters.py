"""Two ends of a call that keep exact books: a provider that numbers its frames, a channel that notes what reaches it.

A frame begins with its number and the playback epoch it was made for. The channel appends one record for each frame
to a file, with the time at which it was taken, so that nothing has to be believed that an event says.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlora.audio.port import WriteResult
from parlora.audio.ticker import Ticker
from parlora.backends.trivial import TrivialBackend
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.contract.channel import (
    Channel,
    ChannelCapabilities,
    ChannelCommand,
    ClearOutput,
    ClearScope,
    OutputPacing,
)
from parlora.errors import Closed
from parlora.limits import AudioLimits
from parlora.providers.trivial import TrivialProvider
from parlora.wire import to_data

ADAPTERS = "tests.audio.adapters"

FRAME_BYTES = 960
FRAME_US = 20_000
HEAD = struct.Struct("<II")
RECORD = struct.Struct("<QIIIQ")


@dataclass(frozen=True)
class Taken:
    """One frame that reached the channel, and when the provider had handed it over."""

    at_us: int
    number: int
    epoch: int
    bytes: int
    receipt_us: int


def taken(path: Path) -> list[Taken]:
    """What reached the channel so far."""
    data = path.read_bytes()
    return [Taken(*record) for record in RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size])]


class NumberingProvider(TrivialProvider):
    """Keeps its store full: `extension {name: stored}` says so once an epoch. With `frames`, only so many in all.

    `extension {name: written}` says at the end how many frames were admitted; the file `count` says so at any time.
    """

    def __init__(self, frames: int | None = None, count: str | None = None) -> None:
        super().__init__()
        self._count = None if count is None else os.open(count, os.O_CREAT | os.O_WRONLY)
        self._left = frames
        self._written = 0
        self._full_epoch = -1

    @classmethod
    def audio_limits(cls, format: Any) -> AudioLimits:
        return AudioLimits(format.bytes_for_us(20_000_000), 21_000)

    def start(self, init: AdapterInit) -> None:
        super().start(init)
        self._writing = Ticker(self._write, FRAME_US, "numbering")
        self._writing.start()

    def _write(self) -> bool:
        with self._turn:
            if self._closing:
                return False
            while self._left is None or self._left > 0:
                epoch = self._generated.epoch
                data = HEAD.pack(self._written, epoch) + bytes(FRAME_BYTES - HEAD.size)
                result = self._generated.write(data, epoch=epoch)
                if result is WriteResult.OK:
                    self._written += 1
                    if self._count is not None:
                        os.pwrite(self._count, HEAD.pack(self._written, 0), 0)
                    self._left = None if self._left is None else self._left - 1
                elif result is WriteResult.BACKPRESSURE:
                    self._tell_full(epoch)
                    return True
                elif result is WriteResult.CLOSED:
                    return False
            return True

    def _tell_full(self, epoch: int) -> None:
        if epoch != self._full_epoch:
            self._full_epoch = epoch
            queued = self._generated.status().queued_bytes
            self._sink.emit("extension", {"name": "stored", "epoch": epoch, "queued_bytes": queued})

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        with self._turn:
            self._sink.emit("extension", {"name": "written", "frames": self._written})
        super().close(policy, command_id)


class NotingChannel(Channel):
    """Takes what is there, every 20 ms, and notes it in the file `path`.

    hold: takes nothing until `release_output_recovery` asks for it. Reports `extension {name: released}` then.
    """

    def __init__(self, path: str, pacing: str = "pipeline", hold: bool = False) -> None:
        self._path = path
        self._pacing = OutputPacing(pacing)
        self._hold = hold
        self._turn = threading.Lock()
        self._closing = False
        self._suppressed = False

    def start(self, init: AdapterInit) -> None:
        assert init.audio_format is not None
        assert init.audio_in is not None
        self._sink, self._playback = init.event_sink, init.audio_in
        self._max_bytes = init.limits.max_frame_bytes or 4_800
        self._file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        capabilities = ChannelCapabilities(
            input_formats=(init.audio_format,),
            output_formats=(init.audio_format,),
            output_suppression=True,
            clear_scope=ClearScope.PARLORA_BUFFERS,
            output_pacing=self._pacing,
        )
        self._sink.emit("ready", {"capabilities": to_data(capabilities), "audio_format": init.audio_format.to_data()})
        self._ticker = Ticker(self._tick, FRAME_US, "noting")
        self._ticker.start()

    def control(self, command: ChannelCommand, command_id: str) -> None:
        outcome: dict[str, Any] = {"error": None}
        with self._turn:
            if isinstance(command, ClearOutput):
                loss = self._playback.clear(command.epoch)
                outcome |= {"control": "clear_output", "epoch": command.epoch, "dropped": to_data(loss)}
            else:
                outcome |= {"control": "suppress_output", "on": command.on}
        self._sink.emit("control_completed", outcome, command_id=command_id)

    def release_output_recovery(self, epoch: int) -> None:
        with self._turn:
            if epoch == self._playback.epoch and self._hold:
                self._hold = False
                self._sink.emit("extension", {"name": "released", "epoch": epoch})

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        with self._turn:
            self._closing = True
            os.close(self._file)
        self._ticker.stop()
        self._sink.emit("closed", {}, command_id=command_id)

    def _tick(self) -> bool:
        with self._turn:
            if self._closing:
                return False
            if not self._hold:
                try:
                    self._note()
                except Closed:
                    return False
            return True

    def _note(self) -> None:
        for frame in self._playback.read(self._max_bytes):
            number, epoch = HEAD.unpack_from(frame.data)
            now_us = time.monotonic_ns() // 1_000
            os.write(self._file, RECORD.pack(now_us, number, epoch, len(frame.data), frame.timestamp_us))


class DeafChannel(NotingChannel):
    """Holds for ever: it has no recovery to release."""

    release_output_recovery = Channel.release_output_recovery  # type: ignore[assignment]


class HoldsTheLock(TrivialBackend):
    """Keeps its interpreter's lock in C for a second and a half, when it has told so."""

    HELD_US = 1_500_000

    def start(self, init: AdapterInit) -> None:
        super().start(init)
        sink = init.event_sink

        def hold() -> None:
            time.sleep(1)
            sink.emit("extension", {"name": "holding"})
            time.sleep(0.05)  # or nobody could send it
            ctypes.PyDLL(None).usleep(self.HELD_US)

        threading.Thread(target=hold, daemon=True).start()
