"""The local channel: microphone and loudspeaker of this machine are the caller."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from parlora.audio.playback_buffer import Buffering, PlaybackOptions
from parlora.audio.port import AudioSink, AudioSource, Loss
from parlora.audio.ticker import Ticker
from parlora.channels.local.devices import Device, Direction, choose, devices_of, load_pyaudio, open_library, quiet
from parlora.channels.local.microphone import Microphone
from parlora.channels.local.speaker import Speaker
from parlora.channels.local.streams import FIRST_US, DeviceFormat, Stream, negotiate
from parlora.contract.adapter import AdapterInit, ClosePolicy, EventSink
from parlora.contract.channel import (
    Channel,
    ChannelCapabilities,
    ChannelCommand,
    ClearOutput,
    ClearScope,
    OutputPacing,
    PlaybackEvidence,
    SuppressOutput,
)
from parlora.contract.commands import CommandLog
from parlora.errors import AdapterFailed, Closed, InvalidArgument, ParloraError, Timeout, Unsupported
from parlora.events import EventType
from parlora.limits import CLEAR_TIMEOUT_MS
from parlora.wire import to_data

POLL_US: Final = 100_000
"""How often the streams are looked at: a dead one is found within this and `streams.SILENT_US`."""

OBSERVE_EVERY_POLLS: Final = 5  # the latest position twice a second, not one event a frame


class LocalAudio(Channel):
    """The sound card, through PortAudio. Whatever rate and channels the devices have, the session sees its own format.

    Options:

    * `input_device`, `output_device`: a name or an index as `parlora-actor devices` lists them; the system's default
      if they are not given.
    * `playback_buffering`: `adaptive` (default) or `fixed`; `playback_buffer_ms` (default 120), `playback_recovery_ms`
      (default 120, 0 to 200): see `parlora.audio.playback_buffer`.

    There is no echo cancellation: with loudspeakers the assistant hears itself. Use headphones, or a source of the
    sound server that cancels echo.

    A device or sound server that goes away ends the channel with the code `device_lost` within two seconds.
    """

    def __init__(
        self,
        *,
        input_device: object = None,
        output_device: object = None,
        playback_buffering: object = "adaptive",
        playback_buffer_ms: object = 120,
        playback_recovery_ms: object = 120,
    ) -> None:
        self._wanted = {
            Direction.INPUT: _device_option(input_device, "input_device"),
            Direction.OUTPUT: _device_option(output_device, "output_device"),
        }
        if playback_buffering not in tuple(Buffering):
            raise InvalidArgument("playback_buffering must be adaptive or fixed", field="playback_buffering")
        self._options = PlaybackOptions(
            Buffering(str(playback_buffering)),
            playback_buffer_ms,  # type: ignore[arg-type]  # checked below
            playback_recovery_ms,  # type: ignore[arg-type]
        ).check()
        self._turn = threading.Lock()
        self._sink: EventSink | None = None
        self._library: Any = None
        self._streams: list[Stream] = []
        self._watch: Ticker | None = None
        self._closing = False
        self._polls = self._told_xruns = self._polled_us = 0
        self._unsaid = Loss()  # captured, did not fit, not yet told

    def start(self, init: AdapterInit) -> None:
        """Find the devices, agree on formats, and run.

        Raises `Unsupported` without the extra, `InvalidArgument` naming the option of an unknown device, and
        `ParloraError` with the code `device_not_found`, `device_format` or `device_unavailable`.
        """
        if init.audio_format is None or init.audio_in is None or init.audio_out is None:
            raise InvalidArgument("a channel needs a format and two audio ports", field="audio_format")
        self._sink = init.event_sink
        self._format = init.audio_format.check_supported()
        self._commands = CommandLog(init.limits.max_records)
        self._ports = init.audio_in, init.audio_out
        with quiet():
            self._run_devices(init, init.audio_in, init.audio_out)
        self._emit(EventType.READY, self._identity())
        self._watch = Ticker(self._poll, POLL_US, "local-watch")
        self._watch.start()

    def _run_devices(self, init: AdapterInit, source: AudioSource, sink: AudioSink) -> None:
        pyaudio, format = load_pyaudio(), self._format
        self._library = open_library()
        found = devices_of(self._library)
        self._devices = {direction: choose(found, self._wanted[direction], direction) for direction in Direction}
        self._agreed = {
            direction: negotiate(self._library, pyaudio, self._devices[direction], direction, format.sample_rate)
            for direction in Direction
        }
        output, input = self._agreed[Direction.OUTPUT], self._agreed[Direction.INPUT]
        read_bytes = init.limits.max_frame_bytes or format.bytes_for_us(POLL_US)
        self._speaker = Speaker(source, format, output.rate_hz, output.channels, read_bytes, self._options)
        self._microphone = Microphone(sink, format, input.rate_hz, input.channels)
        self._open(pyaudio, Direction.OUTPUT, self._play)
        self._open(pyaudio, Direction.INPUT, self._hear)
        deadline_us = min(init.deadline_us, _now_us() + FIRST_US)
        for stream in self._streams:
            stream.wait_running(deadline_us)

    def control(self, command: ChannelCommand, command_id: str) -> None:
        """Clear or suppress. A clear completes once the device's callback has come with the new epoch in force."""
        if not isinstance(command, ClearOutput | SuppressOutput):
            raise Unsupported(f"{type(command).__name__} is no channel control", details={"field": "command"})
        with self._turn:
            if self._closing:
                raise Closed("the channel is closing")
            if not self._commands.admit(command_id, "control", command):
                return
            self._commands.settle(command_id)
        loss: Loss | None
        if isinstance(command, ClearOutput):
            loss = self._speaker.clear(command.epoch, _now_us() + CLEAR_TIMEOUT_MS * 1_000)
            outcome: dict[str, Any] = {"control": "clear_output", "epoch": command.epoch}
        else:
            loss = self._speaker.suppress(command.on)
            outcome = {"control": "suppress_output", "on": command.on, "epoch": self._speaker.epoch}
        outcome["scope"] = str(ClearScope.PARLORA_BUFFERS)
        if loss is None:
            error = Timeout("the device did not come for audio", details={"waited_ms": CLEAR_TIMEOUT_MS})
            self._emit(EventType.CONTROL_FAILED, {**outcome, "error": error.to_data()}, command_id)
        else:
            self._emit(EventType.CONTROL_COMPLETED, {**outcome, "dropped": to_data(loss), "error": None}, command_id)

    def release_output_recovery(self, epoch: int) -> None:
        """End a recovery hold of this epoch."""
        self._speaker.release(epoch)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Close both streams and say what there was."""
        with self._turn:
            if self._closing:
                return
            self._closing = True
        if self._watch is not None:
            self._watch.stop()
        self._release()
        payload: dict[str, Any] = {"reason": "closed"}
        if self._watch is not None:  # else start has failed
            payload["sent_ms"] = self._format.duration_us(self._microphone.sent_bytes) // 1_000
            payload["played_ms"] = self._format.duration_us(self._speaker.played_bytes) // 1_000
            payload["silence_ms"] = self._speaker.silence_us // 1_000
            payload["dropped"] = to_data(self._speaker.untold())
        self._emit(EventType.CLOSED, payload, command_id)

    # --- the device's threads

    def _play(self, _: bytes, frames: int, now_us: int) -> bytes:
        return self._speaker.fill(frames * self._agreed[Direction.OUTPUT].channels * 2, now_us)

    def _hear(self, data: bytes, _: int, now_us: int) -> None:
        self._microphone.hear(data, now_us)

    def _open(self, pyaudio: Any, direction: Direction, work: Any) -> None:
        stream = Stream(direction, work)
        self._streams.append(stream)
        stream.open(self._library, pyaudio, self._devices[direction], self._agreed[direction])

    # --- the watch

    def _poll(self) -> bool:
        with self._turn:
            if self._closing:
                return False
        dead = [stream for stream in self._streams if not stream.is_alive()]
        over = self._speaker.is_over or self._microphone.is_over
        if over:
            self._release()  # the session has ended; its close may never come
            return False
        if dead:
            self._lost(dead)
            return False
        self._report(_now_us())
        return True

    def _report(self, now_us: int) -> None:
        gap_us = now_us - self._polled_us if self._polled_us else POLL_US
        self._polled_us = now_us
        self._polls += 1
        for starved in self._speaker.starved():
            payload = {"epoch": starved.epoch, "suppressed": self._speaker.suppressed, "starved_us": starved.at_us}
            self._emit(EventType.PLAYBACK_STARVED, payload)
        self._unsaid += self._microphone.lost()
        if self._polls % OBSERVE_EVERY_POLLS:
            return
        observation = self._speaker.observation()
        if observation is not None:
            self._emit(EventType.PLAYBACK_OBSERVED, observation)
        lost, self._unsaid = self._unsaid, Loss()
        if lost:
            dropped = {"dropped_frames": lost.frames, "dropped_bytes": lost.bytes}
            dropped["dropped_duration_us"] = lost.duration_us
            cause = {"stream": "input", "cause": "capture_overflow"}
            self._emit(EventType.AUDIO_DISCONTINUITY, {**cause, **dropped, **self._measured(gap_us)})
        xruns = sum(stream.xruns for stream in self._streams)
        if xruns != self._told_xruns:
            count = {"count": xruns - self._told_xruns}
            self._told_xruns = xruns
            self._emit(EventType.DEVICE_UNDERRUN, {**count, **self._measured(gap_us)})

    def _measured(self, gap_us: int) -> dict[str, int]:
        """Measurements only: none of them says why a device came late, or what was being said."""
        playback, capture = self._ports
        return {
            "poll_gap_us": gap_us,
            "last_capture_us": self._microphone.last_us,
            "last_playback_us": self._speaker.last_us,
            "input_rate_hz": self._agreed[Direction.INPUT].rate_hz,
            "output_rate_hz": self._agreed[Direction.OUTPUT].rate_hz,
            "capture_queued_bytes": capture.status().queued_bytes,
            "playback_queued_bytes": playback.status().queued_bytes,
        }

    def _lost(self, dead: list[Stream]) -> None:
        failure = next((stream.failure for stream in dead if stream.failure is not None), None)
        reason = "the sound device or its server is gone" if failure is None else f"a device callback failed: {failure}"
        code = "device_lost" if failure is None else "adapter_failed"
        error: ParloraError = AdapterFailed(reason, code=code)
        self._emit(EventType.FAILED, {"reason": error.message, "error": error.to_data()})
        self._release()

    def _release(self) -> None:
        with self._turn:
            streams, self._streams = self._streams, []
            library, self._library = self._library, None
        for stream in streams:
            stream.close()
        if library is not None:
            threading.Thread(target=library.terminate, name="local-terminate", daemon=True).start()

    def _emit(self, type: EventType, payload: dict[str, Any], command_id: str | None = None) -> None:
        if self._sink is not None:
            self._sink.emit(type, payload, command_id=command_id)

    def _identity(self) -> dict[str, Any]:
        capabilities = ChannelCapabilities(
            input_formats=(self._format,),
            output_formats=(self._format,),
            output_suppression=True,
            clear_scope=ClearScope.PARLORA_BUFFERS,
            playback_evidence=(PlaybackEvidence.QUEUE, PlaybackEvidence.HANDOFF),
            output_pacing=OutputPacing.CHANNEL,
        )
        devices = {str(direction): _told(self._devices[direction], self._agreed[direction]) for direction in Direction}
        return {
            "capabilities": to_data(capabilities),
            "audio_format": self._format.to_data(),
            "devices": devices,
        }


def _told(device: Device, agreed: DeviceFormat) -> dict[str, Any]:
    return {
        "index": device.index,
        "name": device.name,
        "rate_hz": agreed.rate_hz,
        "channels": agreed.channels,
    }


def _device_option(value: object, field: str) -> str | int | None:
    if value is None or (isinstance(value, str) and value) or (type(value) is int and value >= 0):
        return value
    raise InvalidArgument(f"{field} must be a device's name or index", field=field)


def _now_us() -> int:
    return time.monotonic_ns() // 1_000
