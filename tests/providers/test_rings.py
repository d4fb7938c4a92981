"""Generated audio through the real port of an owner: the ring between a provider and its pipeline."""

import time
from collections.abc import Iterator

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.ring import Ring, RingSpec
from parlora.audio.ring_types import now_us
from parlora.contract.provider import Provider
from parlora.limits import Limits
from parlora.providers.cloud.output import Output, Overload
from parlora.providers.openai import OpenAI
from parlora_actors.ports import RingSink

FORMATS = pytest.mark.parametrize("format", [AudioFormat.pcm16(), AudioFormat.pcmu()], ids=["pcm16", "pcmu"])


class Store:
    """A provider's store as its owner makes it, and the pipeline's end of it."""

    def __init__(self, format: AudioFormat, provider: type[Provider]) -> None:
        self.limits = Limits().resolve(format, provider.audio_limits(format))
        assert self.limits.max_frame_bytes is not None
        self.ring = Ring.create(RingSpec(format.bytes_for_us(60_000_000), 0, self.limits.max_frame_bytes))
        self.sink = RingSink(self.ring, format)
        self.sink.bound(self.limits)
        self.reader = self.ring.reader()
        self.output = Output(self.sink, format, self.limits.max_frame_bytes, format)


@pytest.fixture
def store(format: AudioFormat) -> Iterator[Store]:
    made = Store(format, OpenAI)
    yield made
    made.ring.close()


@pytest.mark.row("AU-11", "LM-06", "AU-24", "AU-25")
@FORMATS
def test_the_store_takes_two_seconds_whole_packets_only_and_gives_them_in_one_read(
    store: Store, format: AudioFormat
) -> None:
    packet = format.silence(100_000)
    capacity = format.bytes_for_us(2_000_000)
    assert store.sink.status().capacity_bytes == capacity
    store.output.offer(packet)
    assert store.reader.read_packet(capacity) is not None  # the session has begun
    for _ in range(20):
        assert store.output.offer(packet) is None
    overload = store.output.offer(packet)
    assert isinstance(overload, Overload)
    assert (overload.loss.bytes, overload.loss.duration_us) == (len(packet), 100_000)
    assert store.sink.status().queued_bytes == capacity
    got = store.reader.read_packet(capacity)
    assert got is not None
    header, frames, data = got
    assert (frames, len(data), header.duration_us) == (100, capacity, 2_000_000)
    assert store.sink.status().queued_bytes == 0


@pytest.mark.row("AU-15")
@FORMATS
def test_generated_frames_carry_the_local_time_of_receipt_and_their_place_in_the_packet(
    store: Store, format: AudioFormat
) -> None:
    before = now_us()
    store.output.offer(format.silence(100_000))
    after = now_us()
    frames = store.reader.read(format.bytes_for_us(2_000_000))
    assert len(frames) == 5
    assert before <= frames[0][0].ts_us <= after
    assert [header.ts_us - frames[0][0].ts_us for header, _ in frames] == [0, 20_000, 40_000, 60_000, 80_000]


@pytest.mark.row("PR-01", "PR-02")
@FORMATS
def test_the_level_of_the_store_is_numbers_and_looking_takes_nothing(store: Store, format: AudioFormat) -> None:
    store.output.offer(format.silence(100_000))
    levels = [store.sink.status() for _ in range(5)]
    assert {(level.queued_bytes, level.capacity_bytes) for level in levels} == {
        (format.bytes_for_us(100_000), format.bytes_for_us(2_000_000))
    }
    assert set(levels[0].__slots__) == {"queued_bytes", "capacity_bytes"}
    assert sum(len(data) for _, data in store.reader.read(format.bytes_for_us(2_000_000))) == levels[0].queued_bytes


@pytest.mark.row("AU-25")
def test_audio_that_nobody_fetched_in_time_is_an_overload_too() -> None:
    format = AudioFormat.pcm16()
    store = Store(format, OpenAI)
    store.sink.bound(Limits(provider_audio_max_age_ms=100).resolve(format, OpenAI.audio_limits(format)))
    store.output.offer(format.silence(20_000))
    store.reader.read(96_000)
    assert store.output.offer(format.silence(20_000)) is None
    deadline = time.monotonic() + 5
    overload = None
    while overload is None and time.monotonic() < deadline:
        overload = store.output.offer(format.silence(20_000))
        time.sleep(0.02)
    assert overload is not None
    assert overload.diagnostics["oldest_age_us"] >= 90_000
    assert overload.diagnostics["queued_bytes"] < overload.diagnostics["capacity_bytes"]
    store.ring.close()
