"""Scripted fakes of the three adapters: they do what the script says and fail on anything it does not expect.

    events = SessionEvents()
    session = host.start_session(
        channel=scripted.channel(),
        provider=scripted.provider(delegate("d1"), expect("append_context", name="told"), acknowledge("told")),
        backend=scripted.backend(expect("submit", name="work"), finish("work", summary="Done.")),
        context_policy="parlora.policies:Delegate",
        event_sink=events,
    )
    ...
    scripted.check_scripts(events)

`allow` names callbacks that may come beside the script; they are answered in the ordinary way. The channel sends
numbered frames of 20 ms and so does the provider: each tells, before its `closed`, what it received of the other's as
an `extension` event `{"audio": {frames, missing, repeated, longest_pause_us}}`; see `audio_counts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from parlora.audio.frame import AudioFrame
from parlora.audio.port import WriteResult
from parlora.channels.trivial import Send, TrivialChannel
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.contract.backend import Backend, BackendCapabilities, BackendRequest, CancellationSupport
from parlora.contract.channel import ChannelCommand
from parlora.contract.provider import ContextUpdate, ProviderCommand
from parlora.events import Event, EventType, Source
from parlora.providers.trivial import TrivialProvider
from parlora.testing.frame_count import FrameCount, numbered
from parlora.testing.script import Step
from parlora.testing.script_runner import ScriptRunner
from parlora.wire import to_data

ComponentPair = tuple[str, dict[str, Any]]

_HERE: Final = "parlora.testing.scripted"


def channel(*script: Step, allow: Sequence[str] = ("control",), **options: Any) -> ComponentPair:
    """A `ScriptedChannel` as `start_session` takes it. Controls are allowed unless told otherwise."""
    return f"{_HERE}:ScriptedChannel", {"script": list(script), "allow": list(allow), **options}


def provider(*script: Step, allow: Sequence[str] = ("control",), **options: Any) -> ComponentPair:
    """A `ScriptedProvider` as `start_session` takes it. Controls are allowed unless told otherwise."""
    return f"{_HERE}:ScriptedProvider", {"script": list(script), "allow": list(allow), **options}


def backend(*script: Step, allow: Sequence[str] = (), **options: Any) -> ComponentPair:
    """A `ScriptedBackend` as `start_session` takes it."""
    return f"{_HERE}:ScriptedBackend", {"script": list(script), "allow": list(allow), **options}


def check_scripts(events: Iterable[Any]) -> None:
    """Raise `AssertionError` for every callback that a script did not expect and every step that never came."""
    problems = [
        f"{event.source}: {event.payload['error']['message']}"
        for event in events
        if isinstance(event, Event)
        and event.type == EventType.FAILED
        and event.source != Source.SESSION
        and _is_script_problem(event.payload)
    ]
    if problems:
        raise AssertionError("\n".join(problems))


def audio_counts(events: Iterable[Any], source: str) -> dict[str, int]:
    """What the channel (`"channel"`) or the provider (`"provider"`) received, once it has told."""
    for event in events:
        if isinstance(event, Event) and event.is_a(source, EventType.EXTENSION) and "audio" in event.payload:
            counts: dict[str, int] = event.payload["audio"]
            return counts
    raise AssertionError(f"the {source} has not told what it received")


def _is_script_problem(payload: Mapping[str, Any]) -> bool:
    error = payload.get("error")
    return isinstance(error, Mapping) and "script" in (error.get("details") or {})


class ScriptedChannel(TrivialChannel):
    """A caller who sends numbered frames and counts what is played.

    The values of `control`: `command_id`, and `epoch` or `on`.
    """

    def __init__(
        self,
        script: Sequence[Step] = (),
        allow: Sequence[str] = (),
        send: str = Send.COUNTER,
        frames: int | None = None,
    ) -> None:
        super().__init__(send, frames)
        self._runner = ScriptRunner(script, allow)
        self._count = FrameCount()

    def start(self, init: AdapterInit) -> None:
        """Be ready, and begin with the script."""
        super().start(init)
        self._runner.start(init.event_sink)

    def control(self, command: ChannelCommand, command_id: str) -> None:
        """As the script says; if merely allowed, done at once."""
        if not self._runner.called("control", {**to_data(command), "command_id": command_id}):
            super().control(command, command_id)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Tell what was received, and end."""
        if not self._runner.called("close", {"policy": str(policy), "command_id": command_id}):
            self._runner.finish()
            self._sink.emit(EventType.EXTENSION, {"audio": self._count.to_data()})
            super().close(policy, command_id)

    def _drain(self) -> None:
        for frame in self._playback.read(self._read_bytes):
            self._played += 1
            self._played_bytes += len(frame.data)
            self._count.saw(frame.data)


class ScriptedProvider(TrivialProvider):
    """A model that speaks numbered frames without end (`speak=False`: none) and counts what it hears.

    The values of `append_context`: `command_id`, `kind`, `text`, `delegation_id`; of `control`: `command_id`, `on`.
    """

    def __init__(self, script: Sequence[Step] = (), allow: Sequence[str] = (), speak: bool = True) -> None:
        super().__init__()
        self._runner = ScriptRunner(script, allow)
        self._speak = speak
        self._count = FrameCount()
        self._spoken = 0

    def start(self, init: AdapterInit) -> None:
        """Be ready, and begin with the script."""
        self._format = init.audio_format
        super().start(init)
        self._runner.start(init.event_sink)

    def append_context(self, update: ContextUpdate, command_id: str) -> None:
        """As the script says; if merely allowed, acknowledged at once."""
        if not self._runner.called("append_context", {**to_data(update), "command_id": command_id}):
            super().append_context(update, command_id)

    def control(self, command: ProviderCommand, command_id: str) -> None:
        """As the script says; if merely allowed, done at once."""
        if not self._runner.called("control", {**to_data(command), "command_id": command_id}):
            super().control(command, command_id)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """Tell what was heard, and end."""
        if not self._runner.called("close", {"policy": str(policy), "command_id": command_id}):
            self._runner.finish()
            self._sink.emit(EventType.EXTENSION, {"audio": self._count.to_data()})
            super().close(policy, command_id)

    def _tick(self) -> bool:
        if self._speak and not self._closing and self._format is not None:
            if self._generated.write(numbered(self._format, self._spoken)) is WriteResult.OK:
                self._spoken += 1
            else:
                self._refused += 1
        return super()._tick()

    def _hear(self, frames: Sequence[AudioFrame]) -> None:
        for frame in frames:
            self._heard_us += frame.duration_us
            self._count.saw(frame.data)


class ScriptedBackend(Backend):
    """Work that goes as the script says; by itself it answers nothing.

    The values of `submit`: `request_id`, `task_id`, `task_revision`, `delegation_id`, `input`, `command_id`; of
    `update`: `request_id`, `update`, `task_revision`, `command_id`; of `cancel`: `request_id`, `reason`, `command_id`.

    It verifies correlation by itself: an update or cancellation must name a request that was submitted here, an update
    a higher revision than the request has, and no command id comes twice.
    """

    def __init__(
        self, script: Sequence[Step] = (), allow: Sequence[str] = (), updates: bool = True, cancellation: bool = True
    ) -> None:
        self._runner = ScriptRunner(script, allow)
        self._revisions: dict[str, int] = {}
        self._command_ids: set[str] = set()
        self._closing = False
        advice = CancellationSupport.ADVISORY if cancellation else CancellationSupport.UNSUPPORTED
        self._capabilities = BackendCapabilities(bool(updates), advice, progress=True, clarification=True)

    def start(self, init: AdapterInit) -> None:
        """Be ready, and begin with the script."""
        self._sink = init.event_sink
        self._sink.emit(EventType.READY, {"capabilities": to_data(self._capabilities)})
        self._runner.start(init.event_sink)

    def submit(self, request: BackendRequest, command_id: str) -> None:
        """As the script says; if merely allowed, the request stays open."""
        if request.id in self._revisions:
            self._runner.fail(f"request {request.id} was submitted twice")
        self._revisions[request.id] = request.task_revision
        self._call(
            "submit",
            {
                "request_id": request.id,
                "task_id": request.task_id,
                "task_revision": request.task_revision,
                "delegation_id": request.delegation_id,
                "input": dict(request.input),
                "command_id": command_id,
            },
        )

    def update(self, request_id: str, update: Mapping[str, Any], task_revision: int, command_id: str) -> None:
        """Correlated first, then as the script says; if merely allowed, it stays open."""
        known = self._revisions.get(request_id)
        if known is None:
            self._runner.fail(f"update {command_id} names request {request_id}, which was never submitted")
        elif task_revision <= known:
            self._runner.fail(f"update {command_id} has revision {task_revision}, its request is at {known} already")
        else:
            self._revisions[request_id] = task_revision
        values = {"request_id": request_id, "update": dict(update), "task_revision": task_revision}
        self._call("update", {**values, "command_id": command_id})

    def cancel(self, request_id: str, reason: str, command_id: str) -> None:
        """Correlated first, then as the script says; if merely allowed, it is ignored: it is advice."""
        if request_id not in self._revisions:
            self._runner.fail(f"cancellation {command_id} names request {request_id}, which was never submitted")
        self._call("cancel", {"request_id": request_id, "reason": reason, "command_id": command_id})

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        """End; what was not answered stays unanswered."""
        if self._closing or self._runner.called("close", {"policy": str(policy), "command_id": command_id}):
            return
        self._closing = True
        self._runner.finish()
        self._sink.emit(EventType.CLOSED, {"uncertain_requests": []}, command_id=command_id)

    def _call(self, name: str, values: dict[str, Any]) -> None:
        if values["command_id"] in self._command_ids:
            self._runner.fail(f"command id {values['command_id']} came twice")
        self._command_ids.add(values["command_id"])
        self._runner.called(name, values)
