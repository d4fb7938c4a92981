"""One call of a cloud provider: a connection at a time, a codec a connection, and what both say made into events.

Everything with a thread, a clock or a deadline is behind this. One lock guards the codec, the state and the output;
nothing under it blocks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from parlora.audio.ring_types import now_us
from parlora.context.snapshot import ContextSnapshot
from parlora.contract.adapter import AdapterInit
from parlora.contract.commands import CommandLog
from parlora.contract.provider import DelegationOutcome, MuteInput
from parlora.errors import AdapterFailed, Closed, NotReady, ParloraError, Timeout, Unsupported
from parlora.events import EventType
from parlora.ids import new_id
from parlora.limits import CLOUD_REPORT_MS, RECOVERY_RECONNECT_TIMEOUT_MS
from parlora.providers.cloud.codec import CloudCodec
from parlora.providers.cloud.connection import Connection, End, Endpoint
from parlora.providers.cloud.input import InputThread
from parlora.providers.cloud.output import Output, Overload
from parlora.providers.cloud.parts import RECOVERING, SETTLED, Link, Phase, Service, check_init, failure_of
from parlora.providers.cloud.resumption import Resumption
from parlora.providers.cloud.said import (
    Audio,
    Ended,
    Ignored,
    Interrupted,
    Message,
    Observation,
    Refused,
    Replace,
    Said,
    Send,
    Started,
)
from parlora.providers.cloud.submission import Command, Submission
from parlora.providers.cloud.telling import Telling


class CloudCall:
    """A call from its first connection to `closed`. `endpoint` makes the place to connect to, with the key."""

    def __init__(self, service: Service, init: AdapterInit, endpoint: Callable[[], Endpoint]) -> None:
        format, heard, generated = check_init(service, init)
        limits = init.limits
        assert limits.max_frame_bytes is not None
        assert limits.audio_queue_bytes is not None
        self._service, self._format = service, format
        self._tell = Telling(init.event_sink, self._gone)
        self._endpoint = endpoint
        self._shutdown_ms = limits.shutdown_timeout_ms
        self._commands = CommandLog(limits.max_records)
        self._submission = Submission(self._commands, self._tell, service.capabilities.context_acknowledgment)
        hears, says = service.wire_formats(format)
        who = {"session_id": init.session_id, "adapter_id": init.adapter_id, "generation": init.generation}
        self._output = Output(generated, format, limits.max_frame_bytes, says, who)
        self._input = InputThread(heard, format, hears, limits.audio_queue_bytes, self._send_audio, self._every_100_ms)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._phase = Phase.STARTING
        self._link: Link | None = None
        self._resumption = Resumption(service)
        self._failure: ParloraError | None = None
        self._token: str | None = None
        self._deadline_us: int | None = None
        self._close_id: str | None = None
        self._ignored = 0
        self._told_closed = False

    # ---- what the adapter's callbacks ask

    def start(self, codec: CloudCodec, deadline_us: int) -> None:
        """Connect and wait for the service's confirmation; raises what kept it from starting, with nothing left."""
        with self._lock:
            self._connect(codec, deadline_us)
        self._await_start(deadline_us)
        self._input.start()

    def mute(self, on: bool, command_id: str) -> None:
        """Silence in place of the caller, at once."""
        if self.command(command_id, "control", MuteInput(on), lambda codec: codec.mute(on, command_id)):
            self._input.muted = on

    def resume(self, token: str) -> None:
        """The clear barrier of the interruption with this token has completed; an older token changes nothing."""
        with self._lock:
            if token == self._token and self._phase in (Phase.RUNNING, Phase.RECONNECTING):
                self._token = None
                self._overloaded(self._output.release())

    def recover(self, token: str, snapshot: ContextSnapshot) -> None:
        """Begin to replace the transport."""
        with self._lock:
            link = self._link
            if self._phase is not Phase.AWAITING_CLEAR or token != self._token or link is None:
                raise NotReady("no output recovery with this token is pending", details={"field": "token"})
            codec = self._service.next_codec(link.codec, snapshot)
            if codec is None:
                raise Unsupported("this provider cannot replace its transport")
            self._take_over(codec, token)

    def resolve(self, delegation_id: str, outcome: DelegationOutcome) -> None:
        """Tell the service how a delegation ended."""
        with self._lock:
            if self._resumption.holds(self._phase, self._link):
                self._resumption.hold_outcome(delegation_id, outcome)
            elif self._phase is Phase.RUNNING and self._link is not None:
                self._send(self._link, self._link.codec.resolve(delegation_id, outcome))

    def close(self, command_id: str) -> None:
        """Free the audio and ask the service to end; `closed` follows when it has, or at the deadline."""
        with self._lock:
            if self._close_id is None and not self._told_closed:
                self._begin_close(command_id)
        self._input.stop()

    def _begin_close(self, command_id: str) -> None:
        self._close_id = command_id
        link, self._phase = self._link, Phase.CLOSING
        self._output.close()
        if link is not None and link.started:
            self._ask_to_end(link, command_id)
            return
        self._tell_closed(confirmed=False, reason="not_connected")
        if link is not None:
            link.connection.abort()

    def _ask_to_end(self, link: Link, command_id: str) -> None:
        reserve_ms = min(2 * CLOUD_REPORT_MS, self._shutdown_ms // 4)
        link.connection.end_by(now_us() + (self._shutdown_ms - reserve_ms) * 1_000)
        messages = link.codec.close(command_id)
        if not messages or not self._send(link, messages):
            link.connection.finish()

    # ---- commands

    def command(
        self, command_id: str, operation: str, command: object, encode: Callable[[CloudCodec], Sequence[Message]]
    ) -> bool:
        """Admit a command once and send what it is; False for a repeated one."""
        with self._lock:
            link = self._link
            if self._phase in (Phase.CLOSING, Phase.ENDED):
                raise Closed("the provider is closing")
            if not self._commands.admit(command_id, operation, command):
                return False
            admitted = Command(command_id, operation, command, encode)
            if self._resumption.holds(self._phase, link):
                self._resumption.hold(admitted)
                return True
            try:
                if self._phase is not Phase.RUNNING or link is None:
                    raise NotReady("the provider has no connection at the moment")
                self._submission.submit(link, admitted)
            except ParloraError:
                self._commands.forget(command_id)
                raise
            return True

    def _send(self, link: Link, messages: Sequence[Message]) -> bool:
        """Send what belongs together; False if the connection takes no more, which its end will tell."""
        try:
            for message in messages:
                link.connection.send(message)
        except ParloraError:
            return False
        return True

    def _send_audio(self, data: bytes) -> None:
        link = self._link
        if link is None or self._phase is not Phase.RUNNING:
            raise Closed("there is no connection at the moment")
        link.connection.send(link.codec.audio(data))

    # ---- connections

    def _connect(self, codec: CloudCodec, deadline_us: int, token: str | None = None) -> Link:
        connection = Connection(
            self._endpoint(),
            deadline_us,
            on_open=lambda: self._opened(link),
            on_message=lambda data: self._received(link, data),
            on_end=lambda end: self._over(link, end),
            timing=self._service.timing,
        )
        link = self._link = Link(connection, codec, token)
        self._deadline_us = deadline_us
        connection.start()
        return link

    def _await_start(self, deadline_us: int) -> None:
        with self._lock:
            while self._phase is Phase.STARTING and self._failure is None:
                rest_us = deadline_us - now_us()
                if rest_us <= 0 or not self._changed.wait(rest_us / 1_000_000):
                    break
            if self._phase is not Phase.STARTING:
                return  # begun, and perhaps over already, which was told
            failure = self._failure or Timeout("the service did not confirm startup in time")
            link, self._link = self._link, None
            self._phase = Phase.ENDED
        if link is not None:
            link.connection.abort()
            link.connection.join(now_us() + CLOUD_REPORT_MS * 1_000)
        raise failure

    def _take_over(self, codec: CloudCodec, token: str | None) -> None:
        """Make a new connection the current one; the old one says goodbye by itself and is not listened to."""
        old = self._link
        self._phase = Phase.RECONNECTING
        if old is not None:
            for command_id in old.codec.pending:
                self._commands.settle(command_id)  # their outcome stays unknown: nothing is told
            self._send(old, old.codec.close(new_id()))
            old.connection.finish()
        self._connect(codec, self._resumption.deadline_us(token), token)

    def _opened(self, link: Link) -> None:
        with self._lock:
            if link is self._link:
                self._send(link, link.codec.opening())

    def _received(self, link: Link, data: bytes) -> None:
        with self._lock:
            if link is not self._link:
                return
            for said in link.codec.receive(data):
                self._dispatch(link, said)

    def _over(self, link: Link, end: End) -> None:
        """A connection has ended, for whatever reason; only the current one's end means anything."""
        with self._lock:
            if link is not self._link:
                return
            if self._phase is Phase.CLOSING:
                self._tell_closed(confirmed=False, reason=str(end.reason))
            elif self._phase is Phase.STARTING:
                self._failure = self._failure or failure_of(end)
                self._changed.notify_all()
            elif self._phase in (Phase.ENDED, Phase.AWAITING_CLEAR):
                pass  # told already; or about to be replaced anyway
            elif self._phase is Phase.RECONNECTING:
                if not self._resumption.again(link, end, self._deadline_us):
                    self._fail(failure_of(self._resumption.cause(end)))
            elif not self._service.is_resumable(end) or not self._reconnect(link, str(end.reason)):
                self._fail(failure_of(end))

    def _reconnect(self, link: Link, reason: str) -> bool:
        """Let another connection take over from one that is lost or about to end, if the service allows it."""
        codec = self._service.next_codec(link.codec, None) if self._phase is Phase.RUNNING else None
        if codec is None:
            return False
        self._tell.emit(EventType.PROVIDER_CONNECTION, {"status": "reconnecting", "reason": reason})
        self._take_over(codec, None)
        return True

    # ---- what the service says

    def _dispatch(self, link: Link, said: Said) -> None:
        if link is not self._link:
            return  # an earlier word of the same message made another connection the current one
        if isinstance(said, Audio):
            self._overloaded(self._output.offer(said.data, said.dropped_for))
        elif isinstance(said, Observation):
            if said.type in SETTLED and said.command_id is not None:
                self._commands.settle(said.command_id)
            self._tell.emit(said.type, said.payload, said.command_id)
        elif isinstance(said, Started):
            self._started(link, said.details)
        elif isinstance(said, Interrupted):
            self._interrupted(link)
        elif isinstance(said, Send):
            self._send(link, said.messages)
        elif isinstance(said, Replace):
            self._reconnect(link, said.reason)
        elif isinstance(said, Ended):
            self._service_ended(link, said)
        elif isinstance(said, Refused):
            self._refused(said)
        elif isinstance(said, Ignored):
            self._ignored += 1

    def _started(self, link: Link, details: Mapping[str, Any]) -> None:
        link.started = True
        if self._phase is Phase.STARTING:
            self._phase = Phase.RUNNING
            self._deadline_us = None
            self._tell.ready(self._service.capabilities, self._format, details)
            self._changed.notify_all()
        elif self._phase is Phase.RECONNECTING:
            self._phase = Phase.RUNNING
            self._deadline_us = None
            if self._input.muted:
                self._send(link, link.codec.mute(True, new_id()))
            self._tell_losses("provider_recovery")
            self._output.resume()
            if link.token is not None:
                self._token = None
                self._tell.emit(EventType.OUTPUT_RECOVERED, {"token": link.token})
            else:
                self._tell.emit(EventType.PROVIDER_CONNECTION, {"status": "resumed"})
                self._submission.submit_held(link, *self._resumption.take())

    def _interrupted(self, link: Link) -> None:
        if self._phase is not Phase.RUNNING:
            return
        self._send(link, link.codec.interrupted(self._output.unheard_us))
        self._output.hold()
        self._token = new_id()  # of several interruptions only the newest resumes
        self._tell.emit(EventType.OUTPUT_INTERRUPTED, {"token": self._token})

    def _overloaded(self, overload: Overload | None) -> None:
        if overload is not None and self._phase is not Phase.RUNNING:  # told when the connection is back
            self._output.count("provider_overload", overload.loss)
        elif overload is not None:
            self._tell.overload(overload, self._output)
            if self._service.recovers_output:
                self._output.discard()
                self._phase, self._token = Phase.AWAITING_CLEAR, new_id()
                self._deadline_us = now_us() + RECOVERY_RECONNECT_TIMEOUT_MS * 1_000
                self._tell.emit(EventType.OUTPUT_RECOVERY_REQUESTED, {"token": self._token})

    def _service_ended(self, link: Link, said: Ended) -> None:
        link.connection.finish()
        if self._phase is Phase.STARTING:
            self._failure = AdapterFailed(f"the service ended the session: {said.reason}")
            self._changed.notify_all()
        else:  # asked for or not; the socket's own end is not waited for, which may come late or never
            self._output.close()
            self._tell_closed(said.confirmed, said.reason)

    def _refused(self, said: Refused) -> None:
        error = AdapterFailed(said.message, details={"provider_code": said.code})
        if self._phase is Phase.STARTING:
            self._failure = error
            self._changed.notify_all()
        elif self._phase is Phase.CLOSING:
            self._tell.emit(EventType.EXTENSION, {"provider.error": error.to_data()})
        else:
            self._fail(error)

    # ---- the passing of time, and the end

    def _every_100_ms(self) -> None:
        """From the input thread: deadlines of the service, of a recovery, and losses to be told."""
        with self._lock:
            link, now = self._link, now_us()
            if self._deadline_us is not None and now >= self._deadline_us and self._phase in RECOVERING:
                self._fail(self._resumption.expired(self._phase, link))
                return
            if self._phase is Phase.RECONNECTING and link is not None and self._resumption.is_due(now):
                codec = self._service.next_codec(link.codec, None)
                if codec is not None and self._deadline_us is not None:
                    self._connect(codec, self._deadline_us)
            if self._phase is not Phase.RUNNING or link is None:
                return
            for said in link.codec.due(now):
                self._dispatch(link, said)
            self._tell_losses("provider_backpressure")

    def _tell_losses(self, input_cause: str) -> None:
        self._tell.losses("input", [(input_cause, self._input.take_dropped())])
        self._tell.losses("generated", self._output.take_discarded())

    def _fail(self, error: ParloraError) -> None:
        if self._phase in (Phase.ENDED, Phase.CLOSING):
            return
        self._phase = Phase.ENDED
        link, self._link = self._link, None
        self._output.close()
        if link is not None:
            link.connection.finish()
        self._tell.emit(EventType.FAILED, {"error": error.to_data(), "diagnostics": self._output.diagnostics()})

    def _tell_closed(self, confirmed: bool, reason: str) -> None:
        self._phase = Phase.ENDED
        self._told_closed = True
        link, self._link = self._link, None
        payload = {
            "reason": reason,
            "finalization_observed": confirmed,
            "unconfirmed_commands": [*(link.codec.pending if link is not None else ()), *self._resumption.pending],
            "ignored_messages": self._ignored,
        }
        if link is not None:
            payload["half_samples"] = self._output.half_samples
        self._tell.emit(EventType.CLOSED, payload, self._close_id)

    def _gone(self) -> None:
        """The owner has ended, or ends now: there is nobody to tell, and the threads must still end."""
        self._phase = Phase.ENDED
        if self._link is not None:
            self._link.connection.finish()
