"""The WAV channel: files are the caller, and what is played to the caller goes to a file."""

from __future__ import annotations

import threading
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.audio.port import AudioSink, WriteResult
from parlora.audio.ticker import Ticker
from parlora.channels.wav.files import Recorder
from parlora.channels.wav.loudness import loudness_test
from parlora.channels.wav.options import (
    DEFAULT_END_SILENCE_MS,
    DEFAULT_PATIENCE_MS,
    MAX_WAIT_MS,
    check_end,
    check_number,
    check_pacing,
    clip_files,
    refuse_overwriting,
)
from parlora.channels.wav.playback import FRAME_US, Playback
from parlora.channels.wav.script import ClipEnded, ClipStarted, GaveUp, HungUp, ScriptedCaller, Step
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
from parlora.errors import Closed, InvalidArgument, ParloraError, Timeout, Unsupported
from parlora.events import EventType
from parlora.wire import to_data

# The input pipeline takes audio at media rate: what a stall piles up in the queue would delay the caller for the rest
# of the call. Silence between clips is filler: it is left out until the queue is down to one frame.
_RECORDINGS: Final = ("record", "record_caller")
FILLER_BACKLOG_FRAMES: Final = 1


class WavChannel(Channel):
    """A caller from files, at media rate. Files are in the session's own format: nothing is converted.

    Options:

    * `caller`: the path of a WAV file (or raw audio, if its name does not end in `.wav`) played once; or
    * `clips`: a list of `{"path": ..., "after_silence_ms": 1500}`, each played after so much silence of the assistant,
      or `{"path": ..., "while_speaking_ms": 800}`: an interruption so long after it began to speak. `after_utterances`
      says how many utterances of the assistant, begun since the caller's last word, must come first: by default none
      for the first clip and 1 for others, so that a slow answer is awaited. Silence is sent between clips.
    * `record`: the path of the WAV file that gets what is played; `record_caller`: the caller's side of the same
      length, sample for sample.
    * `pacing`: `channel` (default; a clock of its own takes 20 ms at a time from the queue) or `pipeline`.
    * `end`: `keep` (default) stays on the line; `disconnect` hangs up after the last clip, `end_utterances` utterances
      of the assistant (default 1 after clips, 0 after a file) and `end_silence_ms` of silence (default 2,000).
    * `patience_ms`: how long one clip or the end may be waited for (default 60,000); then the channel fails.

    The call begins, for the caller and for both recordings, when the session takes its first audio.
    """

    def __init__(
        self,
        caller: object = None,
        *,
        clips: object = None,
        record: object = None,
        record_caller: object = None,
        pacing: object = "channel",
        end: object = "keep",
        end_silence_ms: object = DEFAULT_END_SILENCE_MS,
        end_utterances: object = None,
        patience_ms: object = DEFAULT_PATIENCE_MS,
    ) -> None:
        self._files = clip_files(caller, clips)
        self._record_paths = (record, record_caller)
        self._pacing = check_pacing(pacing)
        given = (0 if clips is None else 1) if end_utterances is None else end_utterances
        self._hang_up = check_end(end, end_silence_ms, check_number(given, "end_utterances", 0, 100))
        self._patience_ms = check_number(patience_ms, "patience_ms", 1_000, MAX_WAIT_MS)
        self._turn = threading.Lock()  # the media thread and the callbacks take turns at the ports
        self._recorders: list[Recorder | None] = []
        self._sink: EventSink | None = None
        self._ticker: Ticker | None = None
        self._begun = False
        self._closing = False
        self._offered = b""  # the caller's frame that the queue has not taken yet
        self._sent_bytes = 0

    def start(self, init: AdapterInit) -> None:
        """Compare the files with the session's format, create the recordings and begin to tick.

        Raises `InvalidArgument` naming the option of a file in another format or that cannot be written.
        """
        format = init.audio_format
        if format is None or init.audio_in is None or init.audio_out is None:
            raise InvalidArgument("a channel needs a format and two audio ports", field="audio_format")
        self._sink = init.event_sink
        self._format: AudioFormat = format.check_supported()
        for path, field in zip(self._record_paths, _RECORDINGS, strict=True):
            refuse_overwriting(path, field, self._files)
        clips = [file.clip(format) for file in self._files]
        self._files = []  # their samples are in the clips now
        self._is_loud = loudness_test(format)
        self._silence = format.silence(FRAME_US)
        self._caller = ScriptedCaller(
            clips, self._silence, self._is_loud, hang_up=self._hang_up, patience_ms=self._patience_ms
        )
        for path, field in zip(self._record_paths, _RECORDINGS, strict=True):
            self._recorders.append(None if path is None else Recorder(path, format, field))
        self._capture: AudioSink = init.audio_out
        self._playback = Playback(init.audio_in, format, init.limits.max_frame_bytes or len(format.silence(100_000)))
        self._commands = CommandLog(init.limits.max_records)
        self._emit(EventType.READY, self._identity())
        self._ticker = Ticker(self._tick, FRAME_US, "wav-channel")
        self._ticker.start()

    def control(self, command: ChannelCommand, command_id: str) -> None:
        """Clear or suppress at once; `control_completed` follows before this returns."""
        if not isinstance(command, ClearOutput | SuppressOutput):
            raise Unsupported(f"{type(command).__name__} is no channel control", details={"field": "command"})
        with self._turn:
            if self._closing:
                raise Closed("the channel is closing")
            if not self._commands.admit(command_id, "control", command):
                return
            self._commands.settle(command_id)
            if isinstance(command, ClearOutput):
                loss = self._playback.clear(command.epoch)
                outcome = {"control": "clear_output", "dropped": to_data(loss)}
                if loss:
                    self._emit(EventType.PLAYBACK_OBSERVED, self._playback.cleared(loss))
            else:
                loss = self._playback.suppress(command.on)
                outcome = {"control": "suppress_output", "on": command.on, "dropped": to_data(loss)}
            outcome |= {"scope": str(ClearScope.PARLORA_BUFFERS), "epoch": self._playback.epoch, "error": None}
        self._emit(EventType.CONTROL_COMPLETED, outcome, command_id)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Stop both directions, finish the recordings and say what there was."""
        with self._turn:
            if self._closing:
                return
            self._closing = True
            if self._ticker is not None:
                self._ticker.stop()
            self._finish_recordings()
            payload: dict[str, Any] = {"reason": "closed"}
            if self._ticker is not None:  # else start has failed
                payload["sent_ms"] = self._format.duration_us(self._sent_bytes) // 1_000
                payload["played_ms"] = self._format.duration_us(self._playback.played_bytes) // 1_000
                payload["underruns"] = self._playback.underruns
            self._emit(EventType.CLOSED, payload, command_id)

    def _tick(self) -> bool:
        with self._turn:
            if self._closing:
                return False
            try:
                self._play_and_send()
            except Closed:
                self._finish_recordings()  # the session has ended; its close may never come
                return False
            except (OSError, ParloraError) as error:
                self._fail(error)
                return False
            return True

    def _play_and_send(self) -> None:
        played = self._playback.next_frame()
        self._begun = self._begun or self._session_listens()
        sent = self._offer()
        if not self._begun:
            return
        self._caller.played(self._is_loud(played))
        for recorder, audio in zip(self._recorders, (played, sent), strict=True):
            if recorder is not None:
                recorder.write(audio)
        for payload in self._playback.observations():
            self._emit(EventType.PLAYBACK_OBSERVED, payload)
        for step in self._caller.steps():
            self._report(step)

    def _offer(self) -> bytes:
        """Send the caller's next 20 ms; what the queue does not take is sent later, for a file can wait."""
        silence = self._silence
        if not self._offered:
            self._offered = self._caller.next_frame() if self._begun else silence
        if self._offered is silence and self._capture.status().queued_bytes > FILLER_BACKLOG_FRAMES * len(silence):
            self._offered = b""
            return silence
        result = self._capture.write(self._offered)
        if result is WriteResult.CLOSED:
            raise Closed("the capture port is closed")
        if result is not WriteResult.OK:
            return silence
        sent, self._offered = self._offered, b""
        self._sent_bytes += len(sent)
        return sent

    def _session_listens(self) -> bool:
        """Whether the session has taken any of the silence sent since start: a clip sent earlier would be discarded."""
        return self._capture.status().queued_bytes < self._sent_bytes or self._playback.played_bytes > 0

    def _report(self, step: Step) -> None:
        match step:
            case ClipStarted(index):
                self._emit(EventType.EXTENSION, {"name": "clip_started", "clip": index})
            case ClipEnded(index):
                self._emit(EventType.EXTENSION, {"name": "clip_ended", "clip": index})
            case HungUp():
                self._emit(EventType.DISCONNECTED, {"reason": "the caller hung up", **self._identity()})
            case GaveUp(index, waited_ms):
                message = f"clip {index} (or the end) waited {waited_ms} ms for the assistant"
                raise Timeout(message, details={"clip": index, "waited_ms": waited_ms})

    def _fail(self, error: OSError | ParloraError) -> None:
        known = error if isinstance(error, ParloraError) else ParloraError(f"cannot record: {error.strerror}")
        self._emit(EventType.FAILED, {"reason": known.message, "error": known.to_data(), **self._identity()})

    def _finish_recordings(self) -> None:
        recorders, self._recorders = self._recorders, []
        for recorder in recorders:
            if recorder is not None:
                try:
                    recorder.close()
                except OSError as error:
                    self._fail(error)

    def _emit(self, type: EventType, payload: dict[str, Any], command_id: str | None = None) -> None:
        if self._sink is not None:
            self._sink.emit(type, payload, command_id=command_id)

    def _identity(self) -> dict[str, Any]:
        own_clock = self._pacing is OutputPacing.CHANNEL
        capabilities = ChannelCapabilities(
            input_formats=(self._format,),
            output_formats=(self._format,),
            output_suppression=True,
            clear_scope=ClearScope.PARLORA_BUFFERS,
            playback_evidence=(PlaybackEvidence.QUEUE, PlaybackEvidence.HANDOFF),
            output_pacing=OutputPacing.CHANNEL if own_clock else OutputPacing.PIPELINE,
        )
        return {"capabilities": to_data(capabilities), "audio_format": self._format.to_data()}
