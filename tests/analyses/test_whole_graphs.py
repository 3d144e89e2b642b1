"""CUDA graphs recorded as a whole: one class in every analysis, against brute force."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hta_widgets import TraceAnalysis
from hta_widgets.analyses import (
    collectives,
    compare,
    duration_tails,
    idle_time,
    kernel_breakdown,
    launch_overlap,
    launch_stats,
    memory_bandwidth,
    overlap,
    queue_length,
    rank_overlap,
    step_table,
    temporal_breakdown,
)
from hta_widgets.analyses.budget.classes import BUDGET_CLASSES
from hta_widgets.diagnosis import diagnose
from hta_widgets.figures.kernel_breakdown import kernel_types, top_kernels
from hta_widgets.figures.overlap import overlap as draw_overlap
from hta_widgets.figures.rank_overlap import images_over_time, strips_over_time, time_by_lane
from hta_widgets.figures.temporal_breakdown import temporal_breakdown as draw_temporal_breakdown
from hta_widgets.panels import Dashboard, KernelBreakdownPanel
from hta_widgets.panels.bands.gpu_bound import gpu_bound
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.lane_jobs import COMMUNICATE, COMPUTE, COPY, WHOLE_GRAPH, kernels_job
from tests.nsys_export import GRAPH, KERNEL, MEMCPY, RUNTIME, STRINGS, call, kernel, on_gpu, strings
from tests.nsys_export import write_sqlite as write

TYPE_OF = {
    COMPUTE: "COMPUTATION",
    COMMUNICATE: "COMMUNICATION",
    COPY: "MEMORY",
    WHOLE_GRAPH: "CUDA_GRAPH",
}
ORDER = list(TYPE_OF.values())
WORDS = "CUDA graphs of unknown content"

work = st.lists(
    st.tuples(
        st.sampled_from(list(TYPE_OF)),
        st.integers(0, 30),
        st.integers(0, 12),
        st.sampled_from([0, 0, 1]),
        st.sampled_from([7, 20]),
    ),
    min_size=1,
    max_size=9,
)


def moments(operations):
    """Types that run on each device in each ns, from its first start to its last end."""
    for device in sorted({each[3] for each in operations}):
        own = [each for each in operations if each[3] == device]
        first, last = min(each[1] for each in own), max(each[1] + each[2] for each in own)
        yield [
            {TYPE_OF[name] for name, start, length, *_ in own if start <= time < start + length}
            for time in range(first, last)
        ]


def total(table, *columns):
    return [int(table[f"{column}_ns"].sum()) for column in columns]


@given(work)
def test_times_against_brute_force(operations):
    job = kernels_job({0: operations})
    seen = [running for of_device in moments(operations) for running in of_device]
    compute = sum("COMPUTATION" in each for each in seen)
    graph = sum("CUDA_GRAPH" in each and "COMPUTATION" not in each for each in seen)
    idle = sum(not each for each in seen)
    temporal = temporal_breakdown(job).ranks
    times = ("compute_time", "graph_time", "non_compute_time", "idle_time")
    assert total(temporal, *times) == [compute, graph, len(seen) - compute - graph - idle, idle]
    assert sum(total(temporal, *times)) == temporal["kernel_time_ns"].sum() == len(seen)
    assert idle_time(job).devices["idle_time_ns"].sum() == idle

    talking = [each for each in seen if "COMMUNICATION" in each]
    hidden = sum("COMPUTATION" in each for each in talking)
    beside = sum("CUDA_GRAPH" in each and "COMPUTATION" not in each for each in talking)
    table = overlap(job).ranks
    parts = ("overlap_time", "beside_graph", "exposed_communication")
    assert total(table, *parts) == [hidden, beside, len(talking) - hidden - beside]
    assert total(table, "cuda_graph_time") == [sum("CUDA_GRAPH" in each for each in seen)]
    assert sum(total(table, *parts)) == table["communication_time_ns"].sum()


@given(work, st.booleans())
def test_kernels_against_brute_force(operations, with_memory):
    result = kernel_breakdown(kernels_job({0: operations}), include_memory_kernels=with_memory)
    wanted = [each for each in ORDER if with_memory or each != "MEMORY"]
    expected = Counter(
        " overlapping ".join(each for each in wanted if each in running)
        for of_device in moments(operations)
        for running in of_device
        if running & set(wanted)
    )
    assert dict(zip(result.types["kernel_type"], result.types["sum_ns"], strict=True)) == expected
    counts = Counter(TYPE_OF[name] for name, *_ in operations if TYPE_OF[name] in wanted)
    assert result.every_kernel.set_index("kernel_type")["count"].to_dict() == counts
    if with_memory:
        temporal = temporal_breakdown(kernels_job({0: operations})).ranks
        busy_ns = (temporal["kernel_time_ns"] - temporal["idle_time_ns"]).sum()
        assert result.types["sum_ns"].sum() == busy_ns


@given(work, work)
def test_compared_times_add_up(before, after):
    times = compare(kernels_job({0: before}), kernels_job({0: after}), per="job").times
    for side in ("first_ns", "second_ns"):
        ns = times.set_index("time")[side]
        parts = ns.reindex(["compute", "graph", "non_compute"], fill_value=0)
        assert parts.sum() == ns["busy"] == ns["span"] - ns["idle"]
        parts = ns.reindex(["overlap", "beside_graph", "exposed_communication"], fill_value=0)
        assert parts.sum() == ns["communication"]
    has_graphs = WHOLE_GRAPH in {name for name, *_ in before + after}
    assert ("graph" in set(times["time"])) <= has_graphs


@pytest.fixture
def export(tmp_path):
    """A job whose default nsys recording has a graph between two kernels and beside NCCL."""
    tables = {
        KERNEL: [
            kernel(0, 10_000, 1, correlation=1),
            kernel(60_000, 90_000, 2, correlation=2, stream=20),
            kernel(95_000, 100_000, 1, correlation=5),
        ],
        GRAPH: [
            on_gpu(10_000, 50_000, correlation=3, graphId=4),
            on_gpu(50_000, 80_000, correlation=4, graphId=9),
        ],
        MEMCPY: [on_gpu(90_000, 95_000, copyKind=1, bytes=640)],
        RUNTIME: [
            call(-9_000, -8_000, 3, correlation=1),
            call(-7_000, -6_000, 4, correlation=3),
            call(-5_000, -4_000, 4, correlation=4),
            call(-3_000, -2_000, 3, correlation=2),
            call(-2_000, -1_000, 3, correlation=5),
        ],
        STRINGS: strings("gemm", "ncclDevKernel_AllReduce", "cudaLaunchKernel", "cudaGraphLaunch"),
    }
    return write(tmp_path / "rank0.sqlite", tables)


def test_every_analysis_names_the_graphs(export):
    job = open_trace(export, progress=False)
    assert any(each.startswith("2 CUDA graph launches are recorded as") for each in job.notices)
    temporal = temporal_breakdown(job)
    (row,) = temporal.ranks.to_dict("records")
    assert (row["compute_time_ns"], row["graph_time_ns"]) == (15_000, 70_000)
    assert (row["non_compute_time_ns"], row["idle_time_ns"], row["operations"]) == (15_000, 0, 6)
    assert temporal.finding == (
        "The GPU of rank 0 is idle 0 % of the GPU span (0 ns of 100 µs), computing 15 %, in "
        f"{WORDS} 70 %, communicating (not hidden) 10 %, copying 5 %."
    )
    kernels = kernel_breakdown(job)
    assert kernels.types.iloc[0].to_dict() == {
        "kernel_type": "CUDA_GRAPH",
        "sum_ns": 50_000,
        "percentage": 50.0,
    }
    graphs = kernels.kernels[kernels.kernels["kernel_type"] == "CUDA_GRAPH"]
    assert graphs[["name", "sum_ns", "count"]].to_numpy().tolist() == [
        ["CUDA graph 4", 40_000, 1],
        ["CUDA graph 9", 30_000, 1],
    ]
    assert kernels.finding == (
        "CUDA graphs recorded as a whole alone take 50 % of the busy time. CUDA graph "
        "4 takes 33.3 % of the time of kernels, graphs, copies and memsets: 40 µs in 1 launch."
    )
    assert overlap(job).finding == (
        "On rank 0, 33.3 % of the communication time is not hidden (10 µs of 30 µs) and "
        f"66.7 % runs alongside {WORDS} (20 µs). It is not known whether the CUDA graphs that were "
        "recorded as a whole (70 µs) communicate."
    )
    (lane,) = rank_overlap(job).lanes.to_dict("records")
    parts = ("compute", "communicate", "overlap", "graph", "empty")
    assert [lane[f"{part}_ns"] for part in parts] == [15_000, 10_000, 0, 70_000, 5_000]
    assert duration_tails(job).categories["category"].tolist().count("graph") == 2
    launched = launch_stats(job).launched
    assert launched["kernel_type"].tolist().count("CUDA_GRAPH") == 1
    assert launch_overlap(job).launch_apis["launch_api"].tolist() == [
        "cudaGraphLaunch",
        "cudaLaunchKernel",
    ]
    assert queue_length(job).streams["operations"].tolist() == [4, 1]
    assert memory_bandwidth(job).transfers["name"].tolist() == ["Memcpy HtoD"]


def test_graphs_hide_communication_and_compute(export):
    job = open_trace(export, progress=False)
    exposed_ns = overlap(job).ranks["exposed_communication_ns"].sum()
    assert collectives(job).kernels["exposed_ns"].sum() == exposed_ns == 10_000
    (row,) = step_table(job).steps.to_dict("records")
    assert (row["compute_ns"], row["copies_ns"]) == (85_000, 5_000)
    assert (row["communication_ns"], row["hidden_communication_ns"]) == (10_000, 20_000)
    assert sum(row[f"{name}_ns"] for name in BUDGET_CLASSES) == row["period_ns"]


def test_tables_of_hta_keep_their_columns(export):
    analysis = TraceAnalysis({0: export})
    (row,) = analysis.get_temporal_breakdown(visualize=False).to_dict("records")
    assert list(row)[1:5] == [
        "idle_time(us)",
        "compute_time(us)",
        "non_compute_time(us)",
        "kernel_time(us)",
    ]
    assert (row["non_compute_time(us)"], row["non_compute_time_pctg"]) == (85, 85)
    assert row["idle_time_pctg"] + row["compute_time_pctg"] + row["non_compute_time_pctg"] == 100
    types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    assert "CUDA_GRAPH" in set(types["kernel_type"]) & set(kernels["kernel_type"])
    (row,) = analysis.get_comm_comp_overlap(visualize=False).to_dict("records")
    assert row["comp_comm_overlap_pctg"] == 0


def test_figures_show_the_graphs_where_there_are_any(export):
    def names(drawn):
        return [each.get("name") for each in drawn.data]

    with_graphs = open_trace(export, progress=False)
    without = kernels_job({0: [(COMPUTE, 0, 10, 0, 7), (COMMUNICATE, 20, 9, 0, 20)]})
    for job, shown in ((with_graphs, True), (without, False)):
        assert ("CUDA graphs" in names(draw_temporal_breakdown(temporal_breakdown(job)))) == shown
        assert ("During CUDA graphs" in names(draw_overlap(overlap(job)))) == shown
        result = rank_overlap(job)
        for draw in (time_by_lane, images_over_time, strips_over_time):
            drawn = draw(result)
            assert ("CUDA graphs" in names(drawn)) == shown
            assert drawn.figure()
        axes = [key for key in time_by_lane(result).layout if key.startswith("xaxis")]
        assert len(axes) == 4 + shown
        breakdown = kernel_breakdown(job)
        labels = kernel_types(breakdown).layout["yaxis"]["ticktext"]
        assert any("CUDA graphs" in label for label in labels) == shown
        assert len(top_kernels(breakdown, kernel_type="CUDA_GRAPH").data[0]["y"]) == 2 * shown


def test_panels(export):
    panel = KernelBreakdownPanel({0: export}, kernel_type="CUDA_GRAPH")
    assert panel.table["name"].tolist() == ["CUDA graph 4", "CUDA graph 9"]
    panel.close()
    Dashboard({0: export}).close()
    without = kernels_job({0: [(COMPUTE, 0, 9, 0, 7)]})
    nothing = KernelBreakdownPanel(without, kernel_type="CUDA_GRAPH")
    words = "No CUDA graphs were recorded as a whole on the selected ranks."
    assert nothing.nothing_to_show(nothing.result) == words


def test_a_rule_says_what_a_graph_does(export):
    job = open_trace(export, kernel_rules={"COMPUTATION": "^CUDA graph 4$"}, progress=False)
    (row,) = temporal_breakdown(job).ranks.to_dict("records")
    assert (row["compute_time_ns"], row["graph_time_ns"]) == (55_000, 30_000)
    (lane,) = rank_overlap(job).lanes.to_dict("records")
    assert (lane["compute_ns"], lane["graph_ns"]) == (55_000, 30_000)


@pytest.mark.parametrize(("graph_ns", "hides"), [(10_000_000, True), (1_000, False)])
def test_a_kernel_next_to_them_is_not_most_of_the_compute_time(tmp_path, graph_ns, hides):
    """Of 7.81 s in ten graphs, a kernel of 5 µs had "63.2 % of the compute time"."""
    period_ns, count = graph_ns + 60_000, 5
    begins = [1_000_000 + number * period_ns for number in range(count)]
    tables = {
        KERNEL: [kernel(at, at + 60_000, 1, correlation=100 + n) for n, at in enumerate(begins)],
        GRAPH: [
            on_gpu(at + 60_000, at + period_ns, correlation=n + 1, graphId=4)
            for n, at in enumerate(begins)
        ],
        RUNTIME: [
            *(call(10_000 * n, 10_000 * n + 4_000, 3, correlation=100 + n) for n in range(count)),
            *(
                call(10_000 * n + 5_000, 10_000 * n + 9_000, 4, correlation=n + 1)
                for n in range(count)
            ),
            call(60_000, begins[-1] + period_ns, 5, correlation=900),
        ],
        STRINGS: strings(
            *("gemm", "ncclDevKernel_AllReduce", "cudaLaunchKernel", "cudaGraphLaunch"),
            "cudaDeviceSynchronize",
        ),
    }
    job = open_trace(write(tmp_path / "graphs.sqlite", tables), progress=False)
    found = diagnose(job)
    said = "CUDA graphs that were recorded as a whole, without their kernels, take 99.4 % of the"
    assert found.finding.startswith(said) is hides
    (line,) = found.to_try
    said = line.sentence
    assert said.startswith(
        "99.4 % of the compute time is in CUDA graphs that were recorded as a whole (5 launches, "
        "median 10 ms): which kernels take it is not known."
        if hides
        else "gemm is the largest"
    )
    assert ("--cuda-graph-trace=node" in line.advice[0].code) is hides
    assert len(found.proof(line).intervals) == count
    assert (gpu_bound(job, found) is None) is hides


def test_without_recognised_communication_graphs_may_communicate():
    job = kernels_job({0: [(COMPUTE, 0, 10, 0, 7), (WHOLE_GRAPH, 10, 30, 0, 7)]})
    assert overlap(job).finding == (
        "No communication kernels were recognised on the selected ranks. It is not known whether "
        "the CUDA graphs that were recorded as a whole (30 ns) communicate."
    )


def test_graphs_of_two_jobs_are_one_kernel(tmp_path, export):
    tables = {GRAPH: [on_gpu(0, 60_000, correlation=3, graphId=12)]}
    other = open_trace(write(tmp_path / "other.sqlite", tables), progress=False)
    result = compare(open_trace(export, progress=False), other)
    graphs = result.kernels[result.kernels["kernel_type"] == "CUDA_GRAPH"]
    (row,) = graphs.to_dict("records")
    assert (row["kernel"], row["in"]) == ("CUDA graphs", "both")
    assert (row["total_first_ns"], row["total_second_ns"]) == (70_000, 60_000)
    assert (row["count_first"], row["count_second"]) == (2, 1)
