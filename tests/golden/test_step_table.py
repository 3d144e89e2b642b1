"""The table of steps on real traces: times add up, and equal those of other analyses."""

from __future__ import annotations

import pytest

from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.step_table import STEP_CLASSES, step_table
from hta_widgets.trace.opening.open import open_trace
from tests.golden import brute_force
from tests.golden.test_idle_owners import TRACES, place_of


@pytest.fixture(scope="module", params=TRACES, ids=lambda trace: trace.partition("/")[0])
def path(request):
    return place_of(request.param)


def test_times_add_up(path):
    job = open_trace(path, progress=False)
    steps, owners = step_table(job).steps, idle_owners(job)
    classes = steps[[f"{name}_ns" for name in STEP_CLASSES]]
    assert (classes.sum(axis=1) == steps["period_ns"]).all()
    whole_ns = steps.groupby("device")["period_ns"].sum()
    assert whole_ns.tolist() == owners.devices["window_ns"].tolist()
    by_cause = owners.causes.groupby(["device", "step", "cause"])["idle_ns"].sum()
    rows = steps.set_index(["device", "step"])
    for (device, number, cause), idle_ns in by_cause.items():
        assert rows.loc[(device, number), f"idle_{cause}_ns"] == idle_ns
    idle = steps[[name for name in steps if name.startswith("idle_")]].sum().sum()
    assert idle == owners.devices["idle_ns"].sum()


def test_counts_over_all_steps(path):
    steps = step_table(open_trace(path, progress=False)).steps
    work = [each for each in brute_force.gpu_operations(path) if each["call"]]
    assert steps["gpu_work"].sum() == len(work)
    assert steps["kernels"].sum() == sum(each["cat"] == "kernel" for each in work)
    assert steps["launches"].sum() == len({id(each["call"]) for each in work})
