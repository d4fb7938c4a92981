"""Adapters that behave and misbehave, imported by name as an owner does."""

import threading
from typing import Any

from parlora.contract.adapter import Adapter, AdapterInit
from parlora.errors import InvalidArgument, Unsupported
from parlora.limits import AudioLimits

released = threading.Event()
"""Lets a blocked callback go on; set by the tests."""


class Plain(Adapter):
    """Reports what it was told as extension events."""

    def __init__(self, **options: Any) -> None:
        if "refused" in options:
            raise InvalidArgument("refused must not be given", field="refused")
        self.options = options

    def start(self, init: AdapterInit) -> None:
        self.init = init
        self.sink = init.event_sink
        self.sink.emit("ready", {"capabilities": {}, "thread": threading.current_thread().name})

    def close(self, policy: Any, command_id: str) -> None:
        self.sink.emit("closed", {"policy": str(policy)}, command_id=command_id)

    def control(self, command: Any, command_id: str) -> None:
        if self.options.get("block"):
            released.wait()
        if self.options.get("refuse_control"):
            raise Unsupported("no such control")
        self.sink.emit("control_completed", {"command": repr(command)}, command_id=command_id)

    def submit(self, request: Any, command_id: str) -> None:
        self.sink.emit("request_started", {"task_revision": request.task_revision}, request_id=request.id)

    def append_context(self, update: Any, command_id: str) -> None:
        self.sink.emit("context_acknowledged", {}, command_id=command_id)


class OnlyACommonAdapter(Adapter):
    """Starts and closes, and is neither channel nor provider nor backend."""

    def start(self, init: AdapterInit) -> None:
        raise AssertionError("never started")

    def close(self, policy: Any, command_id: str) -> None:
        raise AssertionError("never started")


class Provider(Plain):
    """With a storage profile of its own."""

    @classmethod
    def audio_limits(cls, format: Any) -> AudioLimits:
        return AudioLimits(48_000, 5_000)

    def start(self, init: AdapterInit) -> None:
        super().start(init)
        self.sink.emit(
            "extension",
            {
                "bound": init.audio_out.status().capacity_bytes,  # type: ignore[union-attr]
                "limits": init.limits,
                "instructions": init.instructions,
                "history": list(init.history),
            },
        )


class Asynchronous(Plain):
    """Written with async def; its callbacks run on one event loop."""

    async def start(self, init: AdapterInit) -> None:  # type: ignore[override]
        import asyncio

        self.loop = asyncio.get_running_loop()
        super().start(init)

    async def control(self, command: Any, command_id: str) -> None:  # type: ignore[override]
        import asyncio

        assert asyncio.get_running_loop() is self.loop
        await asyncio.sleep(0)
        super().control(command, command_id)


class FailsInStart(Plain):
    def start(self, init: AdapterInit) -> None:
        secret = "sk-hunter2"
        raise RuntimeError(f"cannot log in with {secret}")


class HangsInStart(Plain):
    def start(self, init: AdapterInit) -> None:
        released.wait()


class Floods(Plain):
    def start(self, init: AdapterInit) -> None:
        while True:
            init.event_sink.emit("extension", {"text": "x" * 1_000})


class EmitsAudio(Plain):
    def start(self, init: AdapterInit) -> None:
        super().start(init)
        too_much = {"text": "x" * 2**21}
        for payload in ({"audio": b"\0\0"}, {"nested": [{"data": bytearray(2)}]}, {"object": object()}, too_much):
            try:
                self.sink.emit("extension", payload)
            except InvalidArgument as error:
                self.sink.emit("extension", {"refused": error.message})


class LosesAThread(Plain):
    def start(self, init: AdapterInit) -> None:
        super().start(init)
        threading.Thread(target=lambda: [][0], daemon=True).start()  # type: ignore[misc]
