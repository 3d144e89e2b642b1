"""Blocking calls and what they cost."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.diagnosis.facts.step_facts import STEP_COLUMNS
from hta_widgets.diagnosis.job.steps import Steps
from tests.diagnosis.findings.scripts import Host, diagnosed, found
from tests.diagnosis.findings.thresholds import Case, cases, least_price


def job(syncs, *, behind=300, steps=5, length=100, works=0):
    """One rank that launches 40 kernels, waits for the GPU some times, and then works on."""
    one = Host()
    for number in range(steps):
        with one.step(number), one.inside("train.py(7): log", "python_function"):
            for kernel in range(40):
                one.launch(length)
                if kernel % 10 == 9 and kernel // 10 < syncs:
                    one.synchronise("aten::item")
                    one.does("aten::add", behind)
                one.now += works
    return one


def test_blocking_calls_that_empty_the_gpu(tmp_path):
    finding = found(diagnosed(tmp_path, job(4)), "blocking_sync")
    assert finding.recoverable_ms == pytest.approx(4 * 0.31, rel=0.1)
    assert finding.evidence["calls_per_step"] == 3.75  # the last one of all ends no idle time
    assert "4 times per step, mostly in aten::item (train.py(7): log)" in finding.sentence
    assert found(diagnosed(tmp_path, job(4)), "launch_bound") is None


def test_a_long_call_that_leaves_no_gap_costs_nothing(tmp_path):
    one = Host()
    for number in range(5):
        with one.step(number):
            for _ in range(40):
                one.launch(100)
            one.calls("cudaStreamSynchronize", 3500)
    assert not diagnosed(tmp_path, one)


def test_a_slow_host_is_no_price_of_a_single_wait(tmp_path):
    """It would stay behind without the wait, too."""
    result = diagnosed(tmp_path, job(1, behind=10, length=20, works=60))
    assert found(result, "blocking_sync") is None
    assert found(result, "launch_bound").recoverable_ms == pytest.approx(2, rel=0.2)


def copying(computes):
    """A slow host that reads a number after every fourth kernel, long after it or at once."""
    one = Host()
    for number in range(5):
        with one.step(number):
            for kernel in range(40):
                one.launch(computes)
                one.now += 0 if computes > 100 else 50
                if kernel % 4 == 3:
                    one.reads("aten::item", 25)
                    one.now += 50
    return one


def test_a_copy_that_finds_the_gpu_idle_drains_nothing(tmp_path):
    result = diagnosed(tmp_path, copying(20))
    assert [each.cause for each in result] == ["launch_bound"]


def test_a_copy_that_waits_for_kernels_does(tmp_path):
    finding = found(diagnosed(tmp_path, copying(150)), "blocking_sync")
    assert "aten::item" in finding.sentence
    assert finding.evidence["calls_per_step"] == pytest.approx(10, abs=0.25)
    owned_ms = finding.evidence["owners"]["idle_ms"].sum() / 4
    assert owned_ms >= finding.recoverable_ms == pytest.approx(10 * 0.062, rel=0.05)


def test_silent_without_calls(tmp_path):
    assert not diagnosed(tmp_path, job(0))


def launch_bound_us(folder, part):
    """Late launches of 100 µs, of which a part is after blocking calls, of a host that is fast."""
    del folder
    nothing = np.zeros((1, 1))
    columns = {"gap_sync": 100 * part, "gap_op": 100 * (1 - part), "compute": 900.0, "host": 500.0}
    every = dict.fromkeys(STEP_COLUMNS, nothing)
    steps = Steps((0,), (1,), every | {name: nothing + us for name, us in columns.items()})
    return float(steps.launch_bound[0, 0])


test_what_waiting_for_the_gpu_must_cost = least_price(
    "blocking_sync", "least_percent_with_evidence", lambda folder: diagnosed(folder, job(4))
)

test_thresholds = cases(
    Case("steps.LEAST_WAITING", launch_bound_us, {0.0095: 100.0, 0.0105: 0.0}),
)
