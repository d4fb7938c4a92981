"""From the arguments of `start_session` and of a session's calls to what is sent: every error of shape is found here.

Nothing is started and nothing is imported. What only an owner can know arrives later as the session's `failed` event.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from parlora.audio.format import AudioFormat
from parlora.component import Component
from parlora.contract.adapter import ClosePolicy
from parlora.contract.channel import SuppressOutput
from parlora.contract.provider import ContextKind, ContextUpdate, MuteInput, Speaker
from parlora.errors import InvalidArgument
from parlora.ids import check_id, new_id
from parlora.limits import Limits
from parlora.session.spec import SessionSpec
from parlora.wire import MAX_FRAME_BYTES, packed_size, to_data
from parlora_actors.host_timing import now_us

_COMPONENTS = ("channel", "provider", "backend", "context_policy")

MOST_BYTES: Final = MAX_FRAME_BYTES // 2
"""Largest of what one call may hand over, as msgpack: it travels on with other things in one message."""

_MOST_INTEGER: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options of `start_session` as they were given."""

    channel: object
    provider: object
    backend: object
    context_policy: object
    instructions: object
    history: object
    context: object
    audio_format: object
    limits: object
    session_id: object
    telemetry: object = None


def build_spec(options: SessionOptions) -> SessionSpec:
    """The spec of a session that starts now; raises `InvalidArgument` or `Unsupported` naming the option."""
    session_id = new_id() if options.session_id is None else check_id(options.session_id, "session_id")
    components = {name: _component(getattr(options, name), name) for name in _COMPONENTS}
    instructions = None if options.instructions is None else _text(options.instructions, "instructions")
    audio_format = AudioFormat.from_data("pcm16le" if options.audio_format is None else options.audio_format)
    limits = Limits.from_data(options.limits)
    resolved = replace(
        limits.resolve(audio_format),
        provider_audio_queue_bytes=limits.provider_audio_queue_bytes,
        provider_audio_max_age_ms=limits.provider_audio_max_age_ms,
    )
    spec = SessionSpec(
        session_id=session_id,
        **components,
        audio_format=audio_format,
        limits=resolved,
        deadline_us=now_us() + limits.startup_timeout_ms * 1_000,
        instructions=instructions,
        history=_history(options.history),
        context={} if options.context is None else plain_map(options.context, "context"),
        telemetry=None if options.telemetry is None else _component(options.telemetry, "telemetry"),
    )
    if packed_size(to_data(spec)) > MOST_BYTES:
        raise InvalidArgument(
            f"instructions, history and context together must be at most {MOST_BYTES:,} bytes",
            field="context",
        )
    return spec


def _component(value: object, field: str) -> Component:
    if value is None:
        raise InvalidArgument(f"{field} is required: an (implementation, options) pair", field=field)
    component = Component.parse(value, field)
    module, _, attribute = component.path.partition(":")
    if module != "__main__":
        return component
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # `python -m package.module`: other processes import it under its own name
        return Component(f"{spec.name}:{attribute}", component.options)
    if getattr(main, "__file__", None) is None:
        raise InvalidArgument(
            f"{field}: {attribute} is defined at a prompt or with -c; other processes can only import it from a file",
            field=field,
        )
    return component


def main_path() -> str | None:
    """The main file of this program, which other processes load for `__main__:X`; None if it has none."""
    main = sys.modules.get("__main__")
    if main is None or getattr(main, "__spec__", None) is not None:
        return None
    path = getattr(main, "__file__", None)
    return path if isinstance(path, str) else None


def _history(value: object) -> tuple[dict[str, Any], ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise InvalidArgument("history must be a list of {'speaker', 'text'} entries", field="history")
    speakers = [str(speaker) for speaker in Speaker]
    for index, entry in enumerate(value):
        field = f"history[{index}]"
        if not isinstance(entry, Mapping) or set(entry) != {"speaker", "text"}:
            raise InvalidArgument(f"{field} must hold exactly speaker and text", field=field)
        if entry["speaker"] not in speakers:
            raise InvalidArgument(f"{field}.speaker must be one of {', '.join(speakers)}", field=f"{field}.speaker")
        _text(entry["text"], f"{field}.text")
    return tuple({"speaker": str(entry["speaker"]), "text": entry["text"]} for entry in value)


def plain_map(value: object, field: str) -> dict[str, Any]:
    """`value` as a dict that survives serialization; raises `InvalidArgument` naming `field`."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument(f"{field} must be a mapping with string keys", field=field)
    try:
        size = packed_size(dict(value))
    except InvalidArgument as error:
        raise InvalidArgument(f"{field}: {error.message}", field=field) from None
    if size > MOST_BYTES:
        raise InvalidArgument(f"{field} must be at most {MOST_BYTES:,} bytes; it has {size:,}", field=field)
    return dict(value)


def whole_number(value: object, field: str) -> int:
    """A positive integer that a message can carry; raises `InvalidArgument` naming `field`."""
    if type(value) is not int or not 1 <= value <= _MOST_INTEGER:
        raise InvalidArgument(f"{field} must be a positive integer", field=field)
    return value


def close_policy(value: object) -> str:
    """What becomes of running jobs; raises `InvalidArgument`."""
    policies = [str(item) for item in ClosePolicy]
    if value not in policies:
        raise InvalidArgument(f"policy must be one of {', '.join(policies)}", field="policy")
    return str(value)


def _text(value: object, field: str, least: int = 0) -> str:
    if not isinstance(value, str) or len(value) < least:
        raise InvalidArgument(f"{field} must be a {'non-empty ' if least else ''}string", field=field)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"{field} must be text that UTF-8 can encode", field=field) from None
    if size > MOST_BYTES:
        raise InvalidArgument(f"{field} must be at most {MOST_BYTES:,} bytes; it has {size:,}", field=field)
    return value


def context_update(value: object) -> dict[str, Any]:
    """An `append_context` update as plain data; raises `InvalidArgument`."""
    if isinstance(value, ContextUpdate):
        value = {"kind": value.kind, "text": value.text, "delegation_id": value.delegation_id}
    if not isinstance(value, Mapping) or not {"kind", "text"} <= set(value) <= {"kind", "text", "delegation_id"}:
        raise InvalidArgument(
            "update must be a ContextUpdate or hold kind, text and perhaps delegation_id", field="update"
        )
    kinds = [str(kind) for kind in ContextKind]
    if value["kind"] not in kinds:
        raise InvalidArgument(f"update.kind must be one of {', '.join(kinds)}", field="update.kind")
    text = _text(value["text"], "update.text", least=1)
    delegation_id = value.get("delegation_id")
    if delegation_id is not None:
        check_id(delegation_id, "update.delegation_id")
    return {"kind": str(value["kind"]), "text": text, "delegation_id": delegation_id}


def control_command(value: object) -> list[Any]:
    """A control of the session as `[name, value]`; raises `InvalidArgument`."""
    if isinstance(value, SuppressOutput):
        return ["suppress_output", value.on]
    if isinstance(value, MuteInput):
        return ["mute_input", value.on]
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        name, argument = value
        if name == "clear_output" and argument == "next":
            return [name, argument]
        if name in ("suppress_output", "mute_input") and isinstance(argument, bool):
            return [name, argument]
    raise InvalidArgument(
        "command must be ('clear_output', 'next'), ('suppress_output', bool) or ('mute_input', bool)", field="command"
    )
