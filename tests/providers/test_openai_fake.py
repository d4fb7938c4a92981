"""The fake GPT-Live is one: the vendor's own client talks to it, and the vendor's models take everything it says."""

import base64
import json
import time

import pytest

pytest.importorskip("openai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test")

from openai import OpenAI as VendorClient

from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.openai import CloseVariant, FakeOpenAI
from parlora.testing.providers.openai_session import Step
from tests.unit.providers.openai import openai_oracle as oracle

SCRIPT = (
    Step(200, "user", "where is my order"),
    Step(300, "assistant", "one moment"),
    Step(400, "delegation", "item_1"),
)


def test_the_vendors_client_holds_a_whole_conversation_with_the_fake() -> None:
    with FakeOpenAI(SCRIPT, api_key="sk-x", speaks_commentary=True) as fake:
        base = fake.url.replace("ws://", "http://").removesuffix("/live/sessions")
        with VendorClient(api_key="sk-x", base_url=base).live.connect() as connection:
            connection.session.start(session={"model": "gpt-live-1", "instructions": "be brief"})
            seen = [connection.recv()]
            chunk = base64.b64encode(bytes(4_800)).decode()
            for round in range(30):
                connection.session.input_audio.append(audio=chunk)
                if round == 8:
                    connection.session.thinking.append(content="order 17 is late", delegation_id="item_1")
                    connection.session.commentary.append(content="It is on its way", delegation_id="item_1")
            while sum(event.type == "session.output_audio.delta" for event in seen) < 30:
                seen.append(connection.recv())
            connection.session.close()
            while seen[-1].type != "session.closed":
                seen.append(connection.recv())
        types = [event.type for event in seen]
        assert types[0] == "session.started"
        for type in ("input_transcript.delta", "output_transcript.delta", "delegation.created", "thinking.appended"):
            assert f"session.{type}" in types
        spoken = "".join(event.delta for event in seen if event.type == "session.output_transcript.delta")
        assert spoken == "one momentIt is on its way"
        assert seen[-1].reason == "close_requested"
        assert seen[-1].usage.seconds == 3


def test_everything_the_fake_says_is_documented() -> None:
    script = (*SCRIPT, Step(500, "cut"), Step(16_500, "end", "content"))
    with FakeOpenAI(script, [Fault(FaultKind.ERROR, at_ms=600)]) as fake:
        base = fake.url.replace("ws://", "http://").removesuffix("/live/sessions")
        with VendorClient(api_key="sk-x", base_url=base).live.connect() as connection:
            connection.session.start(session={"model": "gpt-live-1.1"})
            connection.session.start(session={"model": "gpt-live-1.1"})
            connection.session.input_audio.mute()
            connection.session.input_audio.unmute()
            for kind in (connection.session.thinking, connection.session.commentary, connection.session.instructions):
                kind.append(content="hello", delegation_id=None)
            connection.session.commentary.append(content="x", delegation_id="unknown")
            connection.session.commentary.append(content="x" * 2_100, delegation_id=None)
            connection.send_raw(json.dumps({"type": "session.input_audio.append", "audio": "AAAA"}))
            second = base64.b64encode(bytes(48_000)).decode()
            for _ in range(17):
                connection.session.input_audio.append(audio=second)
            while connection.recv().type != "session.closed":
                pass
        sent = list(fake.sessions[0].sent)
    kinds = {json.loads(text)["type"] for text in sent}
    for text in sent:
        oracle.check_server(text)
    assert {"session.started", "session.usage.updated", "session.closed", "error", "session.input_audio.muted"} <= kinds
    codes = [json.loads(text)["error"]["code"] for text in sent if json.loads(text)["type"] == "error"]
    assert {"session_already_started", "invalid_audio", "invalid_value", "server_error", "content_policy"} <= set(codes)


@pytest.mark.parametrize(
    ("session", "code"),
    [
        ({"model": "gpt-4"}, "invalid_model"),
        ({"model": "gpt-live-1", "zzz": 1}, "unknown_parameter"),
        ({"model": "gpt-live-1", "audio": {"output": {"q": 1}}}, "unknown_parameter"),
        ({"model": "gpt-live-1", "audio": {"format": {"type": "audio/pcm", "rate": 8_000}}}, "invalid_value"),
        ({"model": "gpt-live-1", "audio": {"output": {"voice": "nova"}}}, "forbidden"),
        ({"model": "gpt-live-1", "input": [{"type": "message", "role": "system", "content": []}]}, "invalid_value"),
    ],
)
def test_the_fake_refuses_what_the_service_refuses(session: dict[str, object], code: str) -> None:
    with FakeOpenAI() as fake:
        base = fake.url.replace("ws://", "http://").removesuffix("/live/sessions")
        with VendorClient(api_key="sk-x", base_url=base).live.connect() as connection:
            connection.send_raw(json.dumps({"type": "session.start", "session": session}))
            event = connection.recv()
            assert (event.type, event.error.code) == ("error", code)


@pytest.mark.parametrize(("variant", "code"), [(CloseVariant.NORMAL, 1000), (CloseVariant.NO_CODE, 1005)])
def test_the_fake_closes_as_it_was_seen_to(variant: CloseVariant, code: int) -> None:
    from websockets.exceptions import ConnectionClosed

    with FakeOpenAI(close=variant) as fake:
        base = fake.url.replace("ws://", "http://").removesuffix("/live/sessions")
        with VendorClient(api_key="sk-x", base_url=base).live.connect() as connection:
            connection.session.start(session={"model": "gpt-live-1"})
            connection.session.close()
            seen = [connection.recv(), connection.recv()]
            assert [event.type for event in seen] == ["session.started", "session.closed"]
            with pytest.raises(ConnectionClosed) as closed:
                connection.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == code


def test_a_session_without_audio_expires() -> None:
    with FakeOpenAI(deaf_ms=300) as fake:
        base = fake.url.replace("ws://", "http://").removesuffix("/live/sessions")
        with VendorClient(api_key="sk-x", base_url=base).live.connect() as connection:
            connection.session.start(session={"model": "gpt-live-1"})
            began = time.monotonic()
            while (event := connection.recv()).type != "session.closed":
                pass
            assert event.reason == "expired"
            assert time.monotonic() - began >= 0.25
