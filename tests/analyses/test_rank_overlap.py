"""Overlap by rank against brute force, the recipe's own numbers and literal cases."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets.analyses.rank_overlap import rank_overlap
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.trace.model.events import Kind
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.collective_jobs import Clock, ddp, open_job, write_job
from tests.analyses.lane_jobs import (
    COMMUNICATE,
    COMPUTE,
    COPY,
    WHOLE_GRAPH,
    busy_rank,
    columns_job,
    kernels_job,
)

ACTIVITIES = ("compute", "communicate", "overlap", "graph", "empty")
LEVEL_KEYS = {"rank": (), "device": (3,), "stream": (3, 4)}

kernels = st.lists(
    st.tuples(
        st.sampled_from([COMPUTE, COMPUTE, COMMUNICATE, WHOLE_GRAPH, COPY]),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([7, 20]),
    ),
    max_size=8,
)
ranks = st.lists(st.tuples(kernels, st.integers(0, 25)), min_size=1, max_size=3)


def activity_at(time, work):
    running = {name for name, start, length, *_ in work if start <= time < start + length}
    if {COMPUTE, COMMUNICATE} <= running:
        return "overlap"
    if WHOLE_GRAPH in running:
        return "graph"
    return {COMPUTE: "compute", COMMUNICATE: "communicate"}.get(next(iter(running), ""), "empty")


def lanes_by_hand(works, by):
    """Key of each lane, and its kernels that are not copies, in ns since the epoch."""
    for rank, (work, origin) in enumerate(works):
        counted = [(name, start + origin, *rest) for name, start, *rest in work if name != COPY]
        keys = sorted({tuple(kernel[at] for at in LEVEL_KEYS[by]) for kernel in counted}) or [()]
        for key in keys:
            own = [k for k in counted if tuple(k[at] for at in LEVEL_KEYS[by]) == key]
            yield (rank, *key, -1, -1)[:3], own


def extent(work):
    return min(k[1] for k in work), max(k[1] + k[2] for k in work)


@pytest.mark.parametrize("common_window", [False, True])
@pytest.mark.parametrize("by", ["rank", "device", "stream"])
@given(ranks, st.integers(1, 40))
def test_against_brute_force(by, common_window, works, slices):
    job = kernels_job(
        {rank: work for rank, (work, _) in enumerate(works)},
        origins={rank: origin for rank, (_, origin) in enumerate(works)},
    )
    result = rank_overlap(job, by=by, slices=slices, common_window=common_window)
    lanes = list(lanes_by_hand(works, by))
    extents = [extent(work) for _, work in lanes if work] or [(0, 0)]
    window = min(start for start, _ in extents), max(end for _, end in extents)
    origin = min((min(k[1] for k in work) + o for work, o in works if work), default=window[0])
    edges = [window[0] + i * (window[1] - window[0]) // slices for i in range(slices + 1)]
    rows = iter(result.slices.to_dict("records"))
    for (key, work), lane in zip(lanes, result.lanes.to_dict("records"), strict=True):
        assert (lane["rank"], lane["device"], lane["stream"]) == key
        assert lane["kernels"] == len(work)
        own = window if common_window else extent(work) if work else None
        total = dict.fromkeys(ACTIVITIES, 0)
        for number in range(slices):
            row = next(rows)
            spent = dict.fromkeys((*ACTIVITIES, "outside"), 0)
            for time in range(edges[number], edges[number + 1]):
                inside = own and own[0] <= time < own[1]
                spent[activity_at(time, work) if inside else "outside"] += 1
            assert (row["rank"], row["device"], row["stream"], row["slice"]) == (*key, number)
            if extents != [(0, 0)]:
                assert row["start_ns"] == edges[number] - origin
                assert row["end_ns"] == edges[number + 1] - origin
            assert {name: row[f"{name}_ns"] for name in spent} == spent
            for name in ACTIVITIES:
                total[name] += spent[name]
        assert {name: lane[f"{name}_ns"] for name in total} == total
        assert lane["span_ns"] == sum(total.values()) == lane["end_ns"] - lane["start_ns"]
        for name in ACTIVITIES:
            share = 100 * total[name] / lane["span_ns"] if lane["span_ns"] else math.nan
            assert lane[f"{name}_percent"] == pytest.approx(share, nan_ok=True)
    assert next(rows, None) is None


@pytest.mark.parametrize("job", ["dlrm_2rank", "compare_control", "h100_bert"])
def test_the_numbers_of_the_recipe(real_traces, job):
    paths = sorted((real_traces / "kineto" / job).iterdir())
    expected = json.loads((real_traces / "converted" / job / "expected.json").read_text())
    opened = open_trace(paths, include_last_profiler_step=True, progress=False)
    result = rank_overlap(opened, slices=29)
    by_rank = [each["overlap4_ns"] for _, each in sorted(expected.items())]
    wanted = pd.DataFrame(by_rank).rename(columns=lambda name: f"{name.lower()}_ns")
    wanted["graph_ns"] = 0
    columns = [f"{name}_ns" for name in ACTIVITIES]
    pd.testing.assert_frame_equal(result.lanes[columns], wanted[columns])
    sliced = result.slices.groupby("rank")[columns].sum().reset_index(drop=True)
    pd.testing.assert_frame_equal(sliced, wanted[columns])


def a_rank(compute, communicate, empty=0):
    """Computation, then communication, then nothing before a last kernel of 1 ns."""
    return [
        (COMPUTE, 0, compute, 0, 7),
        (COMMUNICATE, compute, communicate, 0, 20),
        (COMPUTE, compute + communicate + empty, 1, 0, 7),
    ]


def test_a_straggler_communicates_less():
    works = {rank: a_rank(500 + rank, 500 - rank) for rank in range(7)} | {7: a_rank(900, 100)}
    result = rank_overlap(kernels_job(works))
    assert result.finding == (
        "Rank 7 differs most among 8 ranks: computation without communication takes 90 % of its "
        "kernel span, higher than the median of 50.4 %, and it communicates less than the others."
    )
    found = result.outliers[result.outliers["verdict"] != ""]
    assert set(found["rank"]) == {7}
    assert dict(zip(found["column"], found["direction"], strict=True)) == {
        "compute_ns": "higher",
        "communicate_ns": "lower",
        "compute_percent": "higher",
        "communicate_percent": "lower",
    }
    assert set(found["verdict_z"]) == {"Likely"}
    assert set(found["compared"]) == {8}
    assert any("|z| cannot exceed 2.47" in notice for notice in result.notices)


def test_one_with_less_to_communicate_alone_is_no_straggler_where_it_overlaps():
    hidden = [(COMPUTE, 0, 901, 0, 7), (COMMUNICATE, 400, 500, 0, 20)]
    works = {rank: a_rank(400 + rank, 500 - rank) for rank in range(5)} | {5: hidden}
    finding = rank_overlap(kernels_job(works)).finding
    assert finding.startswith("Rank 5 differs most among 6 ranks: ")
    assert "communicates less" not in finding


def test_several_stand_out():
    works = {rank: a_rank(500 + rank, 500 - rank) for rank in range(10)}
    works |= {3: a_rank(700, 300), 8: a_rank(600, 400)}
    finding = rank_overlap(kernels_job(works)).finding
    assert finding.startswith("2 of 10 ranks are far from the median (3, 8), rank 3 furthest: ")


def test_of_four_ranks_t_decides():
    finding = rank_overlap(kernels_job({r: a_rank(500, 500) for r in range(3)} | {3: a_rank(1, 9)}))
    assert "Rank 3 differs most among 4 ranks: " in finding.finding
    assert finding.finding.endswith("lower than the median of 50 %.")


def test_small_deviations_do_not_matter():
    works = {rank: a_rank(50_000, 50_000) for rank in range(8)} | {8: a_rank(50_400, 49_600)}
    result = rank_overlap(kernels_job(works))
    assert result.finding.startswith("None of 9 ranks is far from the median: only computing")
    assert set(result.outliers["verdict"]) == {""}
    assert result.outliers["modified_z"].abs().max() > 3.5


def node_job(slow_node, nodes=4, per_node=8):
    works = {
        rank: a_rank(500 + rank % per_node - (300 if rank // per_node == slow_node else 0), 300)
        for rank in range(nodes * per_node)
    }
    return columns_job(
        {rank: [np.array(c) for c in zip(*work, strict=True)] for rank, work in works.items()},
        sources={
            rank: f"type_profile_7_node{rank // per_node}_rank{rank}.parquet" for rank in works
        },
    )


def test_a_whole_node_stands_out():
    result = rank_overlap(node_job(2))
    assert result.finding.startswith("Node 2 (ranks 16-23) differs most among 4 nodes: ")
    table = result.nodes[result.nodes["column"] == "compute_percent"].set_index("node")
    assert table["verdict"].tolist() == ["", "", "Outlier", ""]
    assert table["lanes"].tolist() == [8, 8, 8, 8]
    assert table.loc[2, "direction"] == "lower"
    mine = result.lanes[result.lanes["node"] == 2]["compute_percent"]
    assert table.loc[2, "value"] == mine.median()
    outliers = result.outliers[result.outliers["column"] == "compute_percent"]
    assert set(outliers[outliers["node"] == 2]["node_median"]) == {mine.median()}
    assert result.lanes["label"][31] == "profile_7_node3_rank31"


@pytest.mark.parametrize(("nodes", "per_node"), [(2, 8), (4, 1)])
def test_few_nodes_are_not_compared(nodes, per_node):
    result = rank_overlap(node_job(1, nodes, per_node))
    assert set(result.nodes["verdict"]) == {""}
    assert result.nodes["score"].isna().all()


def test_streams_are_compared_with_those_of_the_same_number():
    works = {rank: a_rank(500 + rank, 500) for rank in range(6)}
    works[4] = [*a_rank(400, 500), (COMPUTE, 350, 10, 0, 33)]
    result = rank_overlap(kernels_job(works), by="stream")
    assert result.lanes[["rank", "stream"]].values.tolist()[-5:] == [
        [4, 7],
        [4, 20],
        [4, 33],
        [5, 7],
        [5, 20],
    ]
    compared = result.outliers.groupby("stream")["compared"].agg(set).to_dict()
    assert compared == {7: {6}, 20: {6}, 33: {1}}
    assert result.nodes.empty


def test_devices_of_a_rank():
    work = [(COMPUTE, 0, 10, 0, 7), (COMPUTE, 5, 10, 1, 7)]
    job = kernels_job({0: work})
    merged = rank_overlap(job)
    assert merged.lanes["compute_ns"].tolist() == [15]
    assert "2 GPUs are combined into one lane (by='device' separates them)" in merged.notices
    apart = rank_overlap(job, by="device")
    assert apart.lanes["compute_ns"].tolist() == [10, 10]
    assert apart.finding == (
        "Rank 0 · GPU 0 spends 100 % of its kernel span (10 ns) only computing, 0 % only "
        "communicating, 0 % on both and 0 % without a kernel; rank 0 · GPU 1 spends 100 % of its "
        "kernel span (10 ns) only computing, 0 % only communicating, 0 % on both and 0 % without "
        "a kernel (two GPUs are too few to compare with their median)."
    )


def test_common_window_shows_a_late_start():
    works = {0: [(COMPUTE, 0, 100, 0, 7)], 1: [(COMPUTE, 0, 40, 0, 7)]}
    job = kernels_job(works, origins={0: 1000, 1: 1050})
    own, common = rank_overlap(job, slices=2), rank_overlap(job, slices=2, common_window=True)
    assert own.lanes["empty_ns"].tolist() == [0, 0]
    assert own.lanes[["start_ns", "end_ns"]].values.tolist() == [[0, 100], [50, 90]]
    assert own.slices["outside_ns"].tolist() == [0, 0, 50, 10]
    assert common.lanes["empty_ns"].tolist() == [0, 60]
    assert common.slices["empty_ns"].tolist() == [0, 0, 50, 10]
    assert common.slices["outside_ns"].tolist() == [0] * 4


def test_graphs_are_compared_where_there_are_any():
    without = kernels_job({rank: a_rank(50, 50) for rank in range(5)})
    assert "graph_ns" not in set(rank_overlap(without).outliers["column"])
    works = {rank: a_rank(50, 49, empty=100) for rank in range(4)}
    works[4] = [*works[0], (WHOLE_GRAPH, 99, 100, 0, 7)]
    result = rank_overlap(kernels_job(works))
    graph = result.outliers[result.outliers["column"] == "graph_percent"]
    assert graph["verdict"].tolist() == ["", "", "", "", "Outlier"]
    assert "time in CUDA graphs of unknown content takes 50 % of its kernel span" in result.finding


def test_who_communicates_less_is_not_known_where_graphs_may_communicate():
    works = {rank: a_rank(50, 50) for rank in range(7)} | {7: a_rank(80, 20)}
    assert "communicates less than the others" in rank_overlap(kernels_job(works)).finding
    graphs = {rank: [*work, (WHOLE_GRAPH, 101, 1, 0, 7)] for rank, work in works.items()}
    assert "communicates less" not in rank_overlap(kernels_job(graphs)).finding


def test_findings_name_the_time_in_graphs():
    works = {0: [(COMPUTE, 0, 10, 0, 7), (WHOLE_GRAPH, 10, 30, 0, 7)]}
    assert rank_overlap(kernels_job(works)).finding == (
        "Rank 0 spends 25 % of its kernel span (40 ns) only computing, 0 % only communicating, "
        "75 % in CUDA graphs of unknown content, 0 % on both and 0 % without a kernel."
    )
    alike = rank_overlap(kernels_job(dict.fromkeys(range(5), works[0])))
    assert alike.finding == (
        "None of 5 ranks is far from the median: only computing 25 %, only communicating 0 %, CUDA "
        "graphs of unknown content 75 %, both 0 % and no kernel 0 % of the kernel span."
    )


def test_time_in_which_some_kernels_ran():
    work = [("Compute", 0, 10, -1, -1), ("Communicate", 5, 10, -1, -1)]
    lanes = rank_overlap(kernels_job({0: work}, kind=Kind.BUSY), by="stream").lanes
    assert lanes[["compute_ns", "communicate_ns", "overlap_ns"]].values.tolist() == [[5, 5, 5]]


def test_ranks_that_were_not_recorded_together():
    works = {0: [(COMPUTE, 0, 10, 0, 7)], 1: [(COMPUTE, 0, 10, 0, 7)]}
    for common_window in (False, True):
        apart = rank_overlap(kernels_job(works, origins={1: 10**8}), common_window=common_window)
        assert any("clocks are not aligned" in notice for notice in apart.notices)
    together = rank_overlap(kernels_job(works)).notices
    assert not any("clocks are not aligned" in notice for notice in together)


def test_ranks_without_kernels():
    job = kernels_job({0: [(COMPUTE, 0, 10, 0, 7)], 1: [(COPY, 0, 99, 0, 7)], 2: []})
    result = rank_overlap(job)
    assert result.lanes["kernels"].tolist() == [1, 0, 0]
    assert result.lanes["span_ns"].tolist() == [10, 0, 0]
    assert set(result.outliers["rank"]) == {0}
    assert "ranks 1-2: no computation or communication kernels" in result.notices
    nothing = rank_overlap(job, [1, 2])
    assert nothing.finding == "No kernels on the selected ranks."
    assert nothing.outliers.empty
    assert list(nothing.outliers) == list(result.outliers)
    assert list(nothing.nodes) == list(result.nodes)


def test_ranks_ascend():
    works = {rank: a_rank(5, 5) for rank in (10, 2, 0)}
    assert rank_overlap(kernels_job(works), [10, 2]).lanes["rank"].tolist() == [2, 10]


def test_what_cannot_be_asked():
    job = kernels_job({0: a_rank(5, 5)})
    with pytest.raises(ParameterError, match="by must be one of 'rank', 'device', 'stream'"):
        rank_overlap(job, by="node")
    with pytest.raises(ParameterError, match="slices must be 1 or more, got 0"):
        rank_overlap(job, slices=0)
    with pytest.raises(UnknownRankError):
        rank_overlap(job, [7])


def test_slices_of_many_ranks_add_up():
    job = columns_job({rank: busy_rank(rank, 300) for rank in range(64)})
    for slices in (1, 30, 200):
        result = rank_overlap(job, slices=slices)
        columns = [f"{name}_ns" for name in ACTIVITIES]
        sums = result.slices.groupby("rank")[columns].sum().reset_index(drop=True)
        pd.testing.assert_frame_equal(sums, result.lanes[columns])


@pytest.mark.parametrize("apart", [0, 3_000_000_000])
def test_time_slices_are_on_aligned_clocks(tmp_path, apart):
    """Whatever the clock of rank 2 says, its slices are those of the other ranks' time."""
    scene = ddp(3)
    job = open_job(write_job(tmp_path, scene, clocks={2: Clock(apart)}))
    result = rank_overlap(job, slices=7)
    starts = [scene.operations[0].arrivals[rank] - 4_000 for rank in range(3)]
    first_event = min(starts) - 5_000
    assert result.lanes["start_ns"].tolist() == [start - first_event for start in starts]
    assert set(result.lanes["end_ns"]) == {scene.operations[-1].end - first_event}
    said = [notice for notice in result.notices if "their recorded clocks are" in notice]
    words = (
        "ranks are aligned by the ends of their collectives (to 0 ns); "
        "their recorded clocks are up to 3 s apart"
    )
    assert said == ([words] if apart else [])
    assert not any("clocks are not aligned" in notice for notice in result.notices)
