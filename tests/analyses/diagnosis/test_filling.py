"""How much of a GPU the largest kernel fills, in programs without PyTorch."""

from __future__ import annotations

import pytest

from hta_widgets.diagnosis import diagnose
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.diagnosis.thresholds import Case, cases
from tests.nsys_export import KERNEL, RUNTIME, STRINGS, call, kernel, strings, write_sqlite

GPU = {
    "id": 0,
    "cuDevice": 0,
    "name": "NVIDIA GeForce RTX 3060",
    "smCount": 28,
    "computeMajor": 8,
    "computeMinor": 6,
    "threadsPerWarp": 32,
    "maxWarpsPerSm": 48,
    "maxBlocksPerSm": 16,
    "maxRegistersPerSm": 65536,
    "maxShmemPerSm": 102400,
}
DOUBLES = "divergence(int, double *, double *)"


def largest(
    folder, *, name="step(float *)", blocks=28, threads=256, registers=32, ns=10**6, gpu=None
):
    """What is said of a kernel, and the advice."""
    sizes = {"gridX": blocks, "gridY": 1, "gridZ": 1, "blockX": threads, "blockY": 1, "blockZ": 1}
    sizes |= {"registersPerThread": registers, "staticSharedMemory": 0, "dynamicSharedMemory": 0}
    tables = {
        KERNEL: [kernel(10_000, 10_000 + ns, correlation=1, **sizes)],
        RUNTIME: [call(0, 5_000, correlation=1)],
        STRINGS: strings(name, "cudaLaunchKernel"),
        "TARGET_INFO_GPU": [{**GPU, **(gpu or {})}],
    }
    path = write_sqlite(folder / "program.sqlite", tables)
    try:
        (found,) = diagnose(open_trace(path, progress=False)).to_try
    finally:
        path.unlink()
    return found.sentence, found.advice


@pytest.mark.parametrize(
    ("launched", "said", "advice"),
    [
        ({"blocks": 56}, "33.3 % occupancy)", "The trace cannot tell"),
        ({"registers": 192}, ", 16.7 % occupancy due to 192 registers per thread)", "Let more"),
        (
            {"blocks": 40, "registers": 192},
            "per thread, 1.43 waves: in the last one, 12 of 28 multiprocessors work)",
            "Let more blocks run",
        ),
        (
            {"blocks": 28 * 10, "registers": 40},
            ", 1.67 waves: the last one fills 66.7 % of the GPU)",
            "Launch smaller blocks",
        ),
        (
            {"name": DOUBLES},
            ", 2 of 3 arguments double or pointers to it)",
            "Compute in float where",
        ),
        ({"name": DOUBLES, "gpu": {"computeMinor": 0}}, "occupancy)", "The trace cannot tell"),
        (
            {"name": "ampere_fp16_s16816gemm", "registers": 255},
            "occupancy)",
            "The trace cannot tell",
        ),
    ],
)
def test_what_the_launch_says(tmp_path, launched, said, advice):
    """Of a kernel of 50 s, the diagnosis said only that the trace cannot tell."""
    sentence, (first, *_) = largest(tmp_path, **launched)
    assert said in sentence
    assert first.do.startswith(advice)


def says(part, of):
    return lambda folder, value: part in largest(folder, **of(value))[0]


def is_long(folder, ns):
    """Three launches of 50 s were to be repeated about 40 times each."""
    _, (advice, *_) = largest(folder, ns=ns)
    assert advice.do.startswith("Profile it on a smaller") == advice.code.endswith("-c 1 ./program")
    return advice.do.startswith("Profile it on a smaller")


test_thresholds = cases(
    Case("gpu_bound.LONG_NS", is_long, {10**9 - 1: False, 10**9: True}),
    Case(
        "filling.LOW_OCCUPANCY",
        says(
            "due to",
            lambda percent: {
                "threads": 32 * round(0.64 * percent),
                "registers": 96,
                "gpu": {"maxWarpsPerSm": 64},
            },
        ),
        {25: True, 26: False},
    ),
    Case(
        "filling.EMPTY_WAVE",
        says(
            "waves",
            lambda part: {
                "blocks": round(2_000 * (1 - part)),
                "registers": 192,
                "gpu": {"smCount": 1_000},
            },
        ),
        {0.099: False, 0.101: True},
    ),
)
