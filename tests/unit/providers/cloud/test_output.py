"""Generated audio: packets whole or not at all, and every byte accounted for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.audio.format import AudioFormat, Encoding
from parlora.audio.port import Loss
from parlora.providers.cloud.output import Output
from parlora.providers.cloud.trace import TRACE_ENTRIES, ReceiveTrace
from parlora.testing.ports import MemoryPort

PCM = AudioFormat.pcm16()
CAPACITY = 4_800


def make(capacity: int = CAPACITY, wire: AudioFormat = PCM, format: AudioFormat = PCM) -> tuple[Output, MemoryPort]:
    port = MemoryPort(format, capacity, format.bytes_for_us(100_000))
    return Output(port, format, format.bytes_for_us(100_000), wire), port


def drain(port: MemoryPort) -> bytes:
    return b"".join(frame.data for frame in port.read(1_000_000))


def begun() -> tuple[Output, MemoryPort]:
    """The session has begun: something was read."""
    output, port = make()
    assert output.offer(b"\1\0") is None
    drain(port)
    assert output.offer(b"\1\0") is None
    drain(port)
    return output, port


STEPS = st.lists(
    st.tuples(st.sampled_from(["offer", "read", "hold", "release", "discard", "resume"]), st.integers(1, 3_000))
)


@pytest.mark.row("AU-13", "AU-24")
@given(STEPS)
def test_each_byte_is_written_held_or_told_and_no_packet_is_torn(steps: list[tuple[str, int]]) -> None:
    output, port = begun()
    offered, read, lost = 0, b"", Loss()
    for number, (step, size) in enumerate(steps):
        overload = None
        if step == "offer":
            packet = bytes([number % 251 + 1]) * (2 * size)
            offered += len(packet)
            overload = output.offer(packet)
        elif step == "read":
            read += drain(port)
        else:
            overload = getattr(output, step)()
        if overload is not None:
            lost += overload.loss
        assert port.status().queued_bytes <= CAPACITY
    for _, loss in output.take_discarded():
        lost += loss
    read += drain(port)
    assert len(read) + output._held_bytes + lost.bytes == offered
    assert lost.duration_us == pytest.approx(PCM.duration_us(lost.bytes), abs=len(steps))


@pytest.mark.row("PC-20", "PC-21", "PC-22", "LM-22")
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 500)), min_size=1, max_size=300))
def test_the_diagnostics_are_numbers_and_bounded(steps: list[tuple[bool, int]]) -> None:
    output, port = begun()
    for is_read, size in steps:
        if is_read:
            drain(port)
        else:
            output.offer(bytes(2 * size))
    numbers = output.diagnostics()
    assert set(numbers) == {
        "queued_bytes", "incoming_bytes", "discarded_bytes", "capacity_bytes", "oldest_age_us", "trace",
    }  # fmt: skip
    assert len(numbers["trace"]) <= TRACE_ENTRIES
    assert all(_is_plain(entry) for entry in numbers["trace"])
    assert (numbers["oldest_age_us"] == 0) == (port.status().queued_bytes == 0)


def _is_plain(entry: dict[str, Any]) -> bool:
    numbers = [value for key, value in entry.items() if key != "what"]
    return entry["what"] in ("received", "read", "refused") and all(type(value) is int for value in numbers)


def test_what_comes_before_the_session_began_is_no_overload() -> None:
    output, port = make()
    for _ in range(10):
        assert output.offer(bytes(960)) is None
    assert port.status().queued_bytes == CAPACITY
    assert output.take_discarded() == [("startup_buffer_discard", Loss(5, 4_800, 100_000))]


def test_what_comes_after_an_interruption_waits_for_the_clear_and_survives_it() -> None:
    output, port = begun()
    output.offer(b"\1\1" * 480)
    output.hold()
    output.offer(b"\2\2" * 480)
    output.hold()  # interrupted again: the response held so far was cut as well
    output.offer(b"\3\3" * 480)
    port.clear(1)
    assert output.release() is None
    assert drain(port) == b"\3\3" * 480


def test_the_tail_of_a_closed_call_is_dropped_in_silence() -> None:
    output, port = begun()
    output.close()
    assert output.offer(bytes(100_000)) is None
    assert (port.status().queued_bytes, output.take_discarded()) == (0, [])


@pytest.mark.row("PC-26")
def test_a_service_of_another_format_is_converted_to_the_sessions() -> None:
    wire = AudioFormat(Encoding.PCM16LE, 24_000)
    output, port = make(8_000, wire, AudioFormat.pcmu())
    for _ in range(5):
        output.offer(bytes(4_800))
    data = drain(port)
    assert abs(len(data) - 4_000) <= 32
    assert set(data) <= {0xFF, 0x7F}


def test_the_age_of_what_is_kept_is_that_of_the_oldest_byte() -> None:
    trace = ReceiveTrace()
    trace.received(100, 0, True, 1_000_000)
    trace.received(100, 100, True, 1_050_000)
    assert trace.oldest_age_us(1_100_000) == 100_000
    trace.saw(100, 1_100_000)
    assert trace.oldest_age_us(1_100_000) == 50_000
    trace.saw(0, 1_200_000)
    assert trace.oldest_age_us(1_200_000) == 0
    assert [entry["at_us"] for entry in trace.entries(1_200_000)] == [-200_000, -150_000, -100_000, 0]
