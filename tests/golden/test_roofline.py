"""Roofline on real traces: the reference values of matrix products, and the identity of times."""

from __future__ import annotations

import numpy as np
import pytest

from hta_widgets.analyses.roofline import roofline
from hta_widgets.analyses.roofline.formulas import PRODUCTS
from hta_widgets.trace.model.events import Kind
from tests.golden.reference import attributed, attribution, opened, place_of

TFLOPS = {"h100_qwen": 622.5, "mi300_bert": 46.1, "b200_eager": 300.5, "torch_compile": 547.7}


@pytest.fixture(scope="module", params=sorted(attribution("gemm")) or ["no reference results"])
def trace(request):
    attributed("gemm")
    return request.param


@pytest.fixture(scope="module")
def job(trace):
    return opened(place_of(trace))


def test_products_and_the_identity(trace, job):
    expected, result = attributed("gemm")[trace], roofline(job)
    products = result.operators[result.operators["operator"].isin(PRODUCTS)]
    without = result.uncounted[result.uncounted["operator"].isin(PRODUCTS)]
    gpu_ns = int(products["gpu_ns"].sum())
    assert int(products["calls"].sum()) == expected["operators"]
    assert int(products["flop"].sum()) == expected["flop"]
    assert gpu_ns == expected["gpu_ns"]
    assert int(without["gpu_ns"].sum()) == expected["without_shape_ns"]
    assert int(result.devices["kernel_ns"].sum()) == expected["kernel_ns"]
    if expected["tflops"]:
        tflops = int(products["flop"].sum()) / gpu_ns / 1000
        assert tflops == pytest.approx(expected["tflops"], abs=6e-4)
    name = trace.partition("/")[0]
    if name in TFLOPS:
        assert expected["tflops"] == pytest.approx(TFLOPS[name], abs=0.06)
    work = job.gpu_work(job.ranks[0])
    kernels = job.rank(job.ranks[0]).trace.events.kind[work.rows] == Kind.KERNEL
    parts = (result.operators["gpu_ns"], result.uncounted["gpu_ns"])
    assert sum(int(part.sum()) for part in parts) == int(work.duration_ns[kernels].sum())
    for row in result.devices.to_dict("records"):
        mine = work.duration_ns[kernels & (work.device == row["device"])]
        times = [row[name] for name in ("flop_ns", "bytes_ns", "uncounted_ns")]
        assert sum(times) == row["kernel_ns"] == mine.sum()
        assert row["kernels"] == mine.size


def test_products_do_not_exceed_the_peak(job):
    operators = roofline(job).operators
    reached = operators["percent_of_peak"][operators["flop"] > 0].to_numpy()
    assert not (reached[~np.isnan(reached)] > 100).any()
