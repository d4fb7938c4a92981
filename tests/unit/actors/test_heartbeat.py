"""Silence is death only if nobody else explains it: neither a supervisor that slept nor a processor that was taken."""

from collections.abc import Callable

from parlora_actors.heartbeat import Beat, Heartbeat
from parlora_actors.procfs import Scheduling
from parlora_actors.timing import HEARTBEAT_US

TIMEOUT_US = 2_000_000


def idle() -> Scheduling:
    return Scheduling(ran_us=10, waited_us=10, is_runnable=False)


def beating(look: Callable[[], Scheduling | None] = idle) -> Heartbeat:
    return Heartbeat(TIMEOUT_US, look)


def looks_until_silent(heartbeat: Heartbeat, since_us: int = HEARTBEAT_US, most: int = 100) -> int:
    assert heartbeat.look_again(since_us) is Beat.PING
    return next((n for n in range(1, most) if heartbeat.look_again(since_us) is Beat.SILENT), 0)


def test_a_silent_process_is_found_after_the_timeout_and_not_before() -> None:
    assert looks_until_silent(beating()) == TIMEOUT_US // HEARTBEAT_US


def test_an_answer_starts_the_count_anew() -> None:
    heartbeat = beating()
    for _ in range(20):
        assert heartbeat.look_again(HEARTBEAT_US) is Beat.PING
        for _ in range(3):
            assert heartbeat.look_again(HEARTBEAT_US) is Beat.WAIT
        heartbeat.heard()


def test_a_supervisor_that_slept_for_an_hour_has_heard_nothing_for_half_a_second_only() -> None:
    heartbeat = beating()
    assert heartbeat.look_again(HEARTBEAT_US) is Beat.PING
    assert heartbeat.look_again(3_600_000_000) is Beat.WAIT
    assert heartbeat.silent_us == HEARTBEAT_US


def test_a_process_that_waits_for_a_processor_is_not_dead() -> None:
    waiting = Scheduling(ran_us=10, waited_us=10, is_runnable=True)
    assert looks_until_silent(beating(lambda: waiting)) == 0


def test_time_that_others_had_the_processor_is_taken_off_but_its_own_is_not() -> None:
    """It runs half of the time, and never answers."""
    half_us = 0
    heartbeat = beating(lambda: Scheduling(ran_us=half_us, waited_us=half_us, is_runnable=True))
    assert heartbeat.look_again(HEARTBEAT_US) is Beat.PING
    looks = 0
    while heartbeat.look_again(HEARTBEAT_US) is not Beat.SILENT:
        looks += 1
        half_us += HEARTBEAT_US // 2
        assert looks < 100
    assert looks > TIMEOUT_US // HEARTBEAT_US


def test_without_the_kernels_word_silence_counts_in_full() -> None:
    assert looks_until_silent(beating(lambda: None)) == TIMEOUT_US // HEARTBEAT_US
