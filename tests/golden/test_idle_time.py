"""Idle time on real traces: HTA's results, exact values, and brute force over the JSON."""

from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.idle_time import IDLE_CATEGORIES, idle_time
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from tests.golden import brute_force
from tests.golden.reference import (
    JOBS,
    analysis_of,
    exact,
    hta_result,
    job_of,
    reference,
    trace_files,
)

NOT_THE_EXACT_BLOCK = {
    "compare_test": "B21, B25: gaps of overlapping work are negative there, and the 614 operations "
    "without a launch are missing",
    "b200_eager": "B21: 69 µs of negative gaps are in its kernel_wait",
    "ns_resolution": "its launches were read through floats of 0.25 µs: 76 µs of host_wait, whose "
    "launches begin up to 0.3 µs after the work before ends, are in its kernel_wait",
}
"""Jobs in which our idle times by cause differ from the exact block, with the reason."""

NOT_HTA = {
    "compare_test": "B21, B25",
    "cupti_counters": "C4: a rank without GPU work is a ValueError",
    **dict.fromkeys(
        ("ns_resolution", "h100_qwen", "h100_bert", "b200_eager", "mi250_toy"),
        "B3: HTA rounds fractional µs",
    ),
}
"""Jobs in which HTA's tables are wrong, by defect."""

EQUAL_TO_HTA = [job for job in JOBS if job not in NOT_HTA]


def by_stream(job, rank):
    """Idle time (ns) of each stream by cause."""
    table = idle_time(job, [rank]).streams
    return {
        stream: dict(zip(IDLE_CATEGORIES, rows["idle_time_ns"].tolist(), strict=True))
        for stream, rows in table.groupby("stream", sort=False)
    }


def without_zeros(idle):
    return {
        int(stream): {cause: ns for cause, ns in causes.items() if ns}
        for stream, causes in idle.items()
    }


@pytest.fixture(scope="module")
def job(case):
    return job_of(case[0])


def test_idle_times_equal_brute_force_over_the_json(case, job):
    name, rank = case
    operations = brute_force.gpu_operations(trace_files(name)[rank])
    assert by_stream(job, rank) == brute_force.idle_by_stream(operations, 30_000)


def test_idle_times_equal_the_exact_block(case, job):
    name, rank = case
    block = exact(name, rank)["idle_per_stream_consecutive_kernel_delay_30us"]
    expected = {
        stream: {cause: round(1000 * us) for cause, us in causes.items()}
        for stream, causes in block.items()
    }
    same = without_zeros(by_stream(job, rank)) == without_zeros(expected)
    assert same == (name not in NOT_THE_EXACT_BLOCK)


def test_devices_are_idle_as_in_the_temporal_breakdown(case, job):
    rank = case[1]
    devices = idle_time(job, [rank]).devices
    expected = temporal_breakdown(job, [rank]).ranks["idle_time_ns"]
    assert devices["idle_time_ns"].sum() == expected.sum()


def as_frame(result):
    index = pd.Index(result["index"], name=result["index_names"][0])
    table = pd.DataFrame(result["data"], columns=result["columns"], index=index)
    numbers = [column for column in table if column != "idle_category"]
    return table.astype(dict.fromkeys(numbers, float))


@pytest.mark.parametrize("method", ["", "#stats_all_ranks"])
@pytest.mark.parametrize("name", EQUAL_TO_HTA)
def test_tables_equal_those_of_hta(name, method):
    method = f"get_idle_time_breakdown{method}"
    arguments = reference()[name]["methods"][method]["kwargs"]
    ours = analysis_of(name).get_idle_time_breakdown(**arguments)
    for table, expected in zip(ours, hta_result(name, method)["items"], strict=True):
        if expected is None:
            assert table is None
        else:
            pd.testing.assert_frame_equal(table, as_frame(expected), check_dtype=False)


def test_columns_and_rows_are_those_of_hta_also_where_its_times_are_rounded():
    """In these traces rounding moves times, and no interval to another cause."""
    for name in ("ns_resolution", "h100_qwen", "h100_bert", "b200_eager", "mi250_toy"):
        items = hta_result(name, "get_idle_time_breakdown#stats_all_ranks")["items"]
        analysis = analysis_of(name)
        ours = analysis.get_idle_time_breakdown(visualize=False, show_idle_interval_stats=True)
        for table, expected in zip(ours, map(as_frame, items), strict=True):
            assert list(table.columns) == list(expected.columns)
            assert table.index.equals(expected.index)
            assert table["stream"].tolist() == expected["stream"].tolist()
