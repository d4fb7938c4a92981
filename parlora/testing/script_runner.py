"""Carries a script out inside an adapter: one thread for its steps, and a strict look at every callback."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from parlora.contract.adapter import EventSink
from parlora.errors import Backpressure, Closed, ErrorCode, InvalidArgument, error_from_data
from parlora.events import EventType
from parlora.testing.script import CALLS, Step, describe, resolve

REPLY_MS: Final = 20
"""How long the step after `expect` waits once the callback has returned, so that its reply is usually there first."""

JOIN_S: Final = 1.0
"""How long the end of a script waits for the step that runs: the contract gives `close` no longer."""

_STEPS: Final = ("expect", "emit", "pause", "refuse")


class ScriptRunner:
    """One adapter's script.

    `unexpected` and `unconsumed` steps are told as `failed`, with `details["script"]` naming which, and end the
    session: `check_scripts` of `parlora.testing.scripted` turns them into a failure of the test.
    """

    def __init__(self, steps: Sequence[Step], allow: Sequence[str] = ()) -> None:
        for index, step in enumerate(steps):
            if not isinstance(step, Mapping) or step.get("do") not in _STEPS:
                raise InvalidArgument("a step is made by parlora.testing.script", field=f"script[{index}]")
        for call in allow:
            if call not in CALLS:
                raise InvalidArgument(f"allow may name {', '.join(CALLS)}", field="allow")
        self._steps = [dict(step) for step in steps]
        self._allow = frozenset(allow)
        self._known: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._matched = 0
        self._returned: set[int] = set()
        self._position = 0
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="script", daemon=True)
        self._sink: EventSink

    def start(self, sink: EventSink) -> None:
        """Begin with the first step."""
        self._sink = sink
        self._thread.start()

    def called(self, call: str, values: Mapping[str, Any]) -> bool:
        """A callback: True if the script has expected it, False if it is merely allowed.

        Raises what the script refuses with; a callback that is neither is told as a failure of the adapter.
        """
        with self._changed:
            index = self._next_expected()
            step = None if index is None else self._steps[index]
            if index is None or step is None or not _matches(step, call, values, self._known):
                if call not in self._allow and call != "close":
                    wanted = "nothing more" if step is None else describe(step)
                    self._problem("unexpected", f"unexpected {call}({_shown(values)}); the script has: {wanted}")
                return False
            self._matched = index + 1
            if step["name"]:
                self._known[step["name"]] = dict(values)
        try:
            for inner in step["inside"]:
                self._do(inner)
        finally:
            with self._changed:
                self._returned.add(index)
                self._changed.notify_all()
        return True

    def fail(self, message: str) -> None:
        """The adapter itself found the session at fault."""
        with self._changed:
            self._problem("unexpected", message)

    def finish(self) -> None:
        """The end: tell what was left. Call it in `close`, before `closed`."""
        with self._changed:
            left = [step for step in self._steps[self._position :] if step["do"] != "pause"]
            ended = self._ended
            self._ended = True
            self._changed.notify_all()
        if not ended and left:
            steps = "; ".join(describe(step) for step in left)
            self._tell("unconsumed", f"steps that never came: {steps}")
        if threading.current_thread() is not self._thread and self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _next_expected(self) -> int | None:
        for index in range(self._matched, len(self._steps)):
            if self._steps[index]["do"] == "expect":
                return index
        return None

    def _run(self) -> None:
        for index, step in enumerate(self._steps):
            if step["do"] == "expect":
                with self._changed:
                    self._changed.wait_for(lambda index=index: index in self._returned or self._ended)  # type: ignore[misc]
                    if self._ended:
                        return
                    self._position = index + 1
                    if self._position < len(self._steps):
                        self._changed.wait_for(lambda: self._ended, REPLY_MS / 1_000)
            else:
                if self._ended:
                    return
                try:
                    self._do(step)
                except (Closed, Backpressure):
                    return  # the owner has ended
            with self._changed:
                self._position = index + 1

    def _do(self, step: Step) -> None:
        if step["do"] == "pause":
            time.sleep(step["ms"] / 1_000)
        elif step["do"] == "refuse":
            raise error_from_data({"code": step["code"], "message": step["message"], "details": {}})
        else:
            with self._changed:
                told = resolve({key: step[key] for key in ("payload", "command_id", "request_id")}, self._known)
            for _ in range(step["times"]):
                self._sink.emit(
                    step["type"], told["payload"], command_id=told["command_id"], request_id=told["request_id"]
                )

    def _problem(self, kind: str, message: str) -> None:
        if not self._ended:
            self._ended = True
            self._changed.notify_all()
            self._tell(kind, message)

    def _tell(self, kind: str, message: str) -> None:
        error = {"code": str(ErrorCode.ADAPTER_FAILED), "message": f"script: {message}", "details": {"script": kind}}
        self._sink.emit(EventType.FAILED, {"error": error})


def _matches(step: Step, call: str, values: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> bool:
    wanted = resolve(step["fields"], known)
    return step["call"] == call and all(key in values and values[key] == value for key, value in wanted.items())


def _shown(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}" for key, value in values.items())[:300]
