"""What a conversation with Grok is made of, for the tests of its codec."""

import base64
import json
from typing import Any

from hypothesis import strategies as st

from parlora.audio.format import AudioFormat
from parlora.providers.cloud.said import Started
from parlora.providers.grok import commands
from parlora.providers.grok.codec import GrokCodec
from tests.unit.providers.grok import grok_oracle as oracle

PCM, PCMU = AudioFormat.pcm16(), AudioFormat.pcmu()
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=80)
HISTORY = st.lists(st.fixed_dictionaries({"speaker": st.sampled_from(["user", "assistant"]), "text": TEXT}), max_size=5)
SECOND = 1_000_000
STARTUP_MS = 2_000
HEARD = "conversation.item.input_audio_transcription"
PACKET = PCM.silence(250_000)


def server(type: str, **fields: Any) -> bytes:
    """A server message as documented."""
    return json.dumps(oracle.check_server({"type": type, "event_id": "e1", **fields})).encode()


def fresh(format: AudioFormat = PCM, history: Any = (), **options: Any) -> GrokCodec:
    return GrokCodec(commands.SessionOptions(**options), format, "be brief", history, STARTUP_MS)


def started(format: AudioFormat = PCM) -> GrokCodec:
    codec = fresh(format)
    assert [type(said) for said in codec.receive(server("session.updated", session=SESSION))] == [Started]
    return codec


SESSION = {"object": "realtime.session", "id": "s1", "model": "grok-voice-3.0", "voice": "eve"}


def response(id: str, status: str = "in_progress") -> dict[str, Any]:
    return {"id": id, "object": "realtime.response", "status": status, "output": [], "metadata": None}


def created(codec: GrokCodec, id: str) -> list[Any]:
    return codec.receive(server("response.created", response=response(id)))


def done(codec: GrokCodec, id: str, status: str = "completed") -> list[Any]:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return codec.receive(server("response.done", response={**response(id, status), "usage": usage}))


def part(kind: str, response_id: str, item_id: str = "m1", **fields: Any) -> bytes:
    return server(kind, response_id=response_id, item_id=item_id, output_index=0, content_index=0, **fields)


def sounds(codec: GrokCodec, response_id: str, item_id: str = "m1", data: bytes = PACKET) -> list[Any]:
    delta = base64.b64encode(data).decode()
    return codec.receive(part("response.output_audio.delta", response_id, item_id, delta=delta))


def called(
    codec: GrokCodec, id: str, name: str = "ask_application", arguments: str = '{"request":"cake"}'
) -> list[Any]:
    call = {"call_id": id, "name": name, "arguments": arguments}
    ids = {"response_id": "r1", "item_id": "f1", "output_index": 1}
    return codec.receive(server("response.function_call_arguments.done", **ids, **call))


def speech(codec: GrokCodec, what: str, item_id: str, **fields: Any) -> list[Any]:
    return codec.receive(server(f"input_audio_buffer.{what}", item_id=item_id, **fields))


def heard(codec: GrokCodec, kind: str, item_id: str, transcript: str, **fields: Any) -> list[Any]:
    return codec.receive(server(f"{HEARD}.{kind}", item_id=item_id, transcript=transcript, **fields))


def sent(messages: Any) -> list[dict[str, Any]]:
    return [oracle.check_client(message) for message in messages]


def types(messages: Any) -> list[str]:
    return [message["type"] for message in sent(messages)]


def error(codec: GrokCodec, code: str, message: str = "no", type: str = "invalid_request_error", **more: Any) -> Any:
    return codec.receive(server("error", error={"type": type, "code": code, "message": message, **more}))
