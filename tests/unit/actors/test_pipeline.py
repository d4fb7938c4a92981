from collections.abc import Callable, Iterator
from typing import Any

import pytest

from parlora.audio.format import AudioFormat
from parlora.audio.port import Loss
from parlora.audio.ring import Ring, RingSpec, RingWriter, Verdict
from parlora.contract.channel import OutputPacing
from parlora.session.roles import Role
from parlora.wire import to_data
from parlora_actors.loop import Loop
from parlora_actors.messages.pipeline import (
    FROM_PIPELINE,
    TO_PIPELINE,
    Control,
    Done,
    Drain,
    Drained,
    Lost,
    Open,
    Pressed,
    Stalled,
    Stop,
)
from parlora_actors.pipeline import InputPipeline, OutputPipeline, PipelineInit
from parlora_actors.timing import now_us
from tests.unit.actors.shells import Peer, inherited, run_until

FORMAT = AudioFormat.pcm16()
FRAME = bytes(960)


class Subject:
    """A pipeline whose loop runs in the test, between two rings of ten frames."""

    def __init__(self, role: Role, backpressure_timeout_ms: int = 200) -> None:
        self.loop = Loop()
        self.peer = Peer(self.loop, FROM_PIPELINE, TO_PIPELINE)
        self.source, self.sink = [Ring.create(RingSpec(9_600, 0, 4_800)) for _ in range(2)]
        init = PipelineInit(
            role,
            "s",
            FORMAT,
            backpressure_timeout_ms,
            self.peer.descriptor,
            inherited(self.source),
            inherited(self.sink),
        )
        cls = InputPipeline if role is Role.INPUT_PIPELINE else OutputPipeline
        self.pipeline = cls(to_data(init), self.loop)
        self._writer: RingWriter | None = None

    def write(self, frames: int) -> None:
        if self._writer is None:
            self._writer = self.source.writer()
        for _ in range(frames):
            assert self._writer.write(FRAME, duration_us=20_000) is Verdict.OK

    def forwarded(self) -> int:
        return self.sink.stats().frames_in

    def close(self) -> None:
        if self.pipeline._pump is not None:
            self.pipeline._pump.stop()
            self.pipeline._pump.join(now_us() + 5_000_000)
        self.peer.close()
        self.pipeline._link.close()
        self.loop.close()
        for ring in (self.source, self.sink):
            ring.close()


Start = Callable[..., Subject]


@pytest.fixture
def start() -> Iterator[Start]:
    subjects: list[Subject] = []

    def begin(*arguments: Any, **options: Any) -> Subject:
        subjects.append(Subject(*arguments, **options))
        return subjects[-1]

    yield begin
    for subject in subjects:
        subject.close()


@pytest.mark.row("SL-35", "SL-37")
def test_what_was_captured_before_the_drain_is_dropped_counted_and_never_forwarded(start: Start) -> None:
    subject = start(Role.INPUT_PIPELINE)
    subject.write(4)
    subject.peer.send(Drain())
    assert subject.peer.wait_for(Drained).loss == Loss(4, 4 * 960, 80_000)
    subject.write(3)
    assert subject.forwarded() == 0
    subject.peer.send(Open(OutputPacing.PIPELINE))
    run_until(subject.loop, lambda: subject.forwarded() == 3)


def test_output_written_before_opening_is_kept(start: Start) -> None:
    subject = start(Role.OUTPUT_PIPELINE)
    subject.write(3)
    subject.peer.send(Open(OutputPacing.CHANNEL))
    run_until(subject.loop, lambda: subject.forwarded() == 3)


def test_a_clear_raises_both_rings_and_counts_what_it_dropped(start: Start) -> None:
    subject = start(Role.OUTPUT_PIPELINE)
    subject.peer.send(Open(OutputPacing.PIPELINE))
    subject.write(9)
    run_until(subject.loop, lambda: subject.forwarded() > 0)
    subject.peer.send(Control("c", epoch=1))
    done = subject.peer.wait_for(Done, command_id="c")
    assert done.epoch == 1
    assert done.error is None
    assert subject.source.epoch == subject.sink.epoch == 1
    assert done.loss.frames + subject.forwarded() == 9


def test_a_clear_that_was_overtaken_is_answered_all_the_same(start: Start) -> None:
    subject = start(Role.OUTPUT_PIPELINE)
    subject.peer.send(Open(OutputPacing.PIPELINE))
    subject.peer.send(Control("newer", epoch=5))
    subject.peer.send(Control("older", epoch=4))
    assert subject.peer.wait_for(Done, command_id="newer").epoch == 5
    assert subject.peer.wait_for(Done, command_id="older").epoch == 5


def test_a_clear_before_opening_takes_effect(start: Start) -> None:
    subject = start(Role.OUTPUT_PIPELINE)
    subject.write(2)
    subject.peer.send(Control("c", epoch=3))
    assert subject.peer.wait_for(Done, command_id="c").epoch == 3
    subject.peer.send(Open(OutputPacing.CHANNEL))
    assert subject.peer.wait_for(Lost).loss.frames == 2
    assert subject.forwarded() == 0


def test_suppression_throws_away_and_reports_it_when_it_ends(start: Start) -> None:
    subject = start(Role.OUTPUT_PIPELINE)
    subject.peer.send(Control("on", suppress=True))
    subject.peer.wait_for(Done, command_id="on")
    subject.peer.send(Open(OutputPacing.CHANNEL))
    subject.write(4)
    run_until(subject.loop, lambda: subject.source.stats().queued.frames == 0)
    subject.peer.send(Control("off", suppress=False))
    assert subject.peer.wait_for(Done, command_id="off").loss.frames == 4
    subject.write(2)
    run_until(subject.loop, lambda: subject.forwarded() == 2)


def test_lasting_backpressure_is_told_with_its_length(start: Start) -> None:
    subject = start(Role.OUTPUT_PIPELINE, backpressure_timeout_ms=60)
    subject.peer.send(Open(OutputPacing.CHANNEL))
    subject.write(10)
    run_until(subject.loop, lambda: subject.forwarded() == 10)
    subject.write(1)
    assert subject.peer.wait_for(Stalled).blocked_us == 60_000
    assert subject.loop.exit_code is None


def test_the_input_pipeline_takes_no_controls(start: Start) -> None:
    subject = start(Role.INPUT_PIPELINE)
    subject.peer.send(Control("c", epoch=1))
    assert subject.peer.wait_for(Done, command_id="c").error["code"] == "unsupported"


@pytest.mark.parametrize("role", [Role.INPUT_PIPELINE, Role.OUTPUT_PIPELINE])
@pytest.mark.parametrize("opened", [False, True])
def test_a_pipeline_stops_when_asked_and_with_its_coordinator(start: Start, role: Role, opened: bool) -> None:
    for end in ("asked", "alone"):
        subject = start(role)
        if opened:
            subject.peer.send(Open(OutputPacing.PIPELINE))
        if end == "asked":
            subject.peer.send(Stop())
        else:
            subject.peer.close()
        run_until(subject.loop, lambda: subject.loop.exit_code == 0)  # noqa: B023


@pytest.mark.row("PR-06", "PR-10")
@pytest.mark.parametrize("pacing", list(OutputPacing))
def test_pressure_before_a_channel_with_its_own_clock_is_told_with_what_was_measured(
    start: Start, pacing: OutputPacing
) -> None:
    subject = start(Role.OUTPUT_PIPELINE)
    subject.peer.send(Open(pacing))
    subject.write(10)
    run_until(subject.loop, lambda: subject.forwarded() == 10)
    subject.write(5)  # half of what the source may hold, which is less than all that the sink may
    if pacing is OutputPacing.CHANNEL:
        assert subject.peer.wait_for(Pressed) == Pressed(0, 5 * 960, 9_600, 0, 4_800)
    else:
        assert subject.peer.wait_for(Stalled).epoch == 0
        assert not [message for message in subject.peer.received if isinstance(message, Pressed)]
