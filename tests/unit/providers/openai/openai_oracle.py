"""The vendor's own models as judge of what is sent, in both directions.

The SDK's models allow extra fields and default the key `delegation_id`, so both a pydantic model (with every
`model_extra` empty) and the matching TypedDict (which knows required keys) must accept a message.
"""

import json
import typing
from typing import Any

from openai.types import live
from pydantic import BaseModel, TypeAdapter


def _by_type(union: Any) -> dict[str, type[BaseModel]]:
    members = typing.get_args(typing.get_args(union)[0]) if typing.get_origin(union) is typing.Annotated else ()
    table = {}
    for member in members or typing.get_args(union):
        (kind,) = typing.get_args(member.model_fields["type"].annotation)
        table[kind] = member
    return table


CLIENT = _by_type(live.ClientEvent)
SERVER = _by_type(live.ServerEvent)
_APPENDS = {
    "session.thinking.append": "thinking_append_event_param.ThinkingAppendEventParam",
    "session.commentary.append": "commentary_append_event_param.CommentaryAppendEventParam",
    "session.instructions.append": "instructions_append_event_param.InstructionsAppendEventParam",
}


def check_client(text: str) -> BaseModel:
    """The message as the SDK's model; fails for anything the vendor does not document."""
    message = json.loads(text)
    if message["type"] in _APPENDS:
        module, name = _APPENDS[message["type"]].split(".")
        typed = __import__(f"openai.types.live.{module}", fromlist=[name])
        TypeAdapter(getattr(typed, name)).validate_python(message)
    return _strict(CLIENT[message["type"]].model_validate(message))


def check_server(text: str) -> BaseModel:
    """The same for what a server says."""
    message = json.loads(text)
    return _strict(SERVER[message["type"]].model_validate(message))


def _strict(model: BaseModel, path: str = "") -> BaseModel:
    assert not model.model_extra, f"the vendor knows no {path}{sorted(model.model_extra or {})}"
    for name in type(model).model_fields:
        for value in _models(getattr(model, name)):
            _strict(value, f"{path}{name}.")
    return model


def _models(value: Any) -> list[BaseModel]:
    if isinstance(value, BaseModel):
        return [value]
    return [inner for inner in value if isinstance(inner, BaseModel)] if isinstance(value, list) else []
