"""The smallest correct channel: a caller who sends silence, a tone or numbers, and who throws away what is played.

For tests and benchmarks: `("parlora.channels.trivial:TrivialChannel", {"send": "silence"})`.
"""

from __future__ import annotations

import math
import struct
import threading
from enum import StrEnum
from typing import Any, Final

from parlora.audio.format import AudioFormat, Encoding
from parlora.audio.port import AudioSink, AudioSource, WriteResult
from parlora.audio.ticker import Ticker
from parlora.contract.adapter import AdapterInit, ClosePolicy, EventSink
from parlora.contract.channel import (
    Channel,
    ChannelCapabilities,
    ChannelCommand,
    ClearOutput,
    ClearScope,
    SuppressOutput,
)
from parlora.contract.commands import CommandLog
from parlora.errors import Closed, InvalidArgument
from parlora.events import EventType
from parlora.wire import to_data

FRAME_US: Final = 20_000
"""One frame every 20 ms, as carriers send them."""

_TONE_HZ: Final = 400
_TONE_LEVEL: Final = 8_000


class Send(StrEnum):
    """What the caller's side sends: nothing, silence, a 400 Hz tone, or frames that begin with their own number."""

    IDLE = "idle"
    SILENCE = "silence"
    TONE = "tone"
    COUNTER = "counter"


class TrivialChannel(Channel):
    """Sends `frames` frames of 20 ms (None: until closed) and drops what is played, both counted in `closed`.

    A frame of `counter` begins with its number as a little-endian unsigned 32-bit integer, so that a test sees loss and
    order; the rest is silence. `tone` is for PCM16 only.
    """

    def __init__(self, send: str = Send.SILENCE, frames: int | None = None) -> None:
        if send not in list(Send):
            raise InvalidArgument(f"send must be one of {', '.join(Send)}", field="send")
        if frames is not None and (type(frames) is not int or frames < 0):
            raise InvalidArgument("frames must be a non-negative integer or None", field="frames")
        self._send = Send(send)
        self._frames_left = frames
        # The media thread and the callbacks take turns, so each port has one user at a time.
        self._turn = threading.Lock()
        self._sent = self._refused = self._played = self._played_bytes = 0
        self._suppressed = False
        self._closing = False
        self._ticker: Ticker | None = None

    def start(self, init: AdapterInit) -> None:
        """Begin to send and to drain."""
        format = init.audio_format
        if format is None or init.audio_in is None or init.audio_out is None:
            raise InvalidArgument("a channel needs a format and two audio ports", field="audio_format")
        self._format: AudioFormat = format.check_supported()
        if self._send is Send.TONE and format.encoding is not Encoding.PCM16LE:
            raise InvalidArgument("send='tone' needs PCM16", field="send")
        self._sink: EventSink = init.event_sink
        self._playback: AudioSource = init.audio_in
        self._capture: AudioSink = init.audio_out
        self._read_bytes = init.limits.audio_queue_bytes or format.bytes_for_us(1_000_000)
        self._commands = CommandLog(init.limits.max_records)
        self._frame = _content(self._send, format)
        capabilities = ChannelCapabilities(
            input_formats=(format,),
            output_formats=(format,),
            output_suppression=True,
            clear_scope=ClearScope.PARLORA_BUFFERS,
        )
        payload = {"capabilities": to_data(capabilities), "audio_format": format.to_data()}
        self._sink.emit(EventType.READY, payload)
        self._ticker = Ticker(self._tick, FRAME_US, "trivial-channel")
        self._ticker.start()

    def control(self, command: ChannelCommand, command_id: str) -> None:
        """Clear or suppress at once."""
        with self._turn:
            if self._closing:
                raise Closed("the channel is closing")
            if not self._commands.admit(command_id, "control", command):
                return
            outcome: dict[str, Any]
            if isinstance(command, ClearOutput):
                loss = self._playback.clear(command.epoch)
                outcome = {"control": "clear_output", "epoch": command.epoch, "dropped": to_data(loss)}
            elif isinstance(command, SuppressOutput):
                self._suppressed = command.on
                outcome = {"control": "suppress_output", "on": command.on, "epoch": self._playback.epoch}
            else:
                self._commands.forget(command_id)
                raise InvalidArgument(f"{type(command).__name__} is no channel control", field="command")
            self._commands.settle(command_id)
        outcome |= {"scope": str(ClearScope.PARLORA_BUFFERS), "error": None}
        self._sink.emit(EventType.CONTROL_COMPLETED, outcome, command_id=command_id)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Stop sending and draining, and say what there was."""
        with self._turn:
            if self._closing:
                return
            self._closing = True
            counts = {
                "sent_frames": self._sent,
                "refused_frames": self._refused,
                "played_frames": self._played,
                "played_bytes": self._played_bytes,
            }
        if self._ticker is not None:
            self._ticker.stop()
        self._sink.emit(EventType.CLOSED, counts, command_id=command_id)

    def _tick(self) -> bool:
        with self._turn:
            if self._closing:
                return False
            try:
                self._drain()
            except Closed:
                return False
            return self._offer()

    def _drain(self) -> None:
        for frame in self._playback.read(self._read_bytes):
            if not self._suppressed:
                self._played += 1
                self._played_bytes += len(frame.data)

    def _offer(self) -> bool:
        if self._send is Send.IDLE or self._frames_left == 0:
            return True
        data = self._frame
        if self._send is Send.COUNTER:
            data = struct.pack("<I", self._sent + self._refused) + data[4:]
        result = self._capture.write(data)
        if result is WriteResult.OK:
            self._sent += 1
        else:
            # A live caller cannot be asked to wait: what does not fit now is lost, and counted.
            self._refused += 1
        if self._frames_left is not None:
            self._frames_left -= 1
        return result is not WriteResult.CLOSED


def _content(send: Send, format: AudioFormat) -> bytes:
    silence = format.silence(FRAME_US)
    if send is not Send.TONE:
        return silence
    samples = len(silence) // 2
    turn = 2 * math.pi * _TONE_HZ / format.sample_rate  # 8 whole periods a frame: no click between frames
    return struct.pack(f"<{samples}h", *(round(_TONE_LEVEL * math.sin(turn * n)) for n in range(samples)))
