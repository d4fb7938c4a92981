"""The fake Grok is one: the client its vendor documents talks to it, and all it says has the documented fields."""

import base64
import json
from typing import Any

import pytest

pytest.importorskip("openai", reason="pip install 'parlora[test]' brings the client that xAI documents for Grok")

from openai import OpenAI as VendorClient

from parlora.testing.providers import grok_rules as rules
from parlora.testing.providers import grok_session, openai_session
from parlora.testing.providers.grok import FakeGrok
from parlora.testing.providers.grok_session import Step
from tests.unit.providers.grok import grok_oracle as oracle

SECOND = base64.b64encode(bytes(48_000)).decode()
FUNCTION = {"type": "function", "name": "ask_application", "description": "Ask", "parameters": {"type": "object"}}
SESSION: dict[str, Any] = {
    "voice": "eve",
    "instructions": "be brief",
    "turn_detection": {"type": "server_vad"},
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": 24_000}},
        "output": {"format": {"type": "audio/pcm", "rate": 24_000}},
    },
    "tools": [FUNCTION],
}
SCRIPT = (
    Step(200, "user", "where is my order"),
    Step(300, "assistant", "one moment"),
    Step(350, "call", "call-1"),
    Step(1_100, "assistant", "a very long answer to nothing"),
    Step(1_200, "interrupt"),
    Step(1_300, "ping"),
    Step(1_400, "end", "max_duration"),
)


def vendor(fake: FakeGrok, key: str = "xai-key") -> Any:
    client = VendorClient(api_key=key, base_url=fake.url.replace("ws://", "http://").removesuffix("/realtime"))
    return client.realtime.connect(model="grok-voice-3.0")


def test_the_documented_client_holds_a_whole_conversation_with_the_fake() -> None:
    from websockets.exceptions import ConnectionClosed

    seen: list[Any] = []
    with FakeGrok(SCRIPT, api_key="xai-key", speaks=True) as fake:
        with vendor(fake) as connection:

            def until(kind: str) -> Any:
                while not seen or seen[-1].type != kind:
                    seen.append(connection.recv())
                return seen[-1]

            connection.session.update(session=SESSION)
            until("session.updated")
            connection.input_audio_buffer.append(audio=SECOND)
            call = until("response.function_call_arguments.done")
            assert (call.call_id, call.name) == ("call-1", "ask_application")
            until("response.done")
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "It is ready"}
            connection.conversation.item.create(item=output)
            connection.response.create()
            until("response.output_audio.done")
            connection.input_audio_buffer.append(audio=SECOND)
            until("input_audio_buffer.speech_started")
            connection.conversation.item.truncate(item_id=seen[-2].item_id, content_index=0, audio_end_ms=100)
            until("error")
            assert seen[-1].error.code == "max_duration"
            with pytest.raises(ConnectionClosed):
                connection.recv()
        (recording,) = fake.sessions
    assert recording.query == "model=grok-voice-3.0"
    spoken = "".join(event.delta for event in seen if event.type == "response.output_audio_transcript.delta")
    assert spoken.startswith("one momentIt is ready")
    sound = b"".join(base64.b64decode(event.delta) for event in seen if event.type == "response.output_audio.delta")
    assert len(sound) >= 5 * 250 * 48
    for text in recording.sent:
        oracle.check_server(text)
    kinds = {json.loads(text)["type"] for text in recording.sent}
    assert kinds >= set(oracle.SERVER) - {"conversation.item.truncated"}


@pytest.mark.parametrize(
    "message",
    [
        {"type": "session.update"},
        {"type": "session.update", "session": {"zzz": 1}},
        {"type": "session.update", "session": {"audio": {"input": {"format": {"type": "audio/pcm", "rate": 1}}}}},
        {"type": "session.update", "session": {"turn_detection": {"type": "server_vad", "threshold": 1}}},
        {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "c"}},
        {"type": "conversation.item.create", "item": {"type": "message", "role": "boss", "content": [{}]}},
        {"type": "conversation.item.retrieve", "item_id": "x"},
        {"type": "conversation.item.truncate", "item_id": "m", "content_index": 0, "audio_end_ms": 1.5},
    ],
)
def test_the_fake_refuses_what_is_not_documented(message: dict[str, Any]) -> None:
    with pytest.raises(rules.Refusal):
        rules.check(message)


def test_a_configuration_where_openai_has_it_is_overlooked_without_a_word() -> None:
    nested = {"audio": {"input": {"turn_detection": {"type": "server_vad"}}, "output": {"voice": "ara"}}}
    with FakeGrok((Step(100, "user", "hello there"),)) as fake, vendor(fake) as connection:
        connection.session.update(session={"type": "realtime", **nested})
        while (event := connection.recv()).type != "session.updated":
            pass
        assert event.session.voice == "eve"
        connection.input_audio_buffer.append(audio=SECOND)
        kinds = []
        while not kinds or not kinds[-1].endswith("committed"):
            kinds.append(connection.recv().type)
        assert "input_audio_buffer.speech_started" not in kinds


def test_one_response_at_a_time_and_none_to_cancel_are_errors() -> None:
    with FakeGrok((Step(100, "assistant", "a long answer to nothing at all"),)) as fake, vendor(fake) as connection:

        def error() -> str:
            while (event := connection.recv()).type != "error":
                pass
            return str(event.error.code)

        connection.session.update(session=SESSION)
        connection.response.cancel()
        assert error() == "response_cancel_not_active"
        connection.input_audio_buffer.append(audio=SECOND[:9_600])
        connection.response.create()
        while (event := connection.recv()).type != "response.created":
            pass
        connection.input_audio_buffer.append(audio=SECOND[:9_600])
        while connection.recv().type != "response.output_audio.done":
            pass
        connection.response.create()
        assert error() == "conversation_already_has_active_response"
        assert event.type == "response.created"


def test_the_faults_of_all_fakes_are_faults_of_this_one() -> None:
    assert set(grok_session._FAULTS) == set(openai_session._FAULTS)
