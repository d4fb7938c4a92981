"""The script exercises what the demonstration promises, and its judge cannot be pleased by a wrong call."""

from pathlib import Path

import pytest

from parlora.channels.wav.options import clip_files
from parlora.component import Component
from parlora.context.decision import ContextDecision
from parlora.orderdesk.config import session_options
from parlora.orderdesk.demo_script import SCRIPT, clips, judge
from parlora.orderdesk.evidence import Statement, statements
from parlora.orderdesk.orders import ORDERS, Operation
from parlora.orderdesk.policy import OrderDeskPolicy
from parlora.testing.caller import write_wav
from tests.unit.policies.snapshots import Desk

STATUS = ORDERS["123"].sentence(Operation.STATUS)
ITEMS = ORDERS["123"].sentence(Operation.ITEMS)
DELIVERY = ORDERS["123"].sentence(Operation.DELIVERY)
STALE = ORDERS["124"].sentence(Operation.STATUS)


def test_the_policy_turns_the_script_into_the_lookups_that_answer_it() -> None:
    call = Desk(OrderDeskPolicy())
    first, correction, *rest = SCRIPT
    call.asks(first.text)
    assert call.tasks["t1"]["input"]["order"] == "124"
    call.asks(correction.text)
    call.settle()
    call.finish("t1")
    decisions: list[ContextDecision] = []
    for line in rest:
        decisions += call.asks(line.text)
        call.finish(f"t{len(call.tasks)}")

    assert call.tasks["t1"]["revision"] == 2
    assert [(t["input"]["order"], t["input"]["operation"]) for t in call.tasks.values()] == [
        ("123", "status"),
        ("123", "delivery"),
        ("123", "items"),
    ]


def test_the_channel_takes_the_script_as_its_clips(tmp_path: Path) -> None:
    paths = []
    for number in range(len(SCRIPT)):
        path = tmp_path / f"{number}.wav"
        write_wav(path, bytes(960))
        paths.append(str(path))
    releases = [clip.release for clip in clip_files(None, clips(paths))]

    assert [release.after_utterances for release in releases] == [0, 0, 1, 1]
    assert [release.while_speaking_ms is None for release in releases] == [True, True, True, False]


def test_the_right_call_passes() -> None:
    cut = " ".join(DELIVERY.split()[:10])

    assert judge([s for text in (STATUS, cut, ITEMS) for s in statements(text)]).ok


@pytest.mark.parametrize(
    "said", [[], [ITEMS, STATUS], [STATUS], [STATUS, ITEMS, STALE], [STALE, STATUS, ITEMS], [STALE]]
)
def test_a_missing_answer_or_one_word_about_the_wrong_order_fails(said: list[str]) -> None:
    assert not judge([s for text in said for s in statements(text)]).ok


def test_a_fact_told_of_the_wrong_order_is_a_statement_and_a_lie() -> None:
    (statement,) = statements("order one two three was cancelled on monday")

    assert statement == Statement("123", Operation.STATUS, "124")
    assert not judge([*statements(STATUS), *statements(ITEMS), statement]).ok


@pytest.mark.parametrize("number", sorted(ORDERS))
@pytest.mark.parametrize("operation", list(Operation))
def test_every_fact_is_recognized_whole_and_not_cut(number: str, operation: Operation) -> None:
    sentence = ORDERS[number].sentence(operation)

    assert statements(f"well {sentence}") == [Statement(number, operation, number)]
    assert statements(sentence.rsplit(maxsplit=1)[0]) == []


def test_the_options_name_components_that_exist_and_survive_the_way() -> None:
    options = session_options(voice="en-us+f3", greeting="Order desk.", delays_ms={"123": 1}, wait_ms=100)

    for name in ("provider", "backend", "context_policy"):
        assert callable(Component.parse(options[name], name).load(name))
    assert Component.parse(options["backend"], "backend").build("backend")
