"""The scripted caller on virtual time: when clips are released, and when it hangs up or gives up."""

from hypothesis import given
from hypothesis import strategies as st

from parlora.channels.wav.script import (
    UTTERANCE_GAP_MS,
    AssistantMeter,
    Clip,
    ClipEnded,
    ClipStarted,
    GaveUp,
    HungUp,
    Release,
    ScriptedCaller,
    Step,
)

SILENCE = b"\0" * 4  # a frame of 20 ms, for short
SPOKEN = b"\1" * 4


class Scene:
    """A caller, and what the assistant says frame by frame: x is loud, anything else silence."""

    def __init__(self, *releases: Release, length: int = 5, hang_up: Release | None = None, patience_ms: int = 60_000):
        clips = [Clip(SPOKEN * length, release) for release in releases]
        self.caller = ScriptedCaller(clips, SILENCE, any, hang_up=hang_up, patience_ms=patience_ms)
        self.now = 0
        self.steps: list[tuple[int, Step]] = []
        self.sent: list[bytes] = []

    def run(self, assistant: str) -> "Scene":
        for frame in assistant:
            self.now += 20
            self.caller.played(frame == "x")
            self.sent.append(self.caller.next_frame())
            self.steps += [(self.now, step) for step in self.caller.steps()]
        return self

    def started(self) -> list[int]:
        return [at for at, step in self.steps if isinstance(step, ClipStarted)]


def after(silence_ms: int, utterances: int = 0) -> Release:
    return Release(utterances, after_silence_ms=silence_ms)


def during(speaking_ms: int, utterances: int = 1) -> Release:
    return Release(utterances, while_speaking_ms=speaking_ms)


def test_the_first_clip_opens_after_its_silence_and_is_sent_whole() -> None:
    scene = Scene(after(200)).run("." * 40)

    assert scene.steps == [(200, ClipStarted(0)), (280, ClipEnded(0))]
    assert scene.sent == [SILENCE] * 9 + [SPOKEN] * 5 + [SILENCE] * 26


def test_a_greeting_pushes_the_first_clip_back() -> None:
    assert Scene(after(200)).run("..." + "x" * 20 + "." * 40).started() == [23 * 20 + 200]


def test_the_next_clip_waits_for_a_late_answer_and_then_for_silence() -> None:
    scene = Scene(after(20), after(300, utterances=1)).run("." * 1_000 + "x" * 50 + "." * 100)

    assert scene.started() == [20, 1_050 * 20 + 300]


def test_a_pause_within_an_answer_is_no_silence_and_no_second_utterance() -> None:
    pause = "." * (UTTERANCE_GAP_MS // 20 - 1)
    scene = Scene(after(20), after(600, utterances=2)).run("." * 10 + "xx" + pause + "xx" + pause + "xx" + "." * 100)

    assert scene.started() == [20]


def test_two_utterances_can_be_awaited() -> None:
    gap = "." * (UTTERANCE_GAP_MS // 20)
    scene = Scene(after(20), after(400, utterances=2)).run("." * 10 + "xx" + gap + "xx" + "." * 100)

    assert scene.started() == [20, (10 + 2 + 25 + 2) * 20 + 400]


def test_an_interruption_comes_so_long_after_the_answer_began() -> None:
    scene = Scene(after(20), during(800)).run("." * 30 + "x" * 100 + "." * 100)

    assert scene.started() == [20, 30 * 20 + 20 + 800]


def test_an_answer_too_short_to_interrupt_is_let_pass_and_the_next_one_is_interrupted() -> None:
    scene = Scene(after(20), during(800)).run("." * 10 + "x" * 10 + "." * 60 + "x" * 100)

    assert scene.started() == [20, 80 * 20 + 20 + 800]


def test_what_was_said_before_the_callers_last_word_is_no_answer() -> None:
    scene = Scene(after(20), during(100), after(200, utterances=1))
    scene.run("." * 10 + "x" * 12 + "." * 200)  # the interruption cuts the first answer, nothing else is said

    assert len(scene.started()) == 2
    assert len(scene.run("x" * 5 + "." * 50).started()) == 3


def test_the_caller_hangs_up_after_the_answer_and_silence() -> None:
    scene = Scene(after(20), hang_up=after(400, utterances=1)).run("." * 50 + "x" * 10 + "." * 50)

    assert scene.steps[-1] == (60 * 20 + 400, HungUp())
    assert scene.sent[-1] == SILENCE


def test_without_a_hang_up_the_caller_stays_on_the_line() -> None:
    scene = Scene(after(20), patience_ms=1_000).run("." * 1_000)

    assert [type(step) for _, step in scene.steps] == [ClipStarted, ClipEnded]


def test_a_wait_without_end_is_given_up_by_name_and_once() -> None:
    scene = Scene(after(20), after(20, utterances=1), patience_ms=1_000).run("." * 200)

    assert scene.steps[-1] == (20 + 80 + 1_000, GaveUp(1, 1_000))
    assert len(scene.steps) == 3


def test_a_clip_is_filled_up_with_silence() -> None:
    caller = ScriptedCaller([Clip(b"\1" * 6, after(0))], SILENCE, any, hang_up=None, patience_ms=60_000)

    assert [caller.next_frame() for _ in range(3)] == [SPOKEN, b"\1\1\0\0", SILENCE]


@given(st.text("x.", max_size=400), st.integers(0, 600), st.integers(0, 3))
def test_every_clip_is_sent_once_in_order_and_never_while_the_assistant_speaks(
    assistant: str, silence_ms: int, utterances: int
) -> None:
    scene = Scene(after(silence_ms), after(silence_ms, utterances), hang_up=after(silence_ms), length=3)
    scene.run(assistant + "." * 100)

    starts = [step.index for _, step in scene.steps if isinstance(step, ClipStarted)]
    assert starts == list(range(len(starts)))
    assert scene.sent.count(SPOKEN) == 3 * len(starts)
    for at in scene.started():
        heard = assistant[max(0, (at - silence_ms) // 20) : at // 20]
        assert silence_ms < 20 or "x" not in heard


@given(st.text("x.", max_size=300))
def test_the_meter_counts_utterances_as_silence_divides_them(assistant: str) -> None:
    meter = AssistantMeter()
    for frame in assistant:
        meter.played(frame == "x")

    assert meter.begun == len([part for part in assistant.split("." * 25) if "x" in part])
