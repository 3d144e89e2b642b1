"""What is said of the GPUs where no cause is found."""

from __future__ import annotations

import pytest

from hta_widgets import open_trace
from hta_widgets.diagnosis import diagnosis
from tests.analyses.generated_jobs import open_job
from tests.diagnosis.findings.scripts import Host, diagnosed
from tests.diagnosis.findings.thresholds import Case, cases
from tests.kineto_text import call, host, kernel, write


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
    assert said(tmp_path, *names).startswith(
        "GPU-bound: computing takes 100 % of the GPU span, and only fewer or faster kernels would "
        "help. Largest kernels by compute time: sgemm (50 %), norm<float> (30 %), small (10 %). "
        "Otherwise, nothing stands out: none of "
    )


def test_a_host_that_launches_after_each_kernel_sets_the_pace(tmp_path):
    """What it does until then is recorded: in silence, it might wait for each of them."""
    kernels = [kernel(1010 * n, 1000, name="gemm", correlation=n + 1) for n in range(50)]
    launches = [
        each
        for n in range(50)
        for each in (call(1010 * n - 3, 2.5, n + 1), host(1010 * n + 600, 50, "aten::size"))
    ]
    assert diagnosis(open_job(tmp_path, [[*launches, *kernels]])).finding.endswith(
        " Computing takes 99 % of the GPU span, but the host is the bottleneck: kernels that take "
        "no time would save 1 ms. Largest kernels by compute time: gemm (100 %)."
    )


def test_communication_takes_no_part_of_the_compute_time(tmp_path):
    """All kernels of DeepSeek's step take twice the time of those that compute."""
    events = [
        *busy(0, ["norm"] * 3 + ["sgemm"] * 7),
        call(0, 1, 20),
        kernel(10, 9_990, name="ncclDevKernel_AllReduce", correlation=20, stream=20),
    ]
    result = diagnosis(open_job(tmp_path, [events]))
    assert "Largest kernels by compute time: sgemm (70 %), norm (30 %)." in result.finding
    assert result.to_try[-1].sentence.startswith(
        "sgemm is the largest kernel, with 70 % of the compute time (7 launches, median 1 ms"
    )


def test_what_gpus_do_is_said_where_they_also_copy_and_wait(tmp_path):
    """Of 10 ms, 8 compute, and half of the 4 ms of communication has nothing to compute beside."""
    events = [
        *busy(0, ["sgemm"] * 8),
        call(0, 1, 9),
        kernel(6_010, 3_500, name="ncclDevKernel_AllReduce", correlation=9, stream=20),
        call(0, 1, 10),
        kernel(9_510, 500, name="sgemm", correlation=10),
    ]
    finding = diagnosis(open_job(tmp_path, [events])).finding
    assert finding.startswith("Nothing stands out")
    assert finding.endswith(
        " The GPU computes for 85 % of the GPU span and only communicates for 15 %. "
        "Largest kernels by compute time: sgemm (100 %). 57.1 % of the communication is hidden."
    )


@pytest.mark.parametrize(
    ("width", "why"),
    [(1024, "52.4 % of its peak"), (1025, "52.5 % of its peak, 1025 is not a mult")],
)
def test_how_close_products_come_to_the_peak_is_said(tmp_path, width, why):
    """68.7 GFLOP on a GPU that does 312 TFLOP/s take 220 µs, and here 420, less than is usual."""
    one = Host()
    for _ in range(8):
        one.launch(
            420,
            name="ampere_bf16_s16816gemm",
            shapes=[[4096, 8192], [8192, width]],
            type_="c10::BFloat16",
        )
    gpu = {"name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8}
    finding = diagnosed(tmp_path, one, gpu=gpu).finding
    assert f"ampere_bf16_s16816gemm (100 %, {why}" in finding


def has_rate(folder, part):
    """Whether a kernel with this part of a product's time has the rate of the product."""
    us = 1_000 * part
    inputs = {"Input Dims": [[4096, 8192], [8192, 1024]], "Input type": ["c10::BFloat16"] * 2}
    events = []
    for number in range(10):
        at = 20 + 1_000 * number
        events += [
            host(10 * number, 10, "aten::mm") | {"args": inputs},
            call(10 * number, 1, 2 * number + 1),
            kernel(at, us, name="gemm", correlation=2 * number + 1),
            call(10 * number + 5, 1, 2 * number + 2),
            kernel(at + us, 1_000 - us, name="transpose", correlation=2 * number + 2),
        ]
    gpu = {"id": 0, "name": "NVIDIA A100-SXM4-40GB", "computeMajor": 8}
    path = write(folder / "rank-0.json", events, deviceProperties=[gpu])
    finding = diagnosis(open_trace(path, progress=False)).finding
    return f"gemm ({100 * part:.0f} %, 22 % of its peak)" in finding


def computing(folder, percent):
    """The GPU computes this part of the time, and then waits for a send."""
    length = 100 * percent
    events = [call(0, 1, 1), kernel(10, length, name="gemm", correlation=1)]
    other = kernel(10 + length, 10_000 - length, name="ncclDevKernel_SendRecv", correlation=2)
    made = diagnosis(open_job(folder, [[*events, call(1, 1, 2), other]]))
    return "only fewer or faster kernels would help" in made.finding


def copying(folder, percent):
    """The GPU computes 88 % of the time, copies this part of it, and then waits for a send."""
    length = round(100 * percent)
    events = [
        *(call(0, 1, correlation) for correlation in (1, 2, 3)),
        kernel(10, 8_800, name="gemm", correlation=1),
        kernel(8_810, length, cat="gpu_memcpy", name="Memcpy DtoD", correlation=2),
        kernel(8_810 + length, 1_200 - length, name="ncclDevKernel_SendRecv", correlation=3),
    ]
    return "only copies for " in diagnosis(open_job(folder, [events])).finding


def on_few_multiprocessors(folder, percent, *, beside=False):
    """Kernels of 1 block for this part of the time, or two at a time; others have enough blocks."""
    one, length = Host(), 20 * percent
    for stream in (7, 8) if beside else (7,):
        one.free = one.now
        one.queue(length, name="add", grid=[1, 1, 1], block=[256, 1, 1], stream=stream)
    one.queue(2_000 - length, name="norm", grid=[108, 1, 1], block=[256, 1, 1])
    made = diagnosed(folder, one, gpu={"name": "NVIDIA A100-SXM4-40GB", "numSms": 108})
    said = made.finding.startswith("add uses only 1 of 108 multiprocessors, for ")
    assert said or " nothing stands out: none of " in made.finding
    return said


@pytest.mark.parametrize(
    ("blocks", "said"),
    [
        (1, "use only 1 of 108 multiprocessors, and one"),
        (2, "use at most 2 of 108 multiprocessors"),
    ],
)
def test_kernels_on_few_multiprocessors_count_together(tmp_path, blocks, said):
    """Two took turns for 99.8 % of the time, and nothing stood out but one of them for 76.5 %."""
    one = Host()
    for _ in range(10):
        one.queue(76, name="first", grid=[1, 1, 1], block=[1, 1, 1])
        one.queue(24, name="second", grid=[blocks, 1, 1], block=[blocks, 1, 1])
    finding = diagnosed(tmp_path, one, gpu={"name": "NVIDIA A100-SXM4-40GB", "numSms": 108}).finding
    assert finding.startswith(f"first and second {said}")
    assert "for 100 % of the GPU span. GPU-bound: " in finding


def test_launches_at_the_same_time_use_several_multiprocessors(tmp_path):
    assert not on_few_multiprocessors(tmp_path, 80, beside=True)


test_thresholds = cases(
    Case("largest_kernels.MOST_OF_CALLS", has_rate, {0.49: False, 0.51: True}),
    Case("largest_kernels.COMPUTES_PERCENT", computing, {89.9: False, 90.1: True}),
    Case("largest_kernels.IDLE_PERCENT", on_few_multiprocessors, {49.5: False, 50.5: True}),
    Case("largest_kernels.LEAST_PERCENT", copying, {0.99: False, 1.01: True}),
)
