"""What the profiler itself costs."""

from __future__ import annotations

import pytest

from tests.analyses.diagnosis.scripts import Host, diagnosed, found
from tests.kineto_text import host as event


def job(overhead, *, late=0, stacks=False, steps=5):
    """One rank; the profiler works for some time in each step, and launches are late."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            if overhead:
                name = "Activity Buffer Request"
                one.events.append(event(one.now, overhead, name, cat="overhead", tid=3))
                one.now += overhead
            for _ in range(10):
                one.now += late
                if stacks:
                    one.does("train.py(3): step", 1, cat="python_function")
                one.launch(50)
            one.synchronise()
    return one


def test_the_profiler_holds_up_the_host(tmp_path):
    result = diagnosed(tmp_path, job(500))
    finding = found(result, "profiler_overhead")
    assert finding.ranks == (0,)
    assert finding.recoverable_ms == pytest.approx(0.5, rel=0.1)
    assert "Activity Buffer Request" in finding.sentence
    assert finding.evidence["overhead"]["duration_ms"].tolist() == [2.5]


def test_stacks_slow_all_launches(tmp_path):
    result = diagnosed(tmp_path, job(100, late=100, stacks=True))
    finding = found(result, "profiler_overhead")
    assert finding.recoverable_ms == pytest.approx(0.8, rel=0.2)
    assert found(result, "launch_bound") is None


def test_without_stacks_late_launches_are_another_cause(tmp_path):
    result = diagnosed(tmp_path, job(100, late=100))
    assert found(result, "launch_bound") is not None
    assert found(result, "profiler_overhead").recoverable_ms == pytest.approx(0.1, rel=0.2)


def test_stacks_alone_are_no_overhead(tmp_path):
    result = diagnosed(tmp_path, job(0, late=100, stacks=True))
    assert found(result, "profiler_overhead") is None
    assert found(result, "launch_bound").action.startswith("Record again without with_stack=True")


def test_silent_without_overhead(tmp_path):
    assert not diagnosed(tmp_path, job(0))
