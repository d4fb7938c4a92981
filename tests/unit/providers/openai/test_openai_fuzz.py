"""Random and mutated traffic: the codec never raises, never grows, and makes no id up."""

import json
import os
import random

from parlora.contract.provider import ContextKind, ContextUpdate
from parlora.events import EventType
from parlora.providers.cloud.said import Audio, Observation
from parlora.providers.openai.codec import LiveCodec

ROUNDS = int(os.environ.get("PARLORA_FUZZ_ROUNDS", "60000"))
"""A million take half a minute; the suite does some of them, others each time."""

SESSION = {"id": "live_1", "expires_at": 1_796_000_000, "status": "active", "model": "gpt-live-1"}
TRAFFIC = [
    json.dumps(message).encode()
    for message in (
        {"type": "session.started", "event_id": "e1", "client_event_id": "s", "session": SESSION},
        {"type": "session.output_audio.delta", "delta": "AAAA" * 40},
        {"type": "session.input_transcript.delta", "event_id": "e", "delta": " cake", "start_ms": 3, "end_ms": 6},
        {"type": "session.output_transcript.delta", "event_id": "e", "delta": "yes", "start_ms": 3, "end_ms": 6},
        {
            "type": "session.delegation.created",
            "event_id": "e",
            "offset_ms": 38,
            "delegation": {"id": "item_a", "type": "delegation", "target": "client"},
        },
        {"type": "session.commentary.appended", "event_id": "e", "client_event_id": "c1", "start_ms": 1, "end_ms": 2},
        {"type": "session.thinking.appended", "event_id": "e", "start_ms": 1, "end_ms": 2},
        {"type": "session.input_audio.muted", "event_id": "e", "client_event_id": "m1"},
        {
            "type": "session.usage.updated",
            "event_id": "e",
            "usage": {"seconds": 15},
            "context_window": {"usage_ratio": 0.1},
        },
        {
            "type": "error",
            "event_id": "e",
            "error": {"type": "x", "code": "y", "message": "m", "client_event_id": "c2"},
        },
        {"type": "info", "code": "notice", "message": "m"},
    )
]
OURS = {"c1", "c2", "c3", "m1"}
NAMED = {
    EventType.CONTEXT_ACKNOWLEDGED, EventType.CONTEXT_REJECTED, EventType.CONTROL_COMPLETED, EventType.CONTROL_FAILED,
}  # fmt: skip


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


def test_no_traffic_makes_the_codec_raise_grow_or_invent() -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    known = {"item_a"}
    codec = LiveCodec("s")
    for number in range(ROUNDS):
        if number % 1_000 == 0:
            codec = LiveCodec("s")
            codec.receive(TRAFFIC[0])
            for command_id, kind in zip(("c1", "c2", "c3"), ContextKind, strict=True):
                codec.append(ContextUpdate(kind, "x"), command_id)
            codec.mute(True, "m1")
        message = mutated(chance)
        for said in codec.receive(message):
            if isinstance(said, Audio):
                assert said.data, seed
            elif isinstance(said, Observation):
                json.dumps(said.payload)
                assert (said.command_id in OURS) == (said.type in NAMED), (seed, message)
                if said.type == EventType.DELEGATION_REQUESTED and said.payload["delegation_id"] not in known:
                    assert said.payload["delegation_id"] in json.loads(message)["delegation"]["id"], (seed, message)
        assert set(codec.pending) <= OURS
