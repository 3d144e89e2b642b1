"""What is said where only faster kernels would help."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import diagnosis
from tests.analyses.diagnosis.scripts import Host, diagnosed
from tests.analyses.diagnosis.thresholds import Case, cases
from tests.analyses.generated_jobs import open_job
from tests.kineto_text import call, kernel


def busy(ts, names):
    """Kernels of 1 ms one after another, all launched before the first of them."""
    launches = [call(ts + n, 1, n + 1) for n in range(len(names))]
    kernels = [
        kernel(ts + 10 + 1000 * n, 1000, name=name, correlation=n + 1)
        for n, name in enumerate(names)
    ]
    return [*launches, *kernels]


def said(tmp_path, *names):
    return diagnosis(open_job(tmp_path, [busy(0, names)])).finding


def test_the_kernels_that_take_most_of_the_time_are_named(tmp_path):
    names = ["small", *["sgemm"] * 5, *["void norm<float>(int)"] * 3, "tiny"]
    assert said(tmp_path, *names).endswith(
        " The GPUs compute 100 % of the GPU span: only faster kernels help, most of all sgemm "
        "(50 %), norm<float> (30 %), small (10 %)."
    )


def test_nothing_is_said_of_gpus_that_wait(tmp_path):
    events = [*busy(0, ["sgemm"] * 5), *busy(6_000, ["sgemm"] * 2)]
    assert "faster kernels" not in diagnosis(open_job(tmp_path, [events])).finding


@pytest.mark.parametrize(("width", "why"), [(1024, ""), (1025, ", 1025 is no multiple of 8")])
def test_how_close_products_come_to_the_peak_is_said(tmp_path, width, why):
    """68.7 GFLOP on a GPU that does 312 TFLOP/s take 220 µs, and here 1 ms."""
    one = Host()
    for _ in range(8):
        one.launch(
            1000,
            name="ampere_bf16_s16816gemm",
            shapes=[[4096, 8192], [8192, width]],
            type_="c10::BFloat16",
        )
    gpu = {"name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8}
    finding = diagnosed(tmp_path, one, gpu=gpu).finding
    assert finding.endswith(f"ampere_bf16_s16816gemm (100 %, 22 % of its peak{why}).")


def computing(folder, percent):
    """The GPU computes this part of the time, and then waits for a send."""
    length = 100 * percent
    events = [call(0, 1, 1), kernel(10, length, name="gemm", correlation=1)]
    other = kernel(10 + length, 10_000 - length, name="ncclDevKernel_SendRecv", correlation=2)
    made = diagnosis(open_job(folder, [[*events, call(1, 1, 2), other]]))
    return "only faster kernels help" in made.finding


test_thresholds = cases(
    Case("largest_kernels.COMPUTES_PERCENT", computing, {89.9: False, 90.1: True})
)
