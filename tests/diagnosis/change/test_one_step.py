"""A step of a job, with where in it a row of the waterfall is."""

from __future__ import annotations

import pytest

from hta_widgets import diagnose, open_trace
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.diagnosis.change.one_step import one_step
from hta_widgets.diagnosis.change.waterfall import LEVELS
from hta_widgets.names.normalise import normalised_kernel_name
from hta_widgets.trace.job import Job
from tests.simulator import write_job

CLASSES = {"compute": "compute_ns", "data_loading": "gap_loader_ns"}


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Job:
    folder = tmp_path_factory.mktemp("one_step")
    write_job(folder, "input_starvation", ranks=2, steps=4)
    return open_trace(folder, progress=False)


def seen_ns(found) -> int:
    return int((found.seen["end_ns"] - found.seen["start_ns"]).sum())


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_seen_adds_up_to_the_class(job, name):
    steps = diagnose(job).steps
    for row in steps.to_dict("records"):
        found = one_step(job, (name,), rank=row["rank"], step=row["step"])
        assert (found.rank, found.step, found.length_ns) == (
            *(row["rank"], row["step"], row["period_ns"]),
        )
        assert seen_ns(found) == row[CLASSES[name]]
        assert found.seen["start_ns"].is_monotonic_increasing
        assert found.seen["end_ns"].max() <= found.length_ns


def test_a_kernel_is_seen_where_its_events_are(job):
    table = explain_change(job, job).waterfall
    row = table[(table["class"] == "compute") & (table["kernel"] != "")].iloc[0]
    found = one_step(job, tuple(row[name] for name in LEVELS))
    work = job.rank(found.rank).gpu_work
    names = [work.names[code] for code in work.name.tolist()]
    starts = {
        start
        for name, start in zip(names, work.start_ns.tolist(), strict=True)
        if normalised_kernel_name(name) == row["kernel"]
    }
    after_first = (found.seen["start_ns"] - found.seen["start_ns"].iloc[0]).tolist()
    assert len(after_first) > 0
    assert any(all(begin + each in starts for each in after_first) for begin in starts)


def test_the_typical_step_is_as_long_as_the_median(job):
    lengths = diagnose(job).steps.query("rank == 0").set_index("step")["period_ns"]
    found = one_step(job)
    assert found.seen.empty
    assert (found.rank, found.step) == (0, found.typical)
    shorter, longer = (lengths < found.length_ns).sum(), (lengths > found.length_ns).sum()
    assert longer - shorter in (0, 1)
    assert one_step(job, step=-5).step == found.typical
    other = next(step for step in lengths.index if step != found.typical)
    asked = one_step(job, step=int(other))
    assert (asked.step, asked.typical, asked.length_ns) == (other, found.typical, lengths[other])


def test_without_gpu_work_there_is_none(real_traces):
    assert one_step(open_trace(real_traces / "kineto" / "cpu_only", progress=False)) is None
