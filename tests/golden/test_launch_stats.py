"""Launch statistics on real traces: HTA's rows, and brute force over the JSON."""

from __future__ import annotations

from collections import Counter

import pytest

from hta_widgets.analyses.launch_stats import launch_stats
from tests.golden import brute_force
from tests.golden.reference import (
    JOBS,
    analysis_of,
    hta_result,
    job_of,
    opened,
    reference,
    trace_files,
)

NOT_HTA = {
    "compare_test": "B12: 4205 operations of graphs, and 3720 that are no memory operations",
    "mi250_toy": "B3, B12: HTA knows no hip launch; fractional µs",
    "h100_qwen": "B3, B12: fractional µs; one cuLaunchKernel",
    "h100_bert": "B3, B12: fractional µs; 22 cuLaunchKernel",
    "b200_eager": "B3, B12: fractional µs; 221 cuLaunchKernel and cuLaunchKernelEx",
    "ns_resolution": "B3: fractional µs",
}
"""Jobs in which HTA's rows are wrong or incomplete, by defect."""

ROWS_MORE = {
    "compare_test": (4205, 3720),
    "mi250_toy": (16, 14),
    "h100_qwen": (1, 1),
    "h100_bert": (22, 22),
    "b200_eager": (221, 221),
}
"""Rows that HTA lacks (spec B12): with and without memory operations."""

METHODS = (
    "get_cuda_kernel_launch_stats",
    "get_cuda_kernel_launch_stats#no_memory_events",
    "get_cuda_kernel_launch_stats#all_ranks",
)
COLUMNS = ["correlation", "cpu_duration", "gpu_duration", "launch_delay"]
CASES = [
    (job, method)
    for job in JOBS
    for method in METHODS
    if "all_ranks" not in method or job == JOBS[0]
]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_rows_are_those_of_hta(name, method):
    """Equal in order too, apart from the rows that HTA lacks and from its rounding."""
    arguments = reference()[name]["methods"][method]["kwargs"]
    analysis = analysis_of(name)
    ours = analysis.get_cuda_kernel_launch_stats(**arguments)
    items = hta_result(name, method)["items"]
    assert [str(rank) for rank in ours] == list(items)
    for rank, expected in items.items():
        table = ours[int(rank)]
        more = ROWS_MORE.get(name, (0, 0))["no_memory" in method]
        assert list(table.columns) == expected["columns"] == COLUMNS
        assert len(table) == number_of_rows(expected) + more
        assert table.index.tolist() == list(range(len(table)))
        if name not in NOT_HTA:
            assert_equal(table, expected)
        elif name == "compare_test":
            rows = Counter(table.itertuples(index=False, name=None))
            assert not Counter(map(tuple, listed_rows(expected))) - rows
        else:
            assert {row[0] for row in listed_rows(expected)} <= set(table["correlation"])


def number_of_rows(expected):
    return expected["n_rows"] if expected.get("truncated") else len(expected["data"])


def listed_rows(expected):
    if expected.get("truncated"):
        return expected["head_data"] + expected["tail_data"]
    return expected["data"]


def assert_equal(table, expected):
    """Compare all rows, or those that the reference lists, and the sums of the columns."""
    rows = [list(row) for row in table.itertuples(index=False, name=None)]
    if not expected.get("truncated"):
        assert rows == expected["data"]
        return
    head, tail = expected["head_data"], expected["tail_data"]
    assert rows[: len(head)] == head
    assert rows[-len(tail) :] == tail
    for column, sums in expected["column_sums"].items():
        found = table[column]
        assert (found.sum(), found.min(), found.max()) == (sums["sum"], sums["min"], sums["max"])


@pytest.mark.parametrize("name", JOBS)
def test_rows_equal_brute_force_over_the_json(name):
    files = trace_files(name)
    result = launch_stats(job_of(name))
    for rank, path in files.items():
        operations = brute_force.gpu_operations(path)
        launched = [each for each in operations if each["call"] is not None]
        first = {}
        for each in sorted(launched, key=lambda each: each["start"]):
            first.setdefault(id(each["call"]), each)
        expected = Counter(
            (
                each["correlation"],
                each["call"]["end"] - each["call"]["start"],
                each["end"] - each["start"],
                max(0, each["start"] - each["call"]["end"])
                if each is first[id(each["call"])]
                else -1,
            )
            for each in launched
        )
        table = result.launches[rank].iloc[:, :4].fillna({"launch_delay_ns": -1})
        assert Counter(table.itertuples(index=False, name=None)) == expected
        missing = result.ranks.set_index("rank")["without_launch"][rank]
        assert missing == len(operations) - len(launched)


@pytest.mark.parametrize("job", ["sglang_decode_graph", "compare_test"])
def test_a_graph_is_late_once(real_traces, job):
    """In a decode step, 544 operations are launched by one call, and wait for each other.

    Before its first, the stream was busy for 463 ms with work from before the recording.
    """
    (path,) = (real_traces / "kineto" / job).iterdir()
    (row,) = launch_stats(opened(path)).ranks.to_dict("records")
    operations = sorted(brute_force.gpu_operations(path), key=lambda each: each["start"])
    free, first = {}, {}
    for each in operations:
        if each["call"] is not None:
            first.setdefault(id(each["call"]), (each, free.get(each["stream"], 0)))
        free[each["stream"]] = max(free.get(each["stream"], 0), each["end"])
    late = [
        (each["start"] - each["call"]["end"], each["start"] - max(each["call"]["end"], free_ns))
        for each, free_ns in first.values()
        if each["start"] - each["call"]["end"] > 100_000
    ]
    assert row["calls"] == len(first)
    assert row["operations"] > row["calls"]
    assert row["launch_delay_outliers"] == len(late)
    late_on_free = sum(free_ns > 100_000 for _, free_ns in late)
    assert row["free_stream_outliers"] == late_on_free - (job == "sglang_decode_graph")
