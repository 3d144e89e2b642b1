"""What the profiler itself costs."""

from __future__ import annotations

import pytest

from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.diagnosis.findings.thresholds import least_price
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


def test_record_function_holds_up_the_host_in_frames_alone(tmp_path):
    """No overhead is written: "for up to 0 ns" was said of frames that took 155 µs of a step."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for _ in range(4):
                one.does("torch/autograd/profiler.py(784): __enter__", 100, cat="python_function")
                one.launch(50)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "profiler_overhead")
    assert finding.sentence.startswith("The profiler holds up the host for up to 2")


def test_stacks_alone_are_no_overhead(tmp_path):
    result = diagnosed(tmp_path, job(0, late=100, stacks=True))
    assert found(result, "profiler_overhead") is None
    assert found(result, "launch_bound").action.startswith("First record again without")


def test_silent_without_overhead(tmp_path):
    assert not diagnosed(tmp_path, job(0))


test_what_the_profiler_must_cost = least_price(
    "profiler_overhead",
    "least_percent_with_evidence",
    lambda folder: diagnosed(folder, job(500, steps=3)),
)


@pytest.mark.parametrize(("overhead", "is_said"), [(150, True), (60, False)])
def test_stacks_count_if_the_profiler_takes_its_limit_of_the_hosts_time(
    tmp_path, overhead, is_said
):
    finding = found(diagnosed(tmp_path, job(overhead, late=400, stacks=True)), "profiler_overhead")
    assert (finding is not None and "stacks" in finding.sentence) == is_said
