"""The resampler: rates, continuity, pass band, stop band and delay."""

from __future__ import annotations

import numpy as np
import pytest

from parlora.audio.resample import Resampler
from parlora.errors import InvalidArgument

RATES = [(24_000, 16_000), (16_000, 24_000), (24_000, 8_000), (8_000, 24_000), (22_050, 24_000), (24_000, 22_050)]


def tone(hz: float, rate: int, seconds: float = 0.5, level: float = 10_000.0) -> np.ndarray:
    times = np.arange(int(rate * seconds)) / rate
    return np.round(level * np.sin(2 * np.pi * hz * times)).astype(np.int16)


def settled_level(data: bytes, rate: int) -> float:
    samples = np.frombuffer(data, np.int16).astype(float)
    return float(np.sqrt(2 * np.mean(samples[rate // 20 : -rate // 20] ** 2)))


@pytest.mark.parametrize(("source", "target"), RATES)
def test_pieces_of_any_size_give_the_same_stream_as_one_piece(source: int, target: int) -> None:
    speech = tone(440, source) + tone(1_234, source)
    whole = Resampler(source, target).process(speech)
    pieces, start = b"", 0
    resampler = Resampler(source, target)
    for size in [1, 2, 3, 480, 7, 1_000, 2_049, len(speech)]:
        pieces += resampler.process(speech[start : start + size].tobytes())
        start += size
    assert pieces == whole
    assert len(whole) // 2 == -(-len(speech) * target // source)


@pytest.mark.parametrize(("source", "target"), RATES)
@pytest.mark.parametrize("hz", [100, 1_000, 3_000])
def test_speech_passes_at_its_level(source: int, target: int, hz: int) -> None:
    got = settled_level(Resampler(source, target).process(tone(hz, source)), target)
    assert abs(20 * np.log10(got / 10_000)) < 0.2


@pytest.mark.parametrize(("source", "target", "hz"), [(24_000, 8_000, 5_000), (24_000, 16_000, 9_000)])
def test_what_would_fold_back_is_60_db_down(source: int, target: int, hz: int) -> None:
    assert settled_level(Resampler(source, target).process(tone(hz, source)), target) < 10


@pytest.mark.parametrize(("source", "target"), RATES)
def test_a_click_leaves_after_the_stated_delay_of_at_most_3_ms(source: int, target: int) -> None:
    resampler = Resampler(source, target)
    click = np.zeros(source // 10, np.int16)
    click[source // 20] = 20_000
    got = np.abs(np.frombuffer(resampler.process(click), np.int16).astype(int))
    late_us = int(got.argmax()) * 1_000_000 / target - 50_000
    assert abs(late_us - resampler.delay_us) <= 2_000_000 / min(source, target)
    assert resampler.delay_us <= 3_000


def test_flush_gives_the_end_and_starts_anew() -> None:
    resampler = Resampler(8_000, 24_000)
    speech = tone(500, 8_000, 0.1)
    first = resampler.process(speech) + resampler.flush()
    assert resampler.process(speech) + resampler.flush() == first
    assert np.abs(np.frombuffer(first, np.int16)[-30:]).max() > 0


def test_loud_speech_clips_instead_of_wrapping() -> None:
    square = np.where(tone(300, 24_000) >= 0, 32_767, -32_768).astype(np.int16)
    got = np.frombuffer(Resampler(24_000, 16_000).process(square), np.int16)
    assert (np.abs(np.diff(got.astype(int))) < 60_000).all()


def test_equal_rates_pass_through_and_silence_stays_silence() -> None:
    assert Resampler(24_000, 24_000).process(tone(440, 24_000)) == tone(440, 24_000).tobytes()
    assert not any(Resampler(24_000, 8_000).process(bytes(9_600)))


@pytest.mark.parametrize(("source", "target"), [(0, 8_000), (8_000, -1), (24_000, 1_000), (24_001, 8_000)])
def test_rates_without_a_small_ratio_are_refused(source: int, target: int) -> None:
    with pytest.raises(InvalidArgument):
        Resampler(source, target)


def test_half_a_sample_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        Resampler(24_000, 8_000).process(b"\0")
