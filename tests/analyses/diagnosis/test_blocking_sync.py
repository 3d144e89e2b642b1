"""Blocking calls and what they cost."""

from __future__ import annotations

import pytest

from tests.analyses.diagnosis.scripts import Host, diagnosed, found


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
    assert "aten::item (train.py(7): log), 4 times per step" in finding.sentence
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


def test_silent_without_calls(tmp_path):
    assert not diagnosed(tmp_path, job(0))
