"""What is said where only faster kernels would help."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import diagnosis
from tests.analyses.diagnosis.scripts import Host, diagnosed
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
