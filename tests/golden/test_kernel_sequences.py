"""Kernel sequences on real traces: equal to HTA where it is right, to brute force everywhere."""

from __future__ import annotations

import inspect

import pytest

from hta_widgets.analyses.kernel_sequences import kernel_sequences
from hta_widgets.trace_analysis import TraceAnalysis
from tests.conftest import REFERENCE
from tests.golden import raw_calls
from tests.golden.reference import (
    JOBS,
    analysis_of,
    hta_result,
    job_of,
    reference,
    trace_files,
)

METHOD = "get_frequent_cuda_kernel_sequences"
WHERE_HTA_IS_WRONG = {
    ("dlrm_2rank", f"{METHOD}#aten::linear#1"): "B20: 16 of 57 occurrences lie deeper and are lost",
    ("alexnet", f"{METHOD}#aten::conv2d#1"): "B5: synchronisation events are taken for kernels",
    ("ns_resolution", METHOD): "B3: ValueError, since rounded events have negative durations",
    ("h100_qwen", METHOD): "B3: ValueError",
    ("h100_bert", METHOD): "B3: ValueError",
    ("b200_eager", METHOD): "B3: ValueError",
}

FURTHER = [
    ("h100_bert", "nn.Module", 2),
    ("h100_qwen", "aten::linear", 1),
    ("h100_qwen", "aten::scaled_dot_product_attention", 1),
    ("b200_eager", "aten::linear", 1),
    ("ns_resolution", "aten::conv2d", 1),
    ("ns_resolution", "autograd::engine", 2),
    ("mi250_toy", "aten::linear", 1),
    ("mi250_toy", "Optimizer.step", 1),
    ("ddp_rank1of2", "CompiledFunction", 3),
    ("compare_control", "aten::", 2),
]
"""Queries that the reference has not, on traces where HTA fails (B3, B22) and on large ones."""


def cases():
    if not REFERENCE.is_file():
        return []
    return [
        (job, method) for job in JOBS for method in reference()[job]["methods"] if METHOD in method
    ]


def as_rows(table):
    return table.to_numpy(dtype=object).tolist()


def brute_force(job, **query):
    path = trace_files(job)[0]
    return [
        [pattern, count, float(gpu), float(cpu)]
        for pattern, count, gpu, cpu in raw_calls.kernel_sequences(path, **query)
    ]


def queries():
    """All queries, those on one trace after each other: reading it takes longer than the rest."""
    known = [
        (job, method, reference()[job]["methods"][method]["kwargs"]) for job, method in cases()
    ]
    further = [
        (job, "", {"operator_name": name, "min_pattern_len": length})
        for job, name, length in FURTHER
        if known
    ]
    return sorted([*known, *further], key=lambda query: query[0])


@pytest.mark.parametrize(("job", "method", "query"), queries())
def test_equal_to_hta_or_to_brute_force(job, method, query, tmp_path):
    ours = analysis_of(job).get_frequent_cuda_kernel_sequences(output_dir=tmp_path, **query)
    ours = as_rows(ours)
    assert ours == brute_force(job, **query)
    assert len(list(tmp_path.iterdir())) == (1 if ours else 0)
    if not method:
        assert ours
    elif (job, method) in WHERE_HTA_IS_WRONG:
        outcome = reference()[job]["methods"][method].get("result")
        assert outcome is None or outcome["data"] != ours
    else:
        assert ours == hta_result(job, method)["data"]


def test_all_occurrences_count():
    """Spec 4.1: HTA finds 41 of 57 occurrences, 18 of 19 patterns."""
    job = job_of("dlrm_2rank")
    result = kernel_sequences(job, 0, operator_name="aten::linear", min_pattern_len=1)
    assert (result.patterns["count"].sum(), len(result.patterns)) == (57, 19)


def test_the_backward_pass_is_inside_its_annotation():
    """As in HTA: 602 operations in the step, 263 of them in the backward pass."""
    job = job_of("dlrm_2rank")
    for name, expected in {
        "ProfilerStep": (602, 302_241_000, 607_312_000),
        "## backward ##": (263, 129_351_000, 234_964_000),
    }.items():
        (row,) = kernel_sequences(job, 0, operator_name=name).patterns.to_dict("records")
        assert (row["kernels"], row["gpu_time_ns"], row["cpu_time_ns"]) == expected


def test_the_arguments_of_the_reference_are_ours():
    known = set(inspect.signature(TraceAnalysis.get_frequent_cuda_kernel_sequences).parameters)
    for job, method in cases():
        assert set(reference()[job]["methods"][method]["kwargs"]) <= known
