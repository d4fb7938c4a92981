"""The steps of a script: plain data, so that a script travels to the process in which its adapter runs.

    provider = scripted.provider(
        delegate("d1"),
        expect("append_context", text="Order 124 is on its way.", name="told"),
        acknowledge("told"),
    )

Steps run in order, from `ready` on. `expect` waits for the callback; what is given inside it happens before the
callback returns, the next steps after that. `ref("told.command_id")` stands for what a named callback was given; every
value of an event may be one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from parlora.errors import ErrorCode, InvalidArgument
from parlora.events import EventType

Step = dict[str, Any]
"""One step, as plain data; made by the functions of this module."""

CALLS: Final = ("submit", "update", "cancel", "append_context", "control", "close")
"""The callbacks that a script may expect."""

_REF: Final = "$ref"


def expect(call: str, *inside: Step, name: str | None = None, **fields: Any) -> Step:
    """Wait for a callback with these values; see the class of each fake for the names of its values.

    inside: what happens before the callback returns: `emit` (and what is built on it), `pause`, and as the last one
    `refuse`. name: what later steps call its values by. A script that expects `close` has to tell `closed` itself.
    """
    if call not in CALLS:
        raise InvalidArgument(f"call must be one of {', '.join(CALLS)}", field="call")
    return {"do": "expect", "call": call, "inside": list(inside), "name": name, "fields": fields}


def emit(
    type: str,
    payload: Mapping[str, Any] | None = None,
    *,
    command_id: Any = None,
    request_id: Any = None,
    times: int = 1,
) -> Step:
    """Tell an event, `times` times in a row."""
    return {
        "do": "emit",
        "type": str(type),
        "payload": dict(payload or {}),
        "command_id": command_id,
        "request_id": request_id,
        "times": times,
    }


def pause(ms: int) -> Step:
    """Do nothing for a while. Inside `expect` the callback does not return for so long."""
    return {"do": "pause", "ms": ms}


def refuse(code: str = ErrorCode.UNSUPPORTED, message: str = "refused by the script") -> Step:
    """Inside `expect`, as the last step: the callback raises a `ParloraError`."""
    return {"do": "refuse", "code": str(code), "message": message}


def ref(path: str) -> dict[str, str]:
    """Stands for a value of an expected callback: `"name.value"`, for example `"told.command_id"`."""
    return {_REF: path}


def resolve(value: Any, known: Mapping[str, Mapping[str, Any]]) -> Any:
    """`value` with every `ref` replaced; raises `KeyError` for one that names nothing."""
    if isinstance(value, Mapping):
        if set(value) == {_REF}:
            name, _, key = value[_REF].partition(".")
            return known[name][key]
        return {key: resolve(inner, known) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [resolve(inner, known) for inner in value]
    return value


# ---- what a provider tells


def delegate(delegation_id: str) -> Step:
    """The provider asks for application work."""
    payload = {"delegation_id": delegation_id, "target": "client", "offset_ms": None}
    return emit(EventType.DELEGATION_REQUESTED, payload)


def say(delta: str, speaker: str = "user") -> Step:
    """A caption."""
    payload = {"speaker": speaker, "delta": delta, "start_ms": None, "end_ms": None}
    return emit(EventType.TRANSCRIPT_DELTA, payload)


def acknowledge(name: str) -> Step:
    """The provider has taken the append of that name."""
    return emit(EventType.CONTEXT_ACKNOWLEDGED, command_id=ref(f"{name}.command_id"))


# ---- what a backend tells


def started(name: str) -> Step:
    """The request of that name has begun."""
    payload = {"task_revision": ref(f"{name}.task_revision")}
    return emit(EventType.REQUEST_STARTED, payload, request_id=ref(f"{name}.request_id"))


def progress(name: str, times: int = 1, **facts: Any) -> Step:
    """The request of that name has come to these facts."""
    payload = {"task_revision": ref(f"{name}.task_revision"), "facts": facts, "summary": None}
    return emit(EventType.REQUEST_PROGRESS, payload, request_id=ref(f"{name}.request_id"), times=times)


def finish(name: str, summary: str | None = None, status: str = "completed", **result: Any) -> Step:
    """The request of that name has ended; `result` overrides parts of its result, to make it wrong."""
    request_id = ref(f"{name}.request_id")
    outcome = {
        "request_id": request_id,
        "task_id": ref(f"{name}.task_id"),
        "task_revision": ref(f"{name}.task_revision"),
        "status": status,
        "facts": {},
        "summary": summary,
        "metadata": {},
        **result,
    }
    return emit(f"request_{status}", {"result": outcome}, request_id=request_id)


def update_applied(name: str) -> Step:
    """The update of that name has been applied."""
    payload = {"task_revision": ref(f"{name}.task_revision"), "outcome": "applied", "error": None}
    return emit(
        EventType.UPDATE_APPLIED, payload, command_id=ref(f"{name}.command_id"), request_id=ref(f"{name}.request_id")
    )


def describe(step: Step) -> str:
    """One step in words."""
    if step["do"] == "expect":
        fields = ", ".join(f"{key}={value!r}" for key, value in step["fields"].items())
        return f"expect {step['call']}({fields})"
    if step["do"] == "emit":
        return f"emit {step['type']}"
    return " ".join(str(value) for value in step.values())
