"""A Gemini that misbehaves in every way a fake can: one clear end, in time, with nothing left of it."""

import gc
import json
import os
import struct
import threading
import time
from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.errors import ParloraError
from parlora.limits import Limits
from parlora.providers.gemini import Gemini
from parlora.testing.adapters import AdapterHarness
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.gemini import FakeGemini
from parlora.testing.providers.gemini_session import Step
from parlora.testing.providers.websocket import CLOSE, Peer, WebSocketServer
from tests.providers.gemini_calls import QuickGemini
from tests.providers.openai_calls import KEY, KEY_ENV, calling, until

PCM = AudioFormat.pcm16()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


def talking(fake: FakeGemini, **more: Any) -> Any:
    return calling(fake, **{"adapter": QuickGemini, **more})


@pytest.mark.parametrize(
    ("fault", "reason", "code"),
    [
        (Fault(FaultKind.SILENT, 100), "silent", None),
        (Fault(FaultKind.HALF_FRAME, 100), "silent", None),
        (Fault(FaultKind.NO_CLOSE_FRAME, 100), "lost", None),
        (Fault(FaultKind.RESET, 100), "lost", None),
        (Fault(FaultKind.HUGE_MESSAGE, 100), "too_large", None),
        *(
            (Fault(FaultKind.CLOSE_CODE, 100, code=code), "closed_by_service", code)
            for code in (1000, 1007, 1008, 1011, 4001)
        ),
    ],
    ids=lambda value: f"{value.kind}-{value.code}" if isinstance(value, Fault) else None,
)
def test_a_service_lost_without_a_handle_fails_the_call_by_name_and_close_still_answers(
    fault: Fault, reason: str, code: int | None
) -> None:
    # a quick watchdog would bite while a busy machine makes the huge message
    adapter = QuickGemini if reason == "silent" else Gemini
    with FakeGemini(faults=[fault], resumable=False) as fake, talking(fake, adapter=adapter) as call:
        error = call.wait_for("failed").payload["error"]
        assert error["details"] == {"reason": reason, "code": code}
        began = time.monotonic()
        assert call.close_adapter().payload["finalization_observed"] is False
        assert time.monotonic() - began < 2
        assert len(call.sink.events("failed")) == 1


def test_what_the_service_says_at_the_end_is_told_without_the_key_it_may_repeat() -> None:
    def serve(peer: Peer) -> None:
        peer.send(struct.pack("!H", 1008) + f"bad\nkey {KEY} given".encode(), CLOSE)
        peer.receive(2)

    with WebSocketServer(serve) as server:
        adapter = QuickGemini(api_key_env=KEY_ENV, url=f"ws://127.0.0.1:{server.port}/")
        with AdapterHarness(adapter) as harness, pytest.raises(ParloraError) as failed:
            harness.start()
    assert str(failed.value).endswith("with code 1008: bad key [hidden] given")
    assert KEY not in json.dumps(failed.value.to_data())


def test_a_storm_of_interruptions_leaves_one_barrier_and_no_queue() -> None:
    script = [
        step
        for round in range(40)
        for step in (Step(100 + 10 * round, "assistant", "one two"), Step(105 + 10 * round, "interrupt"))
    ]
    with FakeGemini([*script, Step(600, "assistant", "done")]) as fake, talking(fake, adapter=Gemini) as call:
        last = call.wait_for("output_interrupted", nth=40).payload["token"]
        until("the last answer", lambda: call.sink.events("transcript_delta")[-1].payload["delta"] == "done")
        call.call("resume_output", last)
        packet = PCM.bytes_for_us(250_000)
        until("the last answer's sound", lambda: len(call.heard.data) == 3 * packet)

        def lost() -> int:
            return sum(event.payload["dropped_bytes"] for event in call.sink.events("audio_discontinuity"))

        until("the rest, told as lost", lambda: lost() == 39 * 2 * packet)


def test_connecting_and_closing_leaves_threads_descriptors_and_memory_flat() -> None:
    """Twenty rounds over every way to end; the first few warm up what is kept once."""
    faults = [None, FaultKind.NO_CLOSE_FRAME, FaultKind.RESET, FaultKind.CLOSE_CODE, FaultKind.SILENT]
    limits = Limits(shutdown_timeout_ms=400)
    counts = []
    for round in range(20):
        kind = faults[round % len(faults)]
        chosen = [] if kind is None else [Fault(kind, at_ms=0, connections=(1,))]
        with FakeGemini(faults=chosen) as fake, talking(fake, limits=limits) as call:
            if kind in (FaultKind.NO_CLOSE_FRAME, FaultKind.RESET, FaultKind.CLOSE_CODE):
                call.wait_for("provider_connection", nth=2)
            call.close_adapter()
        until("the threads of the call", lambda: not _ours())
        gc.collect()
        counts.append((threading.active_count(), len(os.listdir("/proc/self/fd"))))
    assert counts[5:] == [counts[5]] * 15


def _ours() -> list[str]:
    names = ("cloud-", "fake-")
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(names)]
