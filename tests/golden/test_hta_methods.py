"""HTA's remaining methods on real traces: exact values computed independently."""

from __future__ import annotations

import hashlib
import json
from functools import cache

import pytest

from hta_widgets import TraceAnalysis
from tests.conftest import REAL_TRACES, REFERENCE

MORE = REFERENCE.parent / "hta_more.json"
NO_LAUNCH = "(no launch in trace)"
STATISTICS = {
    "count": "count",
    "sum (us)": "sum_us",
    "max (us)": "max_us",
    "min (us)": "min_us",
    "mean (us)": "mean_us",
    "stddev": "std_us",
}


@cache
def references():
    return json.loads(MORE.read_text()) if MORE.is_file() else {"exact": {}}


pytestmark = pytest.mark.skipif(not MORE.is_file(), reason=f"no reference results at {MORE}")


@cache
def hta(job):
    folder = next(REAL_TRACES.glob(f"*/{job}"))
    return TraceAnalysis(trace_dir=folder, progress=False)


@pytest.fixture(scope="module", params=references()["exact"])
def reference(request):
    job, _, rank = request.param.partition("/rank")
    analysis = hta(job)
    return analysis, int(rank or analysis.job.ranks[0]), references()["exact"][request.param]


def test_kernels_by_annotation(reference):
    analysis, rank, exact = reference
    table = analysis.get_gpu_kernels_with_user_annotations(rank)
    assert len(table) == exact["gpu_rows"]
    is_own = table["annotation_source"] == "launch"
    launched = table["index_correlation"] > 0
    table["own"] = table["s_user_annotation"].where(is_own, "").where(launched, NO_LAUNCH)
    table["handed"] = table["s_user_annotation"].where(launched, NO_LAUNCH)
    for column, key in (("own", ""), ("handed", "_with_handover")):
        sums = table.groupby(column)["dur"].agg(["size", "sum"])
        for name, expected in (exact.get(f"kernels_by_annotation{key}") or {}).items():
            assert sums.loc[name].tolist() == pytest.approx(expected, abs=0.001), name


def test_breakdown(reference):
    analysis, rank, exact = reference
    table = analysis.get_gpu_user_annotation_breakdown(visualize=False)
    for name, expected in (exact["gpu_annotations"] or {}).items():
        (row,) = table[(table["name"] == name) & (table["rank"] == rank)].to_dict("records")
        ours = {theirs: row[column] for column, theirs in STATISTICS.items()}
        assert ours == pytest.approx(expected, abs=0.001)


def test_aten_operators(reference):
    analysis, rank, exact = reference
    tables = analysis.get_aten_op_kernels_and_delay([rank], include_memory_events=False)
    table, expected = tables[rank], exact.get("aten_all") or exact["aten_hta_launchers"]
    assert len(table) == expected["rows"]
    assert table["occurrence_count"].sum() == expected["occurrences"]
    assert (table["occurrence_count"] * table["kernels"]).sum() == expected["kernels"]
    table["sha"] = [
        hashlib.sha1(sequence.encode(), usedforsecurity=False).hexdigest()[:10]
        for sequence in table["kernel_sequence"]
    ]
    for row in expected["top"]:
        own = (table["aten_op_name"] == row["op"]) & (table["sha"] == row["sequence_sha"])
        columns = ["occurrence_count", "avg_aten_op_launch_delay", "avg_runtime_delay"]
        (numbers,) = table.loc[own, columns].to_numpy().tolist()
        delays = row["launch_delay_us"], row["runtime_delay_us"]
        assert numbers == pytest.approx([row["count"], *delays], abs=0.0011)


def test_full_queues(reference):
    analysis, rank, exact = reference
    series = analysis.get_queue_length_time_series([rank])
    table = analysis.get_time_spent_blocked_on_full_queue(series)
    blocked = exact.get("blocked_on_full_queue") or {}
    assert table["blocked_calls"].sum() == sum(each["calls"] for each in blocked.values())
    expected_us = sum(each["blocked_us"] for each in blocked.values())
    assert table["blocked (us)"].sum() == pytest.approx(expected_us, rel=1e-4)


def test_time_at_a_length(reference):
    analysis, rank, exact = reference
    if any(name in exact for name in ("queue_all_launches",)):
        return  # the reference counts the launches of HTA only
    series = analysis.get_queue_length_time_series([rank])
    table = analysis.get_time_spent_blocked_on_full_queue(series, 10).set_index("stream")
    for name, numbers in exact["queue"].items():
        if "ge10_us" in numbers:
            stream = int(name.rpartition("stream")[2])
            found = table.loc[stream, "duration_at_max_queue_length"]
            assert found == pytest.approx(numbers["ge10_us"], abs=0.002)


def test_stragglers():
    for count in (1, 2, 3, 4):
        found = hta("dlrm_8rank").get_potential_stragglers(num_candidates=count)
        assert set(found) <= {4, 5, 7}
        assert len(found) == min(count, 3)
    assert hta("dlrm_2rank").get_potential_stragglers() == []


def test_both_streams_have_a_row():
    analysis = hta("alexnet")
    series = analysis.get_queue_length_time_series()
    table = analysis.get_time_spent_blocked_on_full_queue(series, 1).set_index("stream")
    assert table["duration_at_max_queue_length"].to_dict() == {7: 3_065_624, 20: 493}
