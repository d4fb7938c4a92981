"""The ports that adapters get: whose limits bound which ring, and what a look at one tells and leaves alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.port import BufferStatus, Loss, WriteResult
from parlora.audio.ring import Ring, RingSpec, now_us
from parlora.contract.channel import ChannelCapabilities, ClearScope
from parlora.errors import ParloraError
from parlora.limits import Limits
from parlora.testing.session_model import session_spec
from parlora.wire import from_data, to_data
from parlora_actors.ports import RingSink, RingSource
from parlora_actors.session_plan import Rings

FORMAT = AudioFormat.pcm16()
FRAME = bytes(960)


@pytest.fixture
def ring() -> Iterator[Ring]:
    with Ring.create(RingSpec(9_600, 0, 4_800)) as made:
        yield made


@pytest.mark.row("LM-03")
@pytest.mark.parametrize(("queue", "store"), [(4_800, 480_000), (19_200, 96_000)])
def test_one_limit_bounds_three_queues_and_another_the_store_of_generated_audio(queue: int, store: int) -> None:
    rings = Rings.create(session_spec(Limits(audio_queue_bytes=queue, provider_audio_queue_bytes=store)))
    try:
        bounds = [ring.stats().max_bytes for ring in (rings.capture, rings.uplink, rings.playback)]
        assert bounds == [queue] * 3
        assert rings.generated.stats().max_bytes == store
    finally:
        for ring in (rings.capture, rings.uplink, rings.generated, rings.playback):
            ring.close()


@pytest.mark.row("PR-01", "PR-02")
def test_a_look_at_the_store_tells_bytes_and_bound_and_takes_nothing(ring: Ring) -> None:
    sink, source = RingSink(ring, FORMAT), RingSource(ring, FORMAT)
    assert sink.status() == BufferStatus(0, 9_600)
    for number in range(3):
        assert sink.write(FRAME) is WriteResult.OK
        assert sink.status() == sink.status() == BufferStatus((number + 1) * 960, 9_600)
    assert len(source.read(9_600)) == 3
    assert sink.status() == BufferStatus(0, 9_600)


@pytest.mark.row("PR-01")
def test_a_look_at_a_store_that_is_gone_is_an_error(ring: Ring) -> None:
    sink = RingSink(ring, FORMAT)
    ring.close()
    with pytest.raises(ParloraError):
        sink.status()


@pytest.mark.row("AU-15")
def test_a_frame_without_a_time_gets_that_of_its_receipt(ring: Ring) -> None:
    sink, source = RingSink(ring, FORMAT), RingSource(ring, FORMAT)
    before = now_us()
    sink.write(FRAME)
    after = now_us()
    (frame,) = source.read(9_600)
    assert before <= frame.timestamp_us <= after


@pytest.mark.row("EP-03")
def test_a_clear_answers_for_what_a_read_dropped_before_it(ring: Ring) -> None:
    sink, source = RingSink(ring, FORMAT), RingSource(ring, FORMAT)
    for _ in range(4):
        sink.write(FRAME)
    ring.clear(1)  # the pipeline was quicker
    assert source.read(9_600) == []
    assert sink.write(FRAME, epoch=0) is WriteResult.STALE_EPOCH
    assert source.clear(1) == Loss(4, 4 * 960, 80_000)
    assert source.clear(1) == Loss()


@pytest.mark.row("EP-19")
def test_a_clear_scope_is_one_of_three() -> None:
    assert [str(scope) for scope in ClearScope] == ["none", "parlora_buffers", "remote_buffer"]
    data = to_data(ChannelCapabilities(input_formats=(FORMAT,), output_formats=(FORMAT,)))
    assert data["clear_scope"] == "none"
    with pytest.raises(ParloraError):
        from_data({**data, "clear_scope": "everything"}, ChannelCapabilities)
