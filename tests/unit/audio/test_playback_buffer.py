"""The jitter control against the formulas of the spec, on virtual time."""

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parlora.audio.frame import Clock
from parlora.audio.lateness import FALL_US, IDLE_US, WINDOW_US, LatenessTracker
from parlora.audio.playback_buffer import Buffering, Phase, PlaybackBuffer, PlaybackOptions
from parlora.errors import InvalidArgument

MS = 1_000
QUEUES = st.integers(20, 2_000).map(lambda ms: ms * MS)
OPTIONS = st.builds(PlaybackOptions, st.sampled_from(list(Buffering)), st.integers(0, 300), st.integers(0, 200))
SHORTAGES = st.integers(1, IDLE_US - 1)


def starved(buffer: PlaybackBuffer, at_us: int = 0) -> int:
    """Play a little and run dry; returns when."""
    buffer.received(at_us, 20 * MS)
    while not buffer.may_play(at_us, 20 * MS):
        at_us += 10 * MS
    assert not buffer.may_play(at_us + 20 * MS, 0)
    assert buffer.phase is Phase.STARVED
    return at_us + 20 * MS


@pytest.mark.row("PB-02", "PB-15")
def test_the_defaults_are_adaptive_120_and_120() -> None:
    assert PlaybackOptions() == PlaybackOptions(Buffering.ADAPTIVE, 120, 120)


@pytest.mark.row("PB-07", "PB-13")
@given(QUEUES, OPTIONS, st.integers(1, 100))
def test_startup_begins_at_the_target_or_at_its_deadline_for_a_short_tail(
    queue_us: int, options: PlaybackOptions, tail_ms: int
) -> None:
    buffer = PlaybackBuffer(queue_us, options)
    target = min(options.playback_buffer_ms * MS, queue_us)
    buffer.received(0, tail_ms * MS)
    assert buffer.may_play(0, tail_ms * MS) == (tail_ms * MS >= target)
    if tail_ms * MS < target:
        assert not buffer.may_play(target - 1, tail_ms * MS)
        assert buffer.may_play(target, tail_ms * MS)


@pytest.mark.row("PB-08", "PB-09", "PB-12", "PB-13", "PB-23", "PB-24", "PR-08")
@given(QUEUES, OPTIONS, SHORTAGES, st.integers(1, 400))
def test_a_recovery_ends_at_target_and_settling_or_at_its_deadline(
    queue_us: int, options: PlaybackOptions, shortage: int, queued_ms: int
) -> None:
    buffer = PlaybackBuffer(queue_us, options)
    back = starved(buffer) + shortage
    buffer.received(back, 20 * MS)
    cap = min(options.playback_recovery_ms * MS, 200 * MS, queue_us)
    deadline = min(shortage + 20 * MS, cap)
    settling = min(max(shortage - cap, 0), cap // 2)
    if cap == 0:
        assert buffer.may_play(back, 1)
        return
    assert buffer.phase is Phase.RECOVERING
    assert (buffer.deadline_us, buffer.settling_us) == (deadline, settling)
    queued = queued_ms * MS
    release = settling if queued >= buffer.target_us else deadline
    release = min(release, deadline)
    if release > 0:
        assert not buffer.may_play(back + release - 1, queued)
    assert buffer.may_play(back + release, queued)
    if shortage <= cap:
        assert buffer.settling_us == 0


@pytest.mark.row("PB-11", "PB-03")
@given(QUEUES, st.integers(0, 300), st.integers(1, 200), SHORTAGES)
def test_a_fixed_recovery_refills_the_shortage_within_twice_the_cushion(
    queue_us: int, buffer_ms: int, recovery_ms: int, shortage: int
) -> None:
    buffer = PlaybackBuffer(queue_us, PlaybackOptions(Buffering.FIXED, buffer_ms, recovery_ms))
    cushion = min(buffer_ms * MS, queue_us)
    buffer.received(starved(buffer) + shortage, 20 * MS)
    assert buffer.target_us == min(shortage + 20 * MS, 2 * min(100 * MS, cushion, queue_us), queue_us)
    assert buffer.learned_us == cushion


@pytest.mark.row("PB-10", "PB-22")
@given(QUEUES, st.integers(1, 200), st.lists(SHORTAGES, min_size=1, max_size=4))
def test_an_adaptive_recovery_refills_the_latest_shortage_within_the_latched_target(
    queue_us: int, recovery_ms: int, shortages: list[int]
) -> None:
    buffer = PlaybackBuffer(queue_us, PlaybackOptions(Buffering.ADAPTIVE, 60, recovery_ms))
    floor = min(60 * MS, queue_us)
    at = 0
    for shortage in shortages:
        back = starved(buffer, at) + shortage
        buffer.received(back, 20 * MS)
        wanted = shortage + 20 * MS + buffer.learned_us - floor
        assert buffer.target_us == min(wanted, buffer.latched_us, queue_us)
        at = back


@pytest.mark.row("PB-14", "PR-03", "PR-04")
@given(SHORTAGES)
def test_upstream_pressure_ends_a_recovery_and_nothing_else(shortage: int) -> None:
    buffer = PlaybackBuffer(1_000 * MS)
    buffer.received(0, 20 * MS)
    buffer.release_recovery()
    assert not buffer.may_play(0, 20 * MS)
    buffer = PlaybackBuffer(1_000 * MS)
    back = starved(buffer) + shortage
    buffer.received(back, 1)
    buffer.release_recovery()
    buffer.release_recovery()
    assert buffer.may_play(back, 1)


@pytest.mark.row("PB-17")
def test_a_source_that_paused_starts_anew_and_is_not_late() -> None:
    buffer = PlaybackBuffer(1_000 * MS)
    dry = starved(buffer)
    buffer.received(dry + IDLE_US, 20 * MS)
    assert buffer.phase is Phase.STARTING
    assert buffer.learned_us == 120 * MS


@pytest.mark.row("EP-15")
def test_a_clear_restarts_timing_and_keeps_what_was_learned() -> None:
    buffer = PlaybackBuffer(1_000 * MS)
    buffer.received(0, 20 * MS)
    buffer.received(60 * MS, 20 * MS)
    learned = buffer.learned_us
    assert learned == 160 * MS
    buffer.restart()
    assert buffer.phase is Phase.IDLE
    buffer.received(900 * MS, 20 * MS)
    assert (buffer.phase, buffer.latched_us) == (Phase.STARTING, learned)


@pytest.mark.row("PB-06")
def test_a_new_target_waits_for_the_next_boundary() -> None:
    buffer = PlaybackBuffer(1_000 * MS)
    buffer.received(0, 20 * MS)
    buffer.received(60 * MS, 20 * MS)
    assert (buffer.latched_us, buffer.learned_us) == (120 * MS, 160 * MS)


def feed(tracker: LatenessTracker, packets: Iterable[tuple[int, int]]) -> list[int]:
    targets = []
    for at_us, duration_us in packets:
        tracker.received(at_us, duration_us, "output", Clock.LOCAL_MONOTONIC)
        targets.append(tracker.target_us)
    return targets


@pytest.mark.row("PB-02", "PB-04", "PB-05")
@given(
    st.integers(0, 200).map(lambda ms: ms * MS),
    st.integers(0, 200).map(lambda ms: ms * MS),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60)), min_size=1, max_size=400),
)
def test_a_target_stays_in_bounds_rises_at_once_and_falls_slowly(
    floor: int, ceiling: int, gaps: list[tuple[int, int]]
) -> None:
    tracker = LatenessTracker(floor, ceiling)
    at = media = fallen = 0
    for gap_ms, duration_ms in gaps:
        at += gap_ms * MS
        before = tracker.target_us
        late = tracker.received(at, duration_ms * MS, "output", Clock.LOCAL_MONOTONIC)
        media += duration_ms * MS
        assert floor <= tracker.target_us <= max(floor, ceiling)
        assert tracker.target_us >= min(floor + late, max(floor, ceiling))
        fallen += max(0, before - tracker.target_us)
        assert fallen <= media // WINDOW_US * FALL_US
        assert len(tracker._recent) <= WINDOW_US // 100_000 + 1


@pytest.mark.row("PB-05")
def test_ten_seconds_of_stable_media_after_the_window_lower_the_target_by_20_ms() -> None:
    tracker = LatenessTracker(100 * MS, 200 * MS)
    feed(tracker, [(0, 20 * MS), (80 * MS, 80 * MS)])
    assert tracker.target_us == 160 * MS
    targets = feed(tracker, [(100 * MS + n * 20 * MS, 20 * MS) for n in range(1, 801)])
    assert targets[-1] == 160 * MS - 2 * FALL_US
    assert all(a - b in (0, FALL_US) for a, b in itertools.pairwise(targets))


@pytest.mark.row("PB-17")
@pytest.mark.parametrize(("stream", "clock"), [("other", Clock.LOCAL_MONOTONIC), ("output", Clock.SOURCE)])
def test_another_stream_or_clock_restarts_the_baseline(stream: str, clock: Clock) -> None:
    tracker = LatenessTracker(0, 200 * MS)
    tracker.received(0, 20 * MS, "output", Clock.LOCAL_MONOTONIC)
    assert tracker.received(500 * MS, 20 * MS, stream, clock) == 0
    assert tracker.target_us == 0


@pytest.mark.row("LM-23")
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("playback_recovery_ms", 201),
        ("playback_recovery_ms", -1),
        ("playback_buffer_ms", 1.5),
        ("playback_buffer_ms", True),
        ("playback_buffering", "sometimes"),
    ],
)
def test_an_option_out_of_range_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(InvalidArgument) as refused:
        PlaybackBuffer(200 * MS, PlaybackOptions(**{option: value}))
    assert refused.value.details["field"] == option


@pytest.mark.row("PB-16")
@given(
    QUEUES,
    OPTIONS,
    st.lists(st.tuples(st.integers(0, 1_500), st.integers(1, 5)), min_size=1, max_size=30),
    st.integers(0, 30),
)
def test_whatever_the_source_does_every_frame_is_played_once_at_its_own_rate(
    queue_us: int, options: PlaybackOptions, packets: list[tuple[int, int]], released: int
) -> None:
    """A channel that follows it plays one frame or silence each 20 ms: nothing is skipped, repeated or stuck."""
    buffer = PlaybackBuffer(queue_us, options)
    arrivals, at_us = [], 0
    for pause_ms, frames in packets:
        at_us += pause_ms * MS
        arrivals.append((at_us, frames))
    queue: list[int] = []
    played: list[int] = []
    entered = 0
    for tick in range(at_us // (20 * MS) + 20 * len(packets) + 2_000):
        now = tick * 20 * MS
        while arrivals and arrivals[0][0] <= now:
            received_us, frames = arrivals.pop(0)
            queue += range(entered, entered + frames)
            entered += frames
            buffer.received(received_us, frames * 20 * MS)
        if tick == released:
            buffer.release_recovery()
        if buffer.may_play(now, len(queue) * 20 * MS):
            played.append(queue.pop(0))
    assert played == list(range(entered))
