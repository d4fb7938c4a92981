"""The field tables of xAI's documentation as small schemas of our own, in both directions.

There is no SDK of the vendor's with models for this. A schema is a mapping of names to kinds: a type, a set of allowed
values, a list of one kind for lists, a mapping for objects; `?` after a name means that it may be missing, and `null`
among the types that it may be null. An unknown field is an error at every level.
"""

import json
from typing import Any

NUMBER = (int, float)
FORMAT = {"type": {"audio/pcm", "audio/pcmu"}, "rate": {24_000, 8_000}}
TOOL = {"type": {"function"}, "name": str, "description": str, "parameters?": dict}
DETECTION = {"type": {"server_vad"}, "threshold?": NUMBER, "silence_duration_ms?": int, "prefix_padding_ms?": int}
SESSION = {
    "instructions?": str,
    "voice?": str,
    "reasoning?": {"effort": {"high", "none"}},
    "turn_detection": DETECTION,
    "audio": {
        "input": {"format": FORMAT, "transcription": {"model": {"grok-transcribe"}, "language_hint?": str}},
        "output": {"format": FORMAT},
    },
    "tools": [TOOL],
}
OUTPUT_ITEM = {"type": {"function_call_output"}, "call_id": str, "output": str}
MESSAGE_ITEM = {
    "type": {"message"},
    "role": {"user", "assistant", "system"},
    "content": [{"type": {"input_text", "text"}, "text": str}],
}
CLIENT: dict[str, dict[str, Any]] = {
    "session.update": {"session": SESSION},
    "input_audio_buffer.append": {"audio": str},
    "conversation.item.create": {"item": dict},
    "conversation.item.truncate": {"item_id": str, "content_index": int, "audio_end_ms": int},
    "response.create": {},
}

RESPONSE = {"id": str, "object": {"realtime.response"}, "status": str, "output": list, "metadata": (dict, type(None))}
USAGE = {"input_tokens": int, "output_tokens": int, "total_tokens": int}
PART = {"response_id": str, "item_id": str, "output_index": int, "content_index": int}
ITEM = {
    "id": str,
    "object": {"realtime.item"},
    "type": {"message", "function_call", "function_call_output"},
    "status": {"completed", "in_progress", "cancelled", "incomplete"},
    "role?": {"user", "assistant", "system"},
    "content?": [{"type": str, "text?": str, "transcript?": str}],
    "call_id?": str,
    "name?": str,
    "arguments?": str,
    "output?": str,
}
CALL = {"response_id": str, "item_id": str, "output_index": int, "call_id": str, "name": str, "arguments": str}
HEARD = "conversation.item.input_audio_transcription"
SERVER: dict[str, dict[str, Any]] = {
    "session.created": {"session": {"id": str, "object": {"realtime.session"}}},
    "session.updated": {
        "session": {
            "id?": str,
            "object": {"realtime.session"},
            "model?": str,
            "instructions?": str,
            "voice?": str,
            "modalities?": list,
            "turn_detection?": dict,
            "tools?": list,
            "reasoning?": dict,
            "replace?": dict,
        }
    },
    "conversation.created": {"conversation": {"id": str, "object": {"realtime.conversation"}}},
    "conversation.item.added": {"previous_item_id?": str, "item": ITEM},
    "conversation.item.truncated": {"item_id": str, "content_index": int, "audio_end_ms": int, "transcript": str},
    f"{HEARD}.updated": {"item_id": str, "transcript": str},
    f"{HEARD}.completed": {"item_id": str, "transcript": str, "status?": {"in_progress", "completed"}},
    "input_audio_buffer.speech_started": {"item_id": str, "audio_start_ms?": NUMBER},
    "input_audio_buffer.speech_stopped": {"item_id": str, "audio_end_ms?": NUMBER},
    "input_audio_buffer.committed": {"item_id": str, "previous_item_id?": str},
    "response.created": {"response": RESPONSE},
    "response.output_item.done": {"response_id": str, "output_index": int, "item": ITEM},
    "response.output_audio.delta": {**PART, "delta": str},
    "response.output_audio.done": PART,
    "response.output_audio_transcript.delta": {**PART, "delta": str},
    "response.output_audio_transcript.done": {**PART, "transcript": str},
    "response.function_call_arguments.done": CALL,
    "response.done": {"response": {**RESPONSE, "usage": USAGE}},
    "ping": {"timestamp": int},
    "error": {
        "error": {"type": str, "code": str, "message": str, "param?": (str, type(None)), "event_id?": str},
    },
}


def check_client(text: str | bytes) -> dict[str, Any]:
    """The message; fails for anything that is not documented for a client."""
    message = json.loads(text)
    _check(message, {"type": str, "event_id?": str, **CLIENT[message["type"]]}, message["type"])
    if message["type"] == "conversation.item.create":
        is_output = message["item"]["type"] == "function_call_output"
        _check(message["item"], OUTPUT_ITEM if is_output else MESSAGE_ITEM, "item")
    return message


def check_server(text: str | dict[str, Any]) -> dict[str, Any]:
    """The same for what a server says."""
    message = json.loads(text) if isinstance(text, str) else text
    _check(message, {"type": str, "event_id": str, **SERVER[message["type"]]}, message["type"])
    return message


def _check(value: Any, schema: Any, where: str) -> None:
    if isinstance(schema, dict):
        assert isinstance(value, dict), where
        names = {name.rstrip("?"): name for name in schema}
        assert set(value) <= set(names), f"{where}: unknown {set(value) - set(names)}"
        for name, marked in names.items():
            if name in value:
                _check(value[name], schema[marked], f"{where}.{name}")
            else:
                assert marked.endswith("?"), f"{where}: {name} is missing"
    elif isinstance(schema, list):
        assert isinstance(value, list), where
        for each in value:
            _check(each, schema[0], where)
    elif isinstance(schema, set):
        assert value in schema, f"{where}: {value!r}"
    else:
        assert isinstance(value, schema), f"{where}: {value!r}"
        assert not (isinstance(value, bool) and schema in (int, NUMBER)), where
