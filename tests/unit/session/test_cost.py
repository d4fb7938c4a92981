"""A long session costs the brain what a short one does; the whole comparison is `benchmarks/reduce.py`."""

from benchmarks._report import Report
from benchmarks.reduce import soak


def test_cost_and_memory_do_not_grow_once_the_bounds_are_reached() -> None:
    report = Report("soak", [])
    soak(report, 4_000)
    assert report.figures["soak_objects_growth"] <= 1.02
    assert report.figures["soak_cost_growth"] <= 4  # a busy machine; what grows with the session grows without end
