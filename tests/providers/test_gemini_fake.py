"""The fake Gemini is one: the vendor's own client talks to it over TLS, and the vendor's models take all it says."""

import asyncio
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip(
    "google.genai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test"
)

from google import genai
from google.genai import types

from parlora.providers.gemini.calls import Ledger
from parlora.providers.gemini.codec import CodecOptions, GeminiCodec
from parlora.testing.providers import gemini_rules as rules
from parlora.testing.providers.gemini import FakeGemini
from parlora.testing.providers.gemini_session import Step
from parlora.testing.providers.websocket import BINARY
from tests.providers.openai_calls import KEY, KEY_ENV, calling, until
from tests.unit.providers.gemini import gemini_oracle as oracle

CERTIFICATE = Path(__file__).parent / "certificate"
SECOND = bytes(32_000)
FUNCTION = {
    "name": "ask_application",
    "description": "Ask",
    "behavior": "NON_BLOCKING",
    "parameters": {"type": "OBJECT", "properties": {"request": {"type": "STRING"}}, "required": ["request"]},
}
CONFIG: dict[str, Any] = {
    "response_modalities": ["AUDIO"],
    "system_instruction": "be brief",
    "tools": [{"function_declarations": [FUNCTION]}],
    "input_audio_transcription": {},
    "output_audio_transcription": {},
    "session_resumption": {},
    "context_window_compression": {"sliding_window": {}},
    "realtime_input_config": {"activity_handling": "START_OF_ACTIVITY_INTERRUPTS"},
}
SCRIPT = (
    Step(200, "user", "where is my order"),
    Step(300, "call", "fc-1"),
    Step(1_500, "assistant", "a very long answer to nothing"),
    Step(1_700, "interrupt"),
    Step(1_800, "cancel", "fc-1"),
    Step(1_900, "go_away", "1s"),
)


def server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE / "certificate.pem", CERTIFICATE / "key.pem")
    return context


def vendor(fake: FakeGemini, version: str = "v1beta", key: str = "the-key") -> genai.Client:
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE / "certificate.pem"))
    options = {
        "base_url": f"https://127.0.0.1:{fake.port}",
        "api_version": version,
        "async_client_args": {"ssl": trusting},
    }
    return genai.Client(api_key=key, http_options=options)


@pytest.mark.filterwarnings("default")  # the vendor's client warns of its own deprecations
@pytest.mark.parametrize("version", ["v1beta", "v1alpha"])
def test_the_vendors_client_holds_a_whole_conversation_with_the_fake(version: str) -> None:
    async def talk(fake: FakeGemini) -> list[types.LiveServerMessage]:
        seen: list[types.LiveServerMessage] = []
        async with vendor(fake, version).aio.live.connect(model="gemini-3.8-live", config=CONFIG) as session:
            audio = {"data": SECOND, "mime_type": "audio/pcm;rate=16000"}
            await session.send_realtime_input(audio=audio)
            async with asyncio.timeout(20):
                while not any(message.tool_call for message in seen):
                    seen.append(await session._receive())
                call = seen[-1].tool_call.function_calls[0]
                answer = types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": "It is ready"}, scheduling="WHEN_IDLE"
                )
                await session.send_tool_response(function_responses=[answer])
                turn = {"role": "user", "parts": [{"text": "a note"}]}
                await session.send_client_content(turns=turn, turn_complete=False)
                await session.send_realtime_input(audio=audio)
                while not any(message.go_away for message in seen):
                    seen.append(await session._receive())
        return seen

    with FakeGemini(SCRIPT, api_key="the-key", speaks=True, tls=server_tls()) as fake:
        seen = asyncio.run(talk(fake))
        (recording,) = fake.sessions
        assert f".{version}." in recording.path
    content = [message.server_content for message in seen if message.server_content]
    spoken = "".join(each.output_transcription.text for each in content if each.output_transcription)
    assert spoken.startswith("It is ready")
    heard = "".join(each.input_transcription.text for each in content if each.input_transcription)
    assert heard == "where is my order"
    sound = b"".join(part.inline_data.data for each in content if each.model_turn for part in each.model_turn.parts)
    assert len(sound) >= 3 * 250 * 48
    assert any(each.turn_complete for each in content)
    assert seen[-1].go_away.time_left == "1s"
    assert recording.audio_bytes == 2 * len(SECOND)
    assert [next(iter(message)) for message in recording.received] == ["setup", "toolResponse", "clientContent"]
    for text in recording.sent:
        oracle.check_server(text)


@pytest.mark.filterwarnings("default")
def test_the_adapters_setup_is_the_one_the_vendors_client_makes_of_the_same_wishes() -> None:
    async def connect(fake: FakeGemini) -> None:
        async with vendor(fake).aio.live.connect(model="gemini-3.8-live", config=CONFIG):
            pass

    with FakeGemini(tls=server_tls()) as fake:
        asyncio.run(connect(fake))
        theirs = fake.wait_for("setup")
    function = {**{key: FUNCTION[key] for key in ("name", "description", "parameters")}}
    options = CodecOptions(setup=type(CodecOptions().setup)(functions=(function,)))
    (ours_text,) = GeminiCodec(options, "be brief", (), Ledger()).opening()
    _, ours = rules.check(json.loads(ours_text))
    ours["realtimeInputConfig"].pop("automaticActivityDetection")  # empty: nothing was wished for
    theirs["systemInstruction"].pop("role", None)  # the client adds a role that the field does not need
    assert ours == theirs


def test_everything_the_fake_says_is_documented_and_in_binary_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)
    from parlora.testing.providers.websocket import Peer
    from tests.providers.gemini_calls import QuickGemini

    opcodes: set[int] = set()
    send = Peer.send

    def noting(self: Peer, data: bytes | str, opcode: int = 1) -> None:
        opcodes.add(opcode)
        send(self, data, opcode)

    monkeypatch.setattr(Peer, "send", noting)
    script = (*SCRIPT[:-1], Step(1_850, "status", "IN_PROGRESS"), Step(1_900, "go_away", "60s"))
    with FakeGemini(script, speaks=True) as fake, calling(fake, adapter=QuickGemini) as call:
        until("the other connection", lambda: len(fake.sessions) == 2 and fake.sessions[1].sent)
        call.close_adapter()
        sent = [text for session in fake.sessions for text in session.sent]
    kinds = {key for text in sent for key in json.loads(text)}
    assert kinds == {
        "setupComplete",
        "sessionResumptionUpdate",
        "serverContent",
        "toolCall",
        "toolCallCancellation",
        "goAway",
    }
    for text in sent:
        oracle.check_server(text)
    assert opcodes <= {BINARY, 8, 10}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"setup": {"model": "models/gemini-9"}}, 1008),
        ({"setup": {"model": "models/gemini-3.8-live", "zzz": 1}}, 1007),
        ({"setup": {"model": "models/gemini-3.8-live", "generationConfig": {"thinkingConfig": {}}}}, 1007),
        ({"setup": {"model": "models/gemini-3.8-live", "generation_config": {"enable_affective_dialog": True}}}, 1007),
        ({"setup": {"model": "models/gemini-3.8-live", "proactivity": {"proactiveAudio": False}}}, 1007),
        ({"setup": {"model": "models/gemini-3.8-live", "sessionResumption": {"transparent": True}}}, 1007),
        ({"clientContent": {"turns": [{"parts": [{"text": "no role"}]}]}}, 1007),
        ({"toolResponse": {"functionResponses": [{"id": "1", "name": "f", "response": "no object"}]}}, 1007),
        ({"realtimeInput": {"audio": {"mimeType": "audio/opus", "data": "AAAA"}}}, 1007),
    ],
)
def test_the_fake_refuses_what_the_service_refuses(message: dict[str, Any], code: int) -> None:
    with pytest.raises(rules.Refusal) as refused:
        rules.check(message)
    assert refused.value.code == code


def test_both_spellings_are_one_and_what_is_not_the_services_is_left_alone() -> None:
    function = {"name": "f", "response": {"snake_case": 1}, "will_continue": True}
    _, body = rules.check({"tool_response": {"function_responses": [function]}})
    assert body == {"functionResponses": [{"name": "f", "response": {"snake_case": 1}, "willContinue": True}]}


@pytest.mark.filterwarnings("default")
def test_a_wrong_key_and_a_wrong_first_message_close_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    from websockets.exceptions import ConnectionClosed

    async def connect(fake: FakeGemini, key: str) -> None:
        async with vendor(fake, key=key).aio.live.connect(model="gemini-3.8-live", config={}):
            pass

    with FakeGemini(api_key="right", tls=server_tls()) as fake:
        with pytest.raises((ConnectionClosed, genai.errors.APIError), match="1007"):
            asyncio.run(connect(fake, "wrong"))
        asyncio.run(connect(fake, "right"))


def test_the_faults_of_all_fakes_are_faults_of_this_one() -> None:
    from parlora.testing.providers import gemini_session, openai_session

    assert set(gemini_session._FAULTS) == set(openai_session._FAULTS)
