"""Random and mutated traffic: the codec never raises, never grows, and makes no id up."""

import json
import os
import random
from collections.abc import Iterator

from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.events import EventType
from parlora.providers.cloud.said import Audio, Observation, Send
from parlora.providers.gemini.calls import MAX_CALLS, Ledger
from parlora.providers.gemini.codec import CodecOptions, GeminiCodec
from parlora.wire import pack

ROUNDS = int(os.environ.get("PARLORA_FUZZ_ROUNDS", "60000"))
"""A million take a minute; the suite does some of them, others each time."""

SOUND = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAAA" * 40}}
CALL = {"id": "fc-1", "name": "ask_application", "args": {"request": "cake"}}
TRAFFIC = [
    json.dumps(message).encode()
    for message in (
        {"setupComplete": {"sessionId": "s"}},
        {"serverContent": {"modelTurn": {"role": "model", "parts": [SOUND, {"text": "x"}]}}},
        {"serverContent": {"inputTranscription": {"text": " cake", "startOffset": "1.5s"}, "interrupted": True}},
        {"serverContent": {"outputTranscription": {"text": "yes", "finished": True}, "generationComplete": True}},
        {
            "serverContent": {"turnComplete": True, "interactionStatus": "IDLE"},
            "usageMetadata": {"promptTokenCount": 1, "responseTokenCount": 2, "totalTokenCount": 3},
        },
        {"toolCall": {"functionCalls": [CALL, {**CALL, "id": "fc-2"}]}, "interactionStatus": "IN_PROGRESS"},
        {"toolCallCancellation": {"ids": ["fc-1", "fc-3"]}},
        {"sessionResumptionUpdate": {"newHandle": "handle", "resumable": True}},
        {"goAway": {"timeLeft": "9.5s"}},
        {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "m"}},
    )
]


def mutated(chance: random.Random) -> bytes:
    message = bytearray(chance.choice(TRAFFIC))
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(message) + 1)
        what = chance.randrange(4)
        if what == 0:
            message[at : at + 1] = bytes([chance.randrange(256)])
        elif what == 1:
            del message[at : at + chance.randrange(8)]
        elif what == 2:
            message[at:at] = chance.choice(TRAFFIC)[: chance.randrange(40)]
        else:
            message[at:at] = chance.choice([b"null", b"-1", b"1e999", b"{}", b"[]", b'""', b"true", b"\xff", b"[" * 50])
    return bytes(message)


def ids_in(message: bytes) -> Iterator[str]:
    content = json.loads(message)
    yield from (call.get("id") for call in content["toolCall"]["functionCalls"] if isinstance(call, dict))


def test_no_traffic_makes_the_codec_raise_grow_or_invent() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    codec = GeminiCodec(CodecOptions(), None, (), Ledger())
    for number in range(ROUNDS):
        if number % 1_000 == 0:
            codec = GeminiCodec(CodecOptions(), None, (), Ledger())
            codec.receive(TRAFFIC[0])
            codec.append(ContextUpdate(ContextKind.QUIET, "x"), "c1")
        message = mutated(chance)
        for said in codec.receive(message):
            if isinstance(said, Audio):
                assert said.data, seed
            elif isinstance(said, Observation):
                pack(said.payload)
                assert said.command_id is None, (seed, message)
                if said.type == EventType.DELEGATION_REQUESTED:
                    assert said.payload["delegation_id"] in ids_in(message), (seed, message)
            elif isinstance(said, Send):
                assert all(sent.encode() for sent in said.messages), (seed, message)
        assert codec.pending == ()


def test_the_ledger_keeps_no_more_calls_than_it_may() -> None:
    ledger = Ledger()
    for number in range(3 * MAX_CALLS):
        assert ledger.opened(f"a{number}", "f")
        assert ledger.ended(f"a{number}")
    assert sum(ledger.knows(f"a{number}") for number in range(3 * MAX_CALLS)) == MAX_CALLS
    taken = [ledger.opened(f"b{number}", "f") for number in range(MAX_CALLS + 10)]
    assert taken == [True] * MAX_CALLS + [False] * 10
