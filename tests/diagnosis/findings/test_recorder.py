"""A profiler that slows the host, where steps were timed before it ran."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from hta_widgets import open_trace, replay
from hta_widgets.cli.diagnose.document import document
from hta_widgets.diagnosis.critical_path import critical_path, critical_path_lanes
from hta_widgets.diagnosis.replay.edits import HostSpeed
from hta_widgets.diagnosis.replay.pieces import CLASSES
from hta_widgets.diagnosis.what_if import what_if
from hta_widgets.export.anonymise.copies import anonymise
from hta_widgets.export.excerpt import write_excerpt
from hta_widgets.figures.critical_path import path_over_time
from hta_widgets.panels.bands.bands import facts, verdict
from hta_widgets.quantities import duration
from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.diagnosis.findings.thresholds import Case, cases


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
    (notice,) = (each for each in untimed.notices if "own time on the host" in each)
    assert "hta_widgets.profile(wait=10)" in notice

    result = diagnosed(tmp_path, job(30), unprofiled_us=before.step_ns / 1000)
    finding = found(result, "launch_bound")
    assert finding.recoverable_ms == pytest.approx(truth.recoverable_ms, rel=0.05)
    assert finding.percent == pytest.approx(truth.percent, rel=0.05)
    assert result.step_ns == pytest.approx(before.step_ns, rel=0.01)
    assert result.joint_ms == pytest.approx(finding.recoverable_ms)
    said = document(result)
    assert said["step_ms"] + said["profiler_ms"] == pytest.approx(said["period_ms"])
    twice = finding.evidence["twice_as_fast_ms"]
    assert twice == pytest.approx(truth.evidence["twice_as_fast_ms"], rel=0.05)
    with_it = f"({duration(untimed.step_ns)} with the profiler)"
    assert with_it in str(result)
    assert facts(result.job, result)[-1].endswith(with_it)
    assert verdict(result).endswith("of 6 ms per step with the profiler")
    assert not any("own time on the host" in each for each in result.notices)
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


def test_a_price_may_be_less_where_no_faster_host_explains_the_time_before(tmp_path):
    """The host pauses for 5 ms of each step, which none of the steps before had."""
    one = Host()
    for number in range(6):
        with one.step(number):
            for _ in range(200):
                one.launch(10, operator="aten::mul", takes=11)
            one.now += 5000
            one.synchronise()
    step_us = recorded(tmp_path, one).step_ns / 1000
    result = diagnosed(tmp_path, one, unprofiled_us=step_us - 3000)
    finding = found(result, "host_pause")
    assert finding.recoverable_ms - finding.lower_ms == pytest.approx(3, abs=0.01)
    assert (finding.sign, finding.confidence) == ("≤", "inconclusive")
    (notice,) = slowed(result)
    assert "; 3 ms of that no faster host explains" in notice
    assert not replay(result.job).without_profiler


@pytest.fixture
def both(tmp_path):
    """A job of six steps as it is without a profiler, and recorded by one that makes it longer."""
    before = diagnosed(tmp_path, job(12, kernel_us=10))
    (tmp_path / "slowed").mkdir()
    slow = diagnosed(
        tmp_path / "slowed", job(30, kernel_us=10), unprofiled_us=before.step_ns / 1000
    )
    return before.job, slow.job


def test_a_what_if_begins_without_the_profiler(both):
    for changes in ({}, {"host_speed": 2}, {"kernel_percent": 20, "kernels": "elementwise"}):
        truth, found = (what_if(each, **changes) for each in both)
        assert found.recorded_ms == pytest.approx(truth.recorded_ms, rel=0.01)
        assert found.answer.step_ms == pytest.approx(truth.answer.step_ms, rel=0.01)
        assert found.classes["recorded_ms"].sum() == pytest.approx(found.recorded_ms, rel=1e-6)
        assert found.ranks["recorded_ms"].tolist() == [
            pytest.approx(found.recorded_ms * len(found.answer.steps))
        ]
    assert slowed(found)
    assert what_if(both[1]).finding.startswith("Without the profiler: 2.4")


def test_a_critical_path_is_that_without_the_profiler(both):
    """Its pieces are where they were recorded, with the profiler's time left out."""
    truth, found = (critical_path(each) for each in both)
    assert slowed(found)
    expected, ns = (
        each.classes.set_index("class")["ns"].reindex(CLASSES).fillna(0) for each in (truth, found)
    )
    assert ns.sum() == pytest.approx(expected.sum(), rel=0.01)
    assert ns["host"] == pytest.approx(expected["host"], rel=0.02)
    assert set(found.operators["operator"]) == set(truth.operators["operator"])


@pytest.mark.parametrize(("kernel_us", "step_us"), [(10, 3000), (25, 5200)])
def test_a_critical_path_is_drawn_where_it_was_recorded(tmp_path, kernel_us, step_us):
    """With the time left out that the profiler takes."""
    whole = diagnosed(tmp_path, job(30, kernel_us=kernel_us), unprofiled_us=step_us).job
    found = critical_path(whole)
    pieces, events = found.pieces, whole.rank(0).trace.events
    assert replay(whole).without_profiler
    assert pieces["ns"].sum() == found.classes["ns"].sum() == found.operators["ns"].sum()
    assert (pieces["end_ns"] - pieces["start_ns"]).tolist() == pieces["ns"].tolist()
    assert (pieces["start_ns"].to_numpy()[1:] >= pieces["end_ns"].to_numpy()[:-1]).all()
    kernels = pieces[pieces["class"] == "compute"]
    assert len(kernels) > 0
    assert events.start_ns[kernels["row"]].tolist() == kernels["start_ns"].tolist()
    waits = pieces[pieces["class"] == "return from a sync"]
    assert len(waits) > 0
    assert events.end_ns[waits["call"]].tolist() == waits["end_ns"].tolist()
    (lane,) = critical_path_lanes(whole).by_rank[0]
    drawn = sorted(ns for track in lane.content for ns in track.start_ns.tolist())
    assert drawn == pieces["start_ns"].tolist()
    bars = path_over_time(found).data
    assert {bar["name"] for bar in bars} <= {"the host", "the GPU", "return from a sync"}
    spans = sorted(pair for bar in bars for pair in zip(bar["base"], bar["x"], strict=True))
    begins, lengths = (np.array(each) for each in zip(*spans, strict=True))
    assert_allclose(np.cumsum(lengths), begins + lengths)
    assert begins[-1] + lengths[-1] == pytest.approx(pieces["ns"].sum() / 1e6)


def test_one_step_is_slowed_as_much_as_all(both):
    speeds = [replay(both[1], steps=steps).without_profiler for steps in (None, (2,), (3, 4))]
    assert speeds[0] == speeds[1] == speeds[2] != ()


def test_copies_of_a_trace_have_the_time_without_the_profiler(both, tmp_path):
    whole = both[1]
    anonymise(tmp_path / "slowed", tmp_path / "copy")
    excerpt = write_excerpt(whole, (0, 10**9), output_dir=tmp_path)
    for each in (tmp_path / "copy", excerpt):
        copy = open_trace(each, progress=False)
        assert replay(copy).without_profiler == replay(whole).without_profiler != ()


def recorded(folder, *hosts, **of_job):
    """The diagnosis where no step was timed without the profiler."""
    (folder / "as recorded").mkdir()
    return diagnosed(folder / "as recorded", *(hosts or [job(30, **of_job)]))


def notices_of(folder, unprofiled_us, **of_job):
    (folder / "known").mkdir()
    return slowed(diagnosed(folder / "known", job(30, **of_job), unprofiled_us=unprofiled_us))


def longer(folder, part):
    """Whether it is said that a step is longer by this part of its length before."""
    return bool(notices_of(folder, recorded(folder).step_ns / 1000 / (1 + part)))


def explained(folder, part):
    """The same where a host 4 times as fast explains this part of what it is longer by."""
    found = recorded(folder, kernel_us=20)
    most_ns = found.replayed.replay.gain_ns((HostSpeed(4),))
    unprofiled_us = (found.step_ns - most_ns / part) / 1000
    return any("times as fast" in each for each in notices_of(folder, unprofiled_us, kernel_us=20))


test_thresholds = cases(
    Case("replay.LEAST_SLOWED", longer, {0.048: False, 0.052: True}),
    Case("replay.LEAST_EXPLAINED", explained, {0.48: False, 0.52: True}),
)
