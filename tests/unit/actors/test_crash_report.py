"""A crash report says where and what kind, and repeats no words that may be somebody's secret."""

import json
from typing import Any

import pytest

from parlora.errors import InvalidArgument
from parlora_actors.crash_report import describe_crash

SECRET = "sk-live-very-secret"


def report_of(error: BaseException) -> dict[str, Any]:
    try:
        raise error
    except BaseException as caught:
        return describe_crash(caught)


@pytest.mark.parametrize("error", [ValueError(SECRET), KeyError(SECRET), RuntimeError(SECRET), AssertionError(SECRET)])
def test_words_of_application_errors_are_left_out(error: BaseException) -> None:
    report = report_of(error)
    assert SECRET not in json.dumps(report)
    assert report["type"] == type(error).__name__
    assert report["frames"] == [f"test_crash_report.py:{report['frames'][0].split(':')[1]}"]
    assert report["frames"][0].endswith("in report_of")


def test_words_of_the_system_and_of_parlora_are_kept() -> None:
    assert report_of(FileNotFoundError(2, "ignored", SECRET))["text"] == "No such file or directory"
    assert report_of(InvalidArgument("shutdown must be positive"))["text"] == "shutdown must be positive"
    assert SECRET not in json.dumps(report_of(FileNotFoundError(2, "ignored", SECRET)))


def test_causes_are_told_as_far_as_they_matter() -> None:
    error: BaseException = ValueError(SECRET)
    for _ in range(10):
        try:
            raise RuntimeError(SECRET) from error
        except RuntimeError as caught:
            error = caught
    report = describe_crash(error)
    assert [cause["type"] for cause in report["causes"]] == ["RuntimeError"] * 4
    assert SECRET not in json.dumps(report)


def test_a_deep_stack_keeps_its_innermost_frames() -> None:
    def dig(depth: int) -> None:
        if depth == 0:
            raise ValueError
        dig(depth - 1)

    try:
        dig(100)
    except ValueError as error:
        frames = describe_crash(error)["frames"]
    assert len(frames) == 20
    assert frames[-1].endswith("in dig")
