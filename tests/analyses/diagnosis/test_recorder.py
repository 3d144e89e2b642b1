"""A profiler that slows the host, where steps were timed before it ran."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis.replay.edits import HostSpeed
from hta_widgets.panels.bands.bands import facts
from hta_widgets.quantities import duration
from tests.analyses.diagnosis.scripts import Host, diagnosed, found
from tests.analyses.diagnosis.thresholds import Case, cases


def job(takes_us, kernel_us=2):
    """Steps of 200 short kernels, each launched by an operator that takes so long."""
    one = Host()
    for number in range(6):
        with one.step(number):
            for _ in range(200):
                one.launch(kernel_us, operator="aten::mul", takes=takes_us)
            one.synchronise()
    return one


def slowed(result):
    return [each for each in result.notices if "before the profiler ran" in each]


def test_a_price_is_that_without_the_profiler(tmp_path):
    """As each operator takes 30 µs in the recording, and 12 µs without."""
    before = diagnosed(tmp_path, job(12))
    truth = found(before, "launch_bound")
    untimed = recorded(tmp_path)
    assert found(untimed, "launch_bound").recoverable_ms > 2 * truth.recoverable_ms
    assert not slowed(untimed)
    (notice,) = (each for each in untimed.notices if "own time on the host is in" in each)
    assert "hta_widgets.profile(wait=10)" in notice

    result = diagnosed(tmp_path, job(30), unprofiled_us=before.step_ns / 1000)
    finding = found(result, "launch_bound")
    assert finding.recoverable_ms == pytest.approx(truth.recoverable_ms, rel=0.05)
    assert finding.percent == pytest.approx(truth.percent, rel=0.05)
    assert result.step_ns == pytest.approx(before.step_ns, rel=0.01)
    assert result.joint_ms == pytest.approx(finding.recoverable_ms)
    twice = finding.evidence["twice_as_fast_ms"]
    assert twice == pytest.approx(truth.evidence["twice_as_fast_ms"], rel=0.05)
    with_it = f"({duration(untimed.step_ns)} with the profiler)"
    assert with_it in str(result)
    assert facts(result.job, result)[-1].endswith(with_it)
    assert not any("own time on the host is in" in each for each in result.notices)
    (notice,) = slowed(result)
    assert "with a host 2.5 times as fast as in the recording" in notice


def test_a_gpu_that_sets_the_pace_without_the_profiler_is_not_launch_bound(tmp_path):
    """The host is 2 times as fast then, as how much it is cannot be told."""
    untimed = recorded(tmp_path, kernel_us=25)
    assert found(untimed, "launch_bound") is not None
    assert untimed.bound_by.startswith("bound by the host")
    known = diagnosed(tmp_path, job(30, kernel_us=25), unprofiled_us=200 * 26)
    assert found(known, "launch_bound") is None
    assert known.bound_by.startswith("bound by the GPU")
    assert known.status == "healthy"
    (notice,) = slowed(known)
    assert "with a host 2 times as fast" in notice


def recorded(folder, **of_job):
    """The diagnosis where no step was timed without the profiler."""
    (folder / "as recorded").mkdir()
    return diagnosed(folder / "as recorded", job(30, **of_job))


def is_slowed(folder, unprofiled_us, **of_job):
    (folder / "known").mkdir()
    return bool(slowed(diagnosed(folder / "known", job(30, **of_job), unprofiled_us=unprofiled_us)))


def longer(folder, part):
    """Whether it is said that a step is longer by this part of its length before."""
    return is_slowed(folder, recorded(folder).step_ns / 1000 / (1 + part))


def explained(folder, part):
    """The same where a host 4 times as fast explains this part of what it is longer by."""
    found = recorded(folder, kernel_us=20)
    most_ns = found.replayed.replay.gain_ns((HostSpeed(4),))
    return is_slowed(folder, (found.step_ns - most_ns / part) / 1000, kernel_us=20)


test_thresholds = cases(
    Case("context.LEAST_SLOWED", longer, {0.048: False, 0.052: True}),
    Case("context.LEAST_EXPLAINED", explained, {0.48: False, 0.52: True}),
)
