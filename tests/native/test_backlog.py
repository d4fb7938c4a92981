"""What a stall piled up before the input pump is caught up with, and no faster than twice media rate."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from parlora.audio.pump import InputPump, OutputPump, PumpEventKind
from parlora.audio.ring import RingSpec, Verdict, now_us
from tests.native.pumping import FRAME_US, PATIENCE_US, SOURCE, Rig, number_of, numbered, rig

ROOMY = RingSpec(max_bytes=96_000, max_age_ms=0, max_frame_bytes=4_800)
BACKLOG = 30
SHALLOW = 3
"""Frames in the queue of a caller who is heard without delay: one on its way, and what CATCH_UP_MS lets wait."""


@contextmanager
def speaking(r: Rig, first: int) -> Iterator[None]:
    """A caller who goes on speaking at media rate, on a clock of its own."""
    over = threading.Event()

    def speak() -> None:
        begun = now_us()
        number = 0
        while not over.wait(max(0, begun + number * FRAME_US - now_us()) / 1e6):
            assert r.writer.write(numbered(first + number), duration_us=FRAME_US) is Verdict.OK
            number += 1

    thread = threading.Thread(target=speak)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def read_until_shallow(r: Rig) -> list[int]:
    """Take what is forwarded until hardly anything waits in the capture queue."""
    deadline = now_us() + PATIENCE_US
    heard: list[int] = []
    while r.source.stats().queued.frames > SHALLOW:
        assert now_us() < deadline, f"{r.source.stats().queued.frames} frames still wait"
        heard += [number_of(data) for _, data in r.reader.receive(ROOMY.max_bytes, now_us() + FRAME_US)]
    return heard


def test_a_backlog_of_captured_audio_is_caught_up_with_while_the_caller_goes_on_speaking() -> None:
    with rig(InputPump, paced=True, source=SOURCE, sink=ROOMY) as r:
        for number in range(BACKLOG):
            assert r.writer.write(numbered(number), duration_us=FRAME_US) is Verdict.OK
        r.pump.go(drain=False)
        with speaking(r, BACKLOG):
            heard = read_until_shallow(r)
        assert heard == list(range(len(heard))), "whole and in order"
        assert len(heard) > BACKLOG


def test_what_a_stall_of_the_provider_piled_up_is_caught_up_with() -> None:
    with rig(InputPump, paced=True, source=SOURCE) as r:
        r.pump.go(drain=False)
        with speaking(r, 0):
            while r.source.stats().queued.frames < BACKLOG:  # nobody reads: 200 ms in the sink, the rest waits here
                threading.Event().wait(0.005)
            heard = read_until_shallow(r)
        assert heard == list(range(len(heard)))
        assert len(heard) > BACKLOG


def test_catching_up_is_no_faster_than_twice_media_rate() -> None:
    with rig(InputPump, paced=True, source=SOURCE, sink=ROOMY) as r:
        for number in range(BACKLOG):
            assert r.writer.write(numbered(number), duration_us=FRAME_US) is Verdict.OK
        r.pump.go(drain=False)
        started = r.wait_for(PumpEventKind.STARTED)
        for number, header in enumerate(r.headers(BACKLOG)):
            assert header.admitted_us >= started.at_us + number * FRAME_US // 2


def test_generated_audio_is_never_hurried_however_long_it_waited() -> None:
    with rig(OutputPump, paced=True, source=SOURCE, sink=ROOMY) as r:
        for number in range(BACKLOG):
            assert r.writer.write(numbered(number), duration_us=FRAME_US) is Verdict.OK
        r.pump.go()
        started = r.wait_for(PumpEventKind.STARTED)
        for number, header in enumerate(r.headers(BACKLOG)):
            assert header.admitted_us >= started.at_us + number * FRAME_US
