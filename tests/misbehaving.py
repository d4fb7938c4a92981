"""Adapters and policies that misbehave, each in one way; named by path, run in their owners."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parlora.backends.trivial import TrivialBackend
from parlora.channels.trivial import TrivialChannel
from parlora.context.decision import ContextDecision, DecisionKind
from parlora.context.trigger import ContextTrigger, TriggerKind
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.contract.backend import BackendCapabilities, BackendRequest
from parlora.contract.provider import ContextKind, ProviderCapabilities
from parlora.errors import AdapterFailed, Unsupported
from parlora.providers.trivial import TrivialProvider
from parlora.wire import to_data

DAEMON = "import os, signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(600)"


def ignore_signals() -> None:
    """Ignore every signal that can be ignored, also from a thread other than the main one."""
    libc = ctypes.CDLL(None)
    for number in range(1, 65):
        libc.signal(number, ctypes.c_void_p(1))


def hang_in_c() -> None:
    """Never come back, without the interpreter lock, deaf to everything."""
    ctypes.CDLL(None).sleep(600)


def spawn_child() -> int:
    """A child that ignores what it can."""
    return subprocess.Popen([sys.executable, "-S", "-c", DAEMON]).pid


def spawn_daemon() -> None:
    """A process of another session whose parent is dead: double fork and setsid."""
    between = os.fork()
    if between == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv(sys.executable, [sys.executable, "-S", "-c", DAEMON])
        os._exit(0)
    os.waitpid(between, 0)


class Reports:
    """Tells who it is."""

    def tell(self, init: AdapterInit) -> None:
        """One extension event with the process and the init record."""
        init.event_sink.emit(
            "extension",
            {
                "pid": os.getpid(),
                "parent": os.getppid(),
                "thread": threading.current_thread().name,
                "session_id": init.session_id,
                "adapter_id": init.adapter_id,
                "generation": init.generation,
                "audio_format": None if init.audio_format is None else init.audio_format.to_data(),
                "limits": to_data(init.limits),
                "instructions": init.instructions,
                "history": [dict(entry) for entry in init.history],
                "has_ports": init.audio_in is not None and init.audio_out is not None,
            },
        )


class ReportingChannel(TrivialChannel, Reports):
    def start(self, init: AdapterInit) -> None:
        self.tell(init)
        super().start(init)


class ReportingProvider(TrivialProvider, Reports):
    def start(self, init: AdapterInit) -> None:
        self.tell(init)
        super().start(init)


class ReportingBackend(TrivialBackend, Reports):
    def start(self, init: AdapterInit) -> None:
        self.tell(init)
        super().start(init)


class SlowChannel(TrivialChannel):
    """Ready only after a while."""

    def __init__(self, delay_ms: int, **options: Any) -> None:
        super().__init__(**options)
        self._delay_s = delay_ms / 1_000

    def start(self, init: AdapterInit) -> None:
        time.sleep(self._delay_s)
        super().start(init)


class SlowProvider(TrivialProvider):
    """Ready only after a while."""

    def __init__(self, delay_ms: int, **options: Any) -> None:
        super().__init__(**options)
        self._delay_s = delay_ms / 1_000

    def start(self, init: AdapterInit) -> None:
        time.sleep(self._delay_s)
        super().start(init)


class SlowBackend(TrivialBackend):
    """Ready only after a while."""

    def __init__(self, delay_ms: int) -> None:
        super().__init__()
        self._delay_s = delay_ms / 1_000

    def start(self, init: AdapterInit) -> None:
        time.sleep(self._delay_s)
        super().start(init)


class CountingProvider(TrivialProvider):
    """Reports the numbers of the frames it hears (of a channel with `send="counter"`), 25 at a time."""

    def start(self, init: AdapterInit) -> None:
        self._numbers: list[int] = []
        super().start(init)

    def _hear(self, frames: Any) -> None:
        self._numbers += [int.from_bytes(frame.data[:4], "little") for frame in frames]
        if len(self._numbers) >= 10:
            self._sink.emit("extension", {"numbers": self._numbers})
            self._numbers = []
        super()._hear(frames)


class FillingChannel(TrivialChannel):
    """Offers far more than fits before anybody listens, and says what became of it."""

    def start(self, init: AdapterInit) -> None:
        assert init.audio_out is not None
        assert init.audio_format is not None
        results = [str(init.audio_out.write(init.audio_format.silence(20_000))) for _ in range(30)]
        status = init.audio_out.status()
        init.event_sink.emit(
            "extension",
            {"results": results, "queued": status.queued_bytes, "capacity": status.capacity_bytes},
        )
        super().start(init)


class RefusesFormat(TrivialChannel):
    def start(self, init: AdapterInit) -> None:
        raise Unsupported("the device plays no such format", details={"field": "audio_format"})


class FailsInStart(TrivialBackend):
    def start(self, init: AdapterInit) -> None:
        password = "hunter2"
        raise RuntimeError(f"cannot log in with {password}")


class FailsLate(TrivialBackend):
    """Lets the others become ready first."""

    def start(self, init: AdapterInit) -> None:
        time.sleep(0.3)
        raise RuntimeError("no")


class DiesInStart(TrivialBackend):
    def start(self, init: AdapterInit) -> None:
        os._exit(3)


class HangsInStart(TrivialProvider):
    """Deaf, in C, with a child and a daemon."""

    def start(self, init: AdapterInit) -> None:
        spawn_child()
        spawn_daemon()
        init.event_sink.emit("extension", {"pid": os.getpid()})
        ignore_signals()
        hang_in_c()


class WithDescendants(TrivialBackend):
    """A backend with a child and a daemon of its own."""

    def start(self, init: AdapterInit) -> None:
        spawn_child()
        spawn_daemon()
        super().start(init)


class IncapableProvider(TrivialProvider):
    """Announces other capabilities than a session needs."""

    def __init__(self, lacks: str) -> None:
        super().__init__()
        self._lacks = lacks

    def start(self, init: AdapterInit) -> None:
        changed: Mapping[str, Any] = {
            "full_duplex": {"full_duplex": False},
            "audio_formats": {"audio_formats": ()},
            "delegation_modes": {"delegation_modes": ("provider",)},
            "context_update_kinds": {"context_update_kinds": (ContextKind.QUIET,)},
        }[self._lacks]
        fields: dict[str, Any] = {"audio_formats": (init.audio_format,), **changed}
        assert init.audio_format is not None
        payload = {"capabilities": to_data(ProviderCapabilities(**fields)), "audio_format": init.audio_format.to_data()}
        init.event_sink.emit("ready", payload)


class IgnoresClose(TrivialChannel):
    """Never says that it has closed."""

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        return


class StalledChannel(TrivialChannel):
    """A control never returns."""

    def control(self, command: Any, command_id: str) -> None:
        hang_in_c()


class StubbornBackend(TrivialBackend):
    """Takes requests, never ends one, and has a daemon; `log` gets a line for each submission."""

    def __init__(self, log: str | None = None, hang_in_close: bool = False) -> None:
        super().__init__()
        self._log = log
        self._hang = hang_in_close

    def start(self, init: AdapterInit) -> None:
        spawn_daemon()
        self._sink = init.event_sink
        self._sink.emit("ready", {"capabilities": to_data(BackendCapabilities())})

    def submit(self, request: BackendRequest, command_id: str) -> None:
        if self._log is not None:
            with Path(self._log).open("a") as log:
                log.write(f"{request.id}\n")
        self._sink.emit("request_started", {"task_revision": request.task_revision}, request_id=request.id)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        if self._hang:
            hang_in_c()
        self._sink.emit("closed", {"policy": str(policy)}, command_id=command_id)


class Delegating(TrivialProvider):
    """Asks for work as soon as it is ready."""

    def __init__(self, **options: Any) -> None:
        payload = {"delegation_id": "d1", "target": "client", "offset_ms": 0}
        super().__init__(script=[{"at_ms": 20, "emit": "delegation_requested", "payload": payload}], **options)


def start_everything(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> list[ContextDecision]:
    """Every delegation is work."""
    if trigger.kind is not TriggerKind.DELEGATION:
        return []
    decision = ContextDecision(DecisionKind.START_TASK, delegation_id=trigger.delegation_id, input={"text": "work"})
    return [decision]


def slow_policy(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> list[ContextDecision]:
    """Thinks for a long time."""
    time.sleep(options.get("seconds", 600))
    return start_everything(snapshot, trigger, {})


def deadly_policy(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> list[ContextDecision]:
    """Dies in its first interpretation, and works when it is started again; `mark` is a file that remembers."""
    mark = Path(options["mark"])
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return start_everything(snapshot, trigger, {})


def deaf_policy(snapshot: Any, trigger: ContextTrigger, options: Mapping[str, Any]) -> list[ContextDecision]:
    """Never comes back, deaf to everything, and has a child."""
    spawn_child()
    ignore_signals()
    hang_in_c()
    return []


class Indiscreet(TrivialProvider):
    """Passes on whatever it knows, its key included, in every way there is."""

    def __init__(self, api_key_env: str, fail: bool) -> None:
        super().__init__()
        self._key = os.environ[api_key_env]
        self._fail = fail

    def start(self, init: AdapterInit) -> None:
        init.event_sink.emit("extension", {"text": f"logging in with {self._key}"})
        if self._fail:
            raise AdapterFailed(f"the service refuses {self._key}", details={"request": {"authorization": self._key}})
        super().start(init)

    def control(self, command: Any, command_id: str) -> None:
        raise AdapterFailed(f"not with {self._key}")


class ExitsQuietly(TrivialBackend):
    """Its process ends without a word, as if all were well."""

    def submit(self, request: BackendRequest, command_id: str) -> None:
        os._exit(0)


class Segfaults(TrivialBackend):
    """Its process ends by a fault in native code."""

    def submit(self, request: BackendRequest, command_id: str) -> None:
        ctypes.string_at(0)


class KeepsTheLock(TrivialBackend):
    """Takes a request, and some time later keeps the interpreter's lock in C for ever: no thread of it runs then."""

    def submit(self, request: BackendRequest, command_id: str) -> None:
        self._sink.emit("request_started", {"task_revision": request.task_revision}, request_id=request.id)
        threading.Timer(0.1, lambda: ctypes.PyDLL(None).sleep(600)).start()
