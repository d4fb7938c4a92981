"""A service that misbehaves in every way a fake can: one clear end, in time, with nothing left."""

import gc
import os
import threading
import time

import pytest

pytest.importorskip("openai", reason="pip install 'parlora[test]' brings the vendor's SDK, the oracle of this test")

from parlora.audio.format import AudioFormat
from parlora.limits import Limits
from parlora.providers.openai import OpenAI
from parlora.testing.providers.faults import Fault, FaultKind
from parlora.testing.providers.openai import FakeOpenAI
from tests.providers.openai_calls import KEY, KEY_ENV, Quick, calling, until

PCM = AudioFormat.pcm16()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, KEY)


@pytest.mark.row("PC-13")
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
            for code in (1000, 1001, 1011, 4001)
        ),
    ],
    ids=lambda value: f"{value.kind}-{value.code}" if isinstance(value, Fault) else None,
)
def test_a_lost_service_fails_the_call_by_name_and_close_still_answers(
    fault: Fault, reason: str, code: int | None
) -> None:
    # A quick watchdog would bite while a busy machine makes the huge message.
    adapter = Quick if reason == "silent" else OpenAI
    with FakeOpenAI(faults=[fault]) as fake, calling(fake, adapter=adapter) as call:
        error = call.wait_for("failed").payload["error"]
        assert error["details"] == {"reason": reason, "code": code}
        began = time.monotonic()
        closed = call.close_adapter().payload
        assert closed["finalization_observed"] is False
        assert time.monotonic() - began < 2
        assert len(call.sink.events("failed")) == 1


@pytest.mark.parametrize("kind", [FaultKind.UNKNOWN_EVENT, FaultKind.WRONG_ORDER])
def test_what_nobody_documents_is_counted_and_means_nothing(kind: FaultKind) -> None:
    with FakeOpenAI(faults=[Fault(kind, 100)]) as fake, calling(fake) as call:
        until("half a second", lambda: fake.sessions[0].audio_bytes >= PCM.bytes_for_us(500_000))
        closed = call.close_adapter().payload
        assert closed["ignored_messages"] == 3
        assert closed["finalization_observed"] is True
        assert call.heard.data.strip(b"\0") == b""
        assert not call.sink.events("delegation_requested")
        assert not call.sink.events("transcript_delta")


def test_half_a_sample_is_dropped_counted_and_shifts_nothing() -> None:
    with FakeOpenAI(faults=[Fault(FaultKind.ODD_PCM, 200)]) as fake, calling(fake) as call:
        until("what follows", lambda: len(call.heard.data) >= PCM.bytes_for_us(500_000))
        closed = call.close_adapter().payload
        assert closed["half_samples"] == 1
        sound = call.heard.data.lstrip(b"\0")
        assert sound[PCM.bytes_for_us(100_000) :].strip(b"\0") == b""  # a shift by one byte would be loud


def test_connecting_and_closing_leaves_threads_descriptors_and_memory_flat() -> None:
    """Twenty rounds over every way to end; the first few warm up what is kept once."""
    faults = [None, FaultKind.NO_CLOSE_FRAME, FaultKind.RESET, FaultKind.CLOSE_CODE, FaultKind.SILENT]
    limits = Limits(shutdown_timeout_ms=400)
    counts = []
    for round in range(20):
        kind = faults[round % len(faults)]
        chosen = [] if kind is None else [Fault(kind, at_ms=0)]
        with FakeOpenAI(faults=chosen) as fake, calling(fake, limits=limits, adapter=OpenAI) as call:
            if kind in (None, FaultKind.SILENT):
                call.close_adapter()
            else:
                call.wait_for("failed")
                call.close_adapter()
        until("the threads of the call", lambda: not _ours())
        gc.collect()
        counts.append((threading.active_count(), len(os.listdir("/proc/self/fd"))))
    assert counts[5:] == [counts[5]] * 15


def _ours() -> list[str]:
    names = ("cloud-", "fake-")
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(names)]
