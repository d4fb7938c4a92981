"""The harness and its ports behave as owners and rings do."""

import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss, WriteResult
from parlora.contract.adapter import AdapterInit, ClosePolicy
from parlora.contract.backend import Backend, BackendRequest
from parlora.errors import Closed, InvalidArgument, Timeout
from parlora.testing.adapters import AdapterHarness, RecordingSink, backend_request
from parlora.testing.ports import MemoryPort

PCM = AudioFormat.pcm16()


def port() -> MemoryPort:
    return MemoryPort(PCM, capacity_bytes=20, max_frame_bytes=8)


def test_a_frame_is_taken_whole_or_refused_with_the_reason() -> None:
    queue = port()

    assert queue.write(bytes(10)) is WriteResult.TOO_BIG
    assert [queue.write(bytes(8)) for _ in range(3)] == [WriteResult.OK, WriteResult.OK, WriteResult.BACKPRESSURE]
    queue.clear(2)
    assert queue.write(bytes(8), epoch=1) is WriteResult.STALE_EPOCH
    with pytest.raises(InvalidArgument):
        queue.write(b"\x00")


def test_a_clear_counts_what_it_dropped_and_never_goes_back() -> None:
    queue = port()
    queue.write(bytes(8))
    queue.write(bytes(4), epoch=5)

    assert queue.clear(5) == Loss(1, 8, PCM.duration_us(8))
    assert queue.clear(3) == Loss()
    assert queue.epoch == 5
    assert [len(frame.data) for frame in queue.read(8)] == [4]


@given(st.lists(st.integers(1, 4).map(lambda n: 2 * n), max_size=12), st.integers(8, 30))
def test_what_is_read_is_what_was_written(sizes: list[int], room: int) -> None:
    queue = port()
    taken = [size for size in sizes if queue.write(bytes(size)) is WriteResult.OK]
    read: list[int] = []
    while got := queue.read(room):
        assert sum(len(frame.data) for frame in got) <= room
        read += [len(frame.data) for frame in got]

    assert read == taken
    assert queue.status().queued_bytes == 0


def test_a_waiting_reader_is_woken_by_a_frame_and_by_the_end() -> None:
    queue = port()
    far_us = time.monotonic_ns() // 1_000 + 5_000_000
    threading.Timer(0.01, lambda: queue.write(bytes(2))).start()
    assert queue.wait(far_us)
    queue.read(8)
    threading.Timer(0.01, queue.close).start()
    assert queue.wait(far_us)
    with pytest.raises(Closed):
        queue.read(8)


def test_a_wait_for_an_event_is_bounded_and_says_what_came() -> None:
    sink = RecordingSink("backend", "s", "a")
    sink.emit("ready")
    with pytest.raises(Timeout, match="there came ready"):
        sink.wait_for("closed", timeout_ms=10)


def test_an_event_must_be_plain_data() -> None:
    sink = RecordingSink("backend", "s", "a")
    with pytest.raises(InvalidArgument):
        sink.emit("extension", {"what": threading.Lock()})


class Slow(Backend):
    """Returns from `submit` only when the test lets it."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def start(self, init: AdapterInit) -> None:
        self.sink = init.event_sink
        init.event_sink.emit("ready")

    def submit(self, request: BackendRequest, command_id: str) -> None:
        self.go.wait(10)

    def close(self, policy: ClosePolicy, command_id: str) -> None:
        self.sink.emit("closed")


def test_a_callback_beyond_its_time_fails_the_test_that_called_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parlora.testing.adapters.CALL_TIMEOUT_MS", 50)
    slow = Slow()
    with AdapterHarness(slow) as harness:
        harness.start()
        with pytest.raises(Timeout, match="submit took longer than 50 ms"):
            harness.call("submit", backend_request("r1"), "c1")
        slow.go.set()


class Async(Slow):
    async def submit(self, request: BackendRequest, command_id: str) -> None:  # type: ignore[override]
        self.sink.emit("request_started", {"thread": threading.current_thread().name}, request_id=request.id)


def test_an_adapter_written_with_async_def_runs_on_one_loop() -> None:
    with AdapterHarness(Async()) as harness:
        harness.start()
        harness.call("submit", backend_request("r1"), "c1")

        payload: dict[str, Any] = harness.wait_for("request_started").payload
        assert payload == {"thread": "adapter-loop"}
