"""Copies that hold up the GPU."""

from __future__ import annotations

import pytest

from tests.analyses.diagnosis.scripts import Host, diagnosed, found

TO_DEVICE = "Memcpy HtoD (Pageable -> Device)"
TO_HOST = "Memcpy DtoH (Device -> Pinned)"


def job(name, length, *, stream=7, ahead=False, steps=5, size=8_000_000):
    """One rank that copies in each step, and computes for 2 ms."""
    one = Host()
    for number in range(steps):
        with one.step(number):
            if length:
                before = one.free
                one.launch(length, name=name, cat="gpu_memcpy", stream=stream, bytes=size)
                one.free = before if ahead else one.free
            for _ in range(10):
                one.launch(200)
            one.synchronise()
    return one


def test_a_batch_that_is_copied_first(tmp_path):
    finding = found(diagnosed(tmp_path, job(TO_DEVICE, 1000)), "slow_host_copies")
    assert finding.recoverable_ms == pytest.approx(1, rel=0.05)
    assert "8 MB per step at 8 GB/s (Memcpy HtoD (Pageable -> Device))" in finding.sentence
    assert finding.evidence["copies"]["exposed_ms"].tolist() == [4]


def test_the_code_that_asks_for_the_copies_is_named(tmp_path):
    one = Host()
    for number in range(5):
        with one.step(number):
            with one.inside("train.py(9): move", "python_function"):
                one.now += 5
                one.launch(
                    1000, name=TO_DEVICE, cat="gpu_memcpy", bytes=8_000_000, operator="aten::to"
                )
            for _ in range(10):
                one.launch(200)
            one.synchronise()
    finding = found(diagnosed(tmp_path, one), "slow_host_copies")
    assert "all of this time inside aten::to (train.py(9): move)" in finding.sentence


def test_copies_to_the_host(tmp_path):
    finding = found(diagnosed(tmp_path, job(TO_HOST, 1000)), "slow_host_copies")
    assert finding.recoverable_ms == pytest.approx(1, rel=0.05)


def test_a_copy_that_nothing_waits_for(tmp_path):
    """On a stream of its own, beside kernels."""
    one = job(TO_DEVICE, 1000, stream=9, ahead=True)
    assert found(diagnosed(tmp_path, one), "slow_host_copies") is None


def test_numbers_that_are_read(tmp_path):
    assert found(diagnosed(tmp_path, job(TO_HOST, 90)), "slow_host_copies") is None


def test_silent_without_copies(tmp_path):
    assert not diagnosed(tmp_path, job("", 0))
