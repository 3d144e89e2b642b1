"""HTA's critical path: its tables add up, its graph reads as HTA's, and the copy shows it."""

from __future__ import annotations

import inspect
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from hta_widgets import TraceAnalysis, open_trace
from hta_widgets.diagnosis.rank_answers import replay
from hta_widgets.diagnosis.replay.window_path import Mark, window_path
from hta_widgets.errors import ParameterError, TraceFormatError, UnknownRankError, WriteError
from hta_widgets.hta.analyzers.critical_path_analysis import (
    BoundType,
    CPEdge,
    CPEdgeType,
    CPGraph,
    CriticalPathAnalysis,
    restore_cpgraph,
)
from hta_widgets.hta_trace.critical_path_analysis import mark_of
from hta_widgets.sample import write_sample
from hta_widgets.trace.model.events import GPU_WORK, KindSet
from tests.kineto_text import call, host, kernel, read, step, write

BREAKDOWN = [
    *("event_idx", "duration", "type", "s_name", "cat", "pid", "tid", "stream", "index"),
    *("bound_by", "rank", "slack_ns", "drag_ns"),
]
FORWARD = "[param|pytorch.model.alex_net|0|0|0|measure|forward]"
WINDOW_US = {
    "alexnet": ("", 43425365),
    "compare_control": ("ProfilerStep#1009", 75656),
    "compare_test": ("ProfilerStep#1009", 157408),
    "cpu_only": ("ProfilerStep#551", 210109.162),
    "ddp_rank1of2": ("ProfilerStep#2", 345770),
    "h100_qwen": ("ProfilerStep#6", 49378.903),
    "mi210_gpu_only": ("", 6024.766),
    "mi300_bert": ("ProfilerStep#6", 4007.334),
    "ns_resolution": ("ProfilerStep#101", 101151.318),
    "sglang_decode_graph": ("", 473830.532),
    "torch_compile": ("", 12939.993),
    "triton": ("ProfilerStep#1", 13336315.805),
}
"""From the start of the mark to its end or that of the GPU work launched in it, taken from the raw
events; the whole recording where no name is given."""

SHARES = {
    "compare_control": {
        "cpu_bound": 77.7,
        "gpu_compute_bound": 14.9,
        "gpu_communication_bound": 6.4,
    },
    "h100_qwen": {"gpu_compute_bound": 88.6, "cpu_bound": 6.5, "gpu_kernel_kernel_overhead": 4.9},
    "mi210_gpu_only": {"gpu_compute_bound": 51.9, "cpu_bound": 47.9},
    "ns_resolution": {"gpu_compute_bound": 93.2, "cpu_bound": 5.7},
    "torch_compile": {"gpu_compute_bound": 97.0, "cpu_bound": 2.8},
}
"""Percent of the window by a model that was worked out apart from the replay."""


@pytest.fixture(scope="module")
def sample(tmp_path_factory) -> TraceAnalysis:
    folder = tmp_path_factory.mktemp("sample")
    write_sample(folder, steps=3, progress=False)
    return TraceAnalysis(trace_dir=folder, progress=False)


@pytest.fixture(scope="module")
def sample_graph(sample) -> CPGraph:
    graph, success = sample.critical_path_analysis(0, "ProfilerStep", 1)
    assert success
    return graph


def analysis(folder, *events) -> TraceAnalysis:
    return TraceAnalysis(trace_files=write(folder / "rank-0.json", [*events]), progress=False)


def weights_us(graph) -> list[float]:
    return [edge.weight for edge in graph.critical_edges()]


def check(hta, rank, annotation, instance_id) -> CPGraph:
    """The path goes through the window, from edge to edge, and no edge is longer than the time."""
    graph, success = hta.critical_path_analysis(rank, annotation, instance_id)
    assert success
    events = hta.job.rank(rank).trace.events
    mark = mark_of(hta.job.rank(rank), annotation, instance_id)
    assert mark is not None
    found = graph.get_critical_path_breakdown()
    assert list(found.columns) == BREAKDOWN
    first, *_, last = (graph.recorded.nodes[number] for number in graph.critical_path_nodes)
    assert (first.time_ns, first.is_start, last.is_start) == (mark.start_ns, True, False)
    assert last.time_ns >= mark.end_ns
    window_ns = last.time_ns - first.time_ns
    assert np.rint(found["duration"] * 1000).astype(np.int64).sum() == window_ns
    assert (found["duration"] >= 0).all()
    assert (found["slack_ns"] <= 0.5).all()
    assert all(before.end == after.begin for before, after in pairwise(graph.critical_edges()))
    assert_allclose(graph.summary().sum(), 100)
    assert set(found["bound_by"]) <= {each.value for each in BoundType}
    assert set(graph.edges) == {tuple(each["object"][:2]) for each in graph.edges.values()}
    known = set(events.index.tolist())
    assert {node.ev_idx for node in graph.node_list} <= known
    check_types(graph, events, found)
    return graph


def check_types(graph, events, found) -> None:
    """Each type of edge leads from where to where it says."""
    row = {index: at for at, index in enumerate(events.index.tolist())}
    on_gpu = KindSet(GPU_WORK).among(events.kind)
    for edge, of in zip(graph.critical_edges(), found.itertuples(), strict=True):
        begin, end = (graph.recorded.nodes[each] for each in (edge.begin, edge.end))
        source, target = row[begin.event], row[end.event]
        assert edge.type.value == of.type
        if edge.type is CPEdgeType.OPERATOR_KERNEL:
            assert on_gpu[row[int(of.event_idx)]] == (of.bound_by in GPU_BOUND)
            assert np.isnan(of.drag_ns) != on_gpu[row[int(of.event_idx)]]
            assert not of.drag_ns > events.duration_ns[row[int(of.event_idx)]]
        elif edge.type is CPEdgeType.KERNEL_LAUNCH_DELAY:
            assert on_gpu[target]
            assert end.is_start
            assert of.bound_by == "gpu_kernel_launch_overhead"
        elif edge.type is CPEdgeType.KERNEL_KERNEL_DELAY:
            assert on_gpu[target]
            assert end.is_start
            assert of.bound_by == "gpu_kernel_kernel_overhead"
        elif edge.type is CPEdgeType.SYNC_DEPENDENCY:
            assert on_gpu[source]
            assert not begin.is_start
            assert on_gpu[target] == end.is_start == (of.bound_by == "gpu_kernel_kernel_overhead")
        else:
            assert np.isnan(of.event_idx)
            assert of.bound_by in {"cpu_bound", "data_loading"}


GPU_BOUND = {"gpu_compute_bound", "gpu_communication_bound"}


def test_both_methods_have_the_parameters_of_hta():
    found = {
        name: {
            each.name: each.default
            for each in [*inspect.signature(getattr(TraceAnalysis, name)).parameters.values()][1:]
        }
        for name in ("critical_path_analysis", "overlay_critical_path_analysis")
    }
    needed = inspect.Parameter.empty
    assert found == {
        "critical_path_analysis": {
            "rank": needed,
            "annotation": needed,
            "instance_id": needed,
            "data_load_events": None,
        },
        "overlay_critical_path_analysis": {
            "rank": needed,
            "critical_path_graph": needed,
            "output_dir": needed,
            "only_show_critical_events": True,
            "show_all_edges": False,
        },
    }
    assert {each.name: each.value for each in CPEdgeType} == {
        "OPERATOR_KERNEL": "critical_path_operator",
        "DEPENDENCY": "critical_path_dependency",
        "KERNEL_LAUNCH_DELAY": "critical_path_kernel_launch_delay",
        "KERNEL_KERNEL_DELAY": "critical_path_kernel_kernel_delay",
        "SYNC_DEPENDENCY": "critical_path_sync_dependency",
    }


def small(folder):
    """Two launches, a wait, and 10 µs of Python between two operators.

    host    [aten::a  L1 ]   10 µs   [aten::b L2 L3]  [ cudaDeviceSynchronize   ]  tail
    gpu 7              |k1=|                   |k2 ======|k3 ======|
    """
    return analysis(
        folder,
        host(0, 100, "work", cat="user_annotation"),
        host(0, 10, "aten::a"),
        call(5, 2, 1),
        host(20, 20, "aten::b"),
        call(22, 2, 2),
        call(30, 2, 3),
        call(45, 45, 4, name="cudaDeviceSynchronize"),
        kernel(12, 3, name="k1<int>", correlation=1),
        kernel(27, 30, name="k2", correlation=2),
        kernel(58, 30, name="ncclDevKernel_AllReduce", correlation=3),
    )


def test_a_path_worked_out_by_hand(tmp_path):
    graph = check(small(tmp_path), 0, "work", None)
    found = graph.get_critical_path_breakdown()
    assert [
        *zip(found["s_name"].fillna(""), found["duration"], found["bound_by"], strict=True)
    ] == [
        ("aten::a", 5, "cpu_bound"),
        ("cudaLaunchKernel", 2, "cpu_bound"),
        ("aten::a", 3, "cpu_bound"),
        ("", 10, "cpu_bound"),
        ("aten::b", 2, "cpu_bound"),
        ("", 5, "gpu_kernel_launch_overhead"),
        ("k2", 30, "gpu_compute_bound"),
        ("k2", 1, "gpu_kernel_kernel_overhead"),
        ("ncclDevKernel_AllReduce", 30, "gpu_communication_bound"),
        ("", 2, "cpu_bound"),
        ("", 10, "cpu_bound"),
    ]
    assert found["type"].str.removeprefix("critical_path_").tolist() == [
        *["operator"] * 3,
        "dependency",
        "operator",
        "kernel_launch_delay",
        "operator",
        "kernel_kernel_delay",
        "operator",
        "sync_dependency",
        "dependency",
    ]
    # without k2, the next one is launched at 30 and starts 5 µs later: at 35 in place of 58
    assert found.loc[found["s_name"] == "k2", "drag_ns"].iloc[0] == 23_000
    assert found["rank"].eq(0).all()
    assert found.loc[0, ["event_idx", "index", "pid", "tid", "stream"]].tolist() == [
        *(1, 1),
        *(100, 100),
        -1,
    ]
    summary = graph.summary()
    assert summary.name == "duration"
    assert summary.to_dict() == {
        "cpu_bound": 34.0,
        "gpu_communication_bound": 30.0,
        "gpu_compute_bound": 30.0,
        "gpu_kernel_kernel_overhead": 1.0,
        "gpu_kernel_launch_overhead": 5.0,
    }


def test_without_an_operation_the_path_is_shorter_by_its_drag(tmp_path):
    """Drag of the replay, and HTA's way: another weight, then the path again."""
    graph = check(small(tmp_path), 0, "work", None)
    found = graph.get_critical_path_breakdown()
    assert sum(weights_us(graph)) == 100
    works = [edge for edge in graph.critical_edges() if edge.type is CPEdgeType.OPERATOR_KERNEL]
    for edge in works[-2:]:
        of = found[found["event_idx"] == graph.get_event_attribution_for_edge(edge)]
        graph.edges[edge.begin, edge.end]["weight"] = 0
        assert graph.critical_path()
        weights = [graph.edges[edge[:2]]["weight"] for edge in graph.critical_edges()]
        of_drag = of.loc[of["type"] == "critical_path_operator", "drag_ns"].iloc[0]
        assert sum(weights) == pytest.approx(100 - of_drag / 1000)
        graph.edges[edge.begin, edge.end]["weight"] = edge.weight
    assert graph.critical_path()
    pd.testing.assert_frame_equal(graph.get_critical_path_breakdown(), found)


def test_data_loading_is_what_loaders_and_patterns_say(tmp_path):
    events = [
        host(0, 100, "work", cat="user_annotation"),
        host(0, 30, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        host(5, 10, "<built-in method stack of type object>"),
        host(30, 50, "my_reader"),
        host(40, 10, "aten::copy_"),
        call(90, 2, 1),
        kernel(95, 20, correlation=1),
    ]
    hta = analysis(tmp_path, *events)

    def loading_us(**arguments):
        graph, _ = hta.critical_path_analysis(0, "work", 0, **arguments)
        found = graph.get_critical_path_breakdown()
        return found.loc[found["bound_by"] == "data_loading", "duration"].sum()

    assert loading_us() == 30
    graph, _ = hta.critical_path_analysis(0, "work", 0)
    assert "<built-in method stack of type object>" in [
        *graph.get_critical_path_breakdown()["s_name"]
    ]
    assert loading_us(data_load_events=["^my_"]) == 80
    with pytest.raises(ParameterError, match=r"has the invalid regular expression '\('"):
        loading_us(data_load_events=["("])


def test_marks_and_instances(tmp_path):
    events = [
        *(step(number, 100 * number, 90) for number in (1, 2, 3, 4)),
        *(call(100 * number + 5, 2, number) for number in (1, 2, 3, 4)),
        *(kernel(100 * number + 10, 50 * number, correlation=number) for number in (1, 2, 3, 4)),
        kernel(110, 20, name="ProfilerStep#1", cat="gpu_user_annotation"),
        host(101, 3, "aten::mm"),
    ]
    hta = analysis(tmp_path, *events)

    def window(*asked):
        nodes = check(hta, 0, *asked).node_list
        graph, _ = hta.critical_path_analysis(0, *asked)
        return nodes[0].ts - nodes[0].ts % 1, sum(weights_us(graph))

    first = hta.t.get_trace(0)["ts"].min()
    assert window("ProfilerStep", 0) == window("ProfilerStep#1", None) == (first, 90)
    assert window("ProfilerStep", 1) == (first + 100, 110)
    assert window("ProfilerStep", (0, 2)) == (first, 360)  # kernel 3 waits for kernel 2
    assert window("aten::", 0) == (first + 1, 3)
    assert window("kernel", 1)[1] == 100
    for asked, words in {
        ("ProfilerStep", 3): "3 analysed instances, so instance_id must be 0 to 2 or",
        ("ProfilerStep#2", -1): r"1 analysed instance, so instance_id must be 0 or .* got -1",
        ("ProfilerStep", (2, 1)): r"got \(2, 1\)",
        ("ProfilerStep", "0"): "got '0'",
        ("ProfilerStep", (0, 1, 2)): r"got \(0, 1, 2\)",
        ("ProfilerStep#4", 0): "include_last_profiler_step=True keeps the last step",
        ("epoch", 0): r"has 'epoch' in its name; its annotations are 'ProfilerStep#1', .*#3'; ann",
    }.items():
        with pytest.raises(ParameterError, match=words):
            hta.critical_path_analysis(0, *asked)
    with pytest.raises(UnknownRankError, match="rank 7 is not in this job; its ranks are 0"):
        hta.critical_path_analysis(7, "ProfilerStep", 0)


def test_traces_without_marks_or_calls_or_gpu(tmp_path):
    for name, events in {
        "gpu": [kernel(0, 5), kernel(7, 5), kernel(0, 30, stream=8)],
        "host": [host(0, 50, "aten::mm"), host(10, 5, "aten::t")],
        "before": [host(0, 9, "aten::mm"), call(20, 2, 1), kernel(25, 5, correlation=1)],
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        hta = analysis(folder, *events)
        graph = check(hta, 0, "", None)
        if name == "gpu":
            assert graph.summary().to_dict() == {"gpu_compute_bound": 100.0}
            with pytest.raises(ParameterError, match="it has no annotations; annotation='' takes"):
                hta.critical_path_analysis(0, "step", 0)
        if name == "before":
            check(hta, 0, "aten::mm", 0)
    (tmp_path / "host").mkdir(exist_ok=True)
    only_host = check(analysis(tmp_path / "host", *[host(0, 50, "aten::mm")]), 0, "", None)
    assert only_host.get_critical_path_breakdown()["s_name"].tolist() == ["aten::mm"]
    assert np.isnan(only_host.get_critical_path_breakdown()["drag_ns"]).all()


def test_of_nothing_there_is_no_path(tmp_path):
    hta = analysis(tmp_path, {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "a"}})
    graph, success = hta.critical_path_analysis(0, "", None)
    assert not success
    assert [*graph.get_critical_path_breakdown().columns] == BREAKDOWN
    assert graph.summary().empty
    assert not graph.nodes
    with pytest.raises(ParameterError, match="it has no annotations"):
        hta.critical_path_analysis(0, "step", None)


def test_the_graph_reads_as_hta_and_its_readers_do(sample_graph):
    graph = sample_graph
    assert len(graph.nodes) == len(graph.node_list) == graph.number_of_nodes()
    assert [*graph.nodes][:3] == [0, 1, 2]
    assert [node.idx for node in graph.node_list] == [*graph.nodes]
    assert {graph.edges[u, v]["object"] for u, v in graph.edges} >= graph.critical_path_edges_set
    assert len(graph.critical_path_edges_set) == len(graph.critical_path_nodes) - 1
    assert graph.critical_path_events_set == {
        graph.node_list[each].ev_idx for each in graph.critical_path_nodes
    }
    for u, v, data in graph.edges(data=True):
        assert data["weight"] == data["object"].weight
        assert (u, v) in graph.out_edges(u)
        assert (u, v, data) in graph.in_edges(v, data=True)
        assert graph.get_events_for_edge(data["object"]) == (
            graph.node_list[u].ev_idx,
            graph.node_list[v].ev_idx,
        )
    edge = graph.critical_edges()[0]
    event = graph.get_event_attribution_for_edge(edge)
    frame = graph.trace_df
    if event is not None:
        assert edge in graph.get_edges_attributed_to_event(event)
        start, end = graph.get_nodes_for_event(event)
        assert start is None or start.ts == frame.loc[event, "ts"]
        assert end is None or end.ts == pytest.approx(frame.loc[event, "end"], abs=1e-6)
    assert graph.get_nodes_for_event(-5) == (None, None)
    assert graph.get_event_attribution_for_edge(CPEdge(-1, -2, CPEdgeType.DEPENDENCY)) is None
    assert graph.get_edges_attributed_to_event(-5) == []
    blocking = {
        graph.node_list[each].ev_idx for each in graph.nodes if graph.nodes[each].is_blocking
    }
    names = set(frame.loc[sorted(blocking), "s_name"])
    assert names
    assert all(re.search("Synchronize|Memcpy|Free|Malloc|Launch", name) for name in names)


def test_trace_linkers_find_what_waits_for_what(sample, sample_graph):
    """As Chakra does: raw events at both ends of what synchronises."""
    raw = sample.t.get_raw_trace_for_one_rank(rank=0)["traceEvents"]
    found = 0
    for edge in sample_graph.critical_path_edges_set:
        if edge.type is CPEdgeType.SYNC_DEPENDENCY:
            begin, end = (raw[each] for each in sample_graph.get_events_for_edge(edge))
            assert begin["cat"] in {"kernel", "gpu_memcpy", "gpu_memset"}
            assert "args" in begin
            assert "args" in end
            found += 1
    assert found


@pytest.mark.parametrize("rank", [0, 2])
def test_every_step_of_the_sample(sample, rank):
    for number in range(len(sample.get_profiler_steps())):
        check(sample, rank, "ProfilerStep", number)
    check(sample, rank, "ProfilerStep", (0, len(sample.get_profiler_steps()) - 1))
    check(sample, rank, "", None)


def test_on_one_rank_it_is_the_path_of_the_replay(sample):
    """What covers a whole step, and ends with it, has its path."""
    job = open_trace(sample.t.trace_files[0], progress=False)
    rank, replayed = job.rank(0), replay(job)
    compared = 0
    for number in replayed.job.steps:
        whole = replayed.critical_path(number)
        first_ns, last_ns = whole.edges_ns.tolist()
        found = window_path(rank, Mark(0, 0, first_ns, last_ns, on_gpu=True))
        assert found.is_sound
        if found.path.edges_ns.tolist() == [first_ns, last_ns]:
            compared += 1
            pd.testing.assert_frame_equal(
                found.path.pieces.drop(columns=["step"]), whole.pieces.drop(columns=["step"])
            )
            assert found.path.bound_by == whole.bound_by
    assert compared >= 2


def without_marks(event):
    args = {key: value for key, value in event.get("args", {}).items() if key != "critical"}
    return {key: value for key, value in event.items() if key != "args"} | (
        {"args": args} if args else {}
    )


def is_arrow(event) -> bool:
    return event.get("cat") == "critical_path"


@pytest.mark.parametrize(
    ("only", "every"), [(True, False), (False, False), (False, True), (True, True)]
)
def test_the_copy_shows_the_path(sample, sample_graph, tmp_path, only, every):
    source = Path(sample.t.trace_files[0])
    before = source.read_bytes()
    folder = tmp_path / "new" / "folder"
    written = sample.overlay_critical_path_analysis(0, sample_graph, folder, only, every)
    assert written == str(folder / f"overlaid_critical_path_{source.name}")
    assert source.read_bytes() == before
    assert [each.name for each in folder.iterdir()] == [Path(written).name]
    events, copied = read(Path(source))["traceEvents"], read(Path(written))["traceEvents"]
    critical = sample_graph.critical_path_events_set
    kept = [
        (place, event)
        for place, event in enumerate(events)
        if not only
        or event["ph"] != "X"
        or place in critical
        or event["cat"] in {"user_annotation", "python_function"}
    ]
    arrows = copied[len(kept) :]
    assert all(map(is_arrow, arrows))
    for (place, event), copy in zip(kept, copied, strict=False):
        assert copy.get("args", {}).get("critical", 0) == (place in critical)
        assert without_marks(copy) == without_marks(event)
    starts, ends = arrows[::2], arrows[1::2]
    lines = {(each["pid"], each["tid"]) for _, each in kept if each["ph"] == "X"}
    assert [each["id"] for each in starts] == [each["id"] for each in ends]
    assert [each["id"] for each in starts] == [*range(len(starts))]
    for start, end in zip(starts, ends, strict=True):
        assert (start["ph"], end["ph"], end["bp"]) == ("s", "f", "e")
        assert start["args"] == end["args"]
        assert start["args"]["type"] in {each.value for each in CPEdgeType}
        assert {(each["pid"], each["tid"]) for each in (start, end)} <= lines
    shown = [each["args"] for each in starts]
    changing = {"critical_path_kernel_launch_delay", "critical_path_sync_dependency"}
    if every and not only:
        assert sum(not each["critical"] for each in shown) > 0
        assert len(shown) == len(sample_graph.edges)
    else:
        assert {each["type"] for each in shown} <= changing | {"critical_path_dependency"}
        assert changing & {each["type"] for each in shown}
        assert all(each["critical"] for each in shown)


def test_arrows_begin_and_end_inside_of_their_events(tmp_path):
    hta = small(tmp_path)
    graph, _ = hta.critical_path_analysis(0, "work", 0)
    written = hta.overlay_critical_path_analysis(0, graph, tmp_path / "out")
    arrows = [each for each in read(Path(written))["traceEvents"] if is_arrow(each)]
    assert [(each["tid"], each["ts"], each["args"]["weight"]) for each in arrows] == [
        *((100, 22, 5.0), (7, 27, 5.0)),
        *((7, 87.999, 2.0), (100, 89.999, 2.0)),
    ]
    chosen = CriticalPathAnalysis.overlay_critical_path_analysis(
        *(hta.t, 0, graph, tmp_path / "chosen", True, False),
        edge_types_to_viz={CPEdgeType.SYNC_DEPENDENCY},
    )
    arrows = [each for each in read(Path(chosen))["traceEvents"] if is_arrow(each)]
    assert {each["args"]["type"] for each in arrows} == {"critical_path_sync_dependency"}


def test_the_copy_opens_again_with_the_same_events(sample, sample_graph, tmp_path):
    written = sample.overlay_critical_path_analysis(
        0, sample_graph, tmp_path, only_show_critical_events=False
    )
    again = TraceAnalysis(trace_files=[written], progress=False)
    recorded = sample.job.rank(0).trace.events.to_frame()
    pd.testing.assert_frame_equal(again.job.rank(0).trace.events.to_frame(), recorded)
    assert not again.job.notices or all("copy" not in str(each) for each in again.job.notices)
    once, _ = again.critical_path_analysis(0, "ProfilerStep", 1)
    assert_allclose(weights_us(once), weights_us(sample_graph))
    source = Path(sample.t.trace_files[0])
    (tmp_path / source.name).write_bytes(source.read_bytes())
    assert open_trace(tmp_path, progress=False).sources[0].path.name == source.name


def test_what_the_copy_refuses(sample, sample_graph, tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(ParameterError, match=r"output_dir .* is a file; give an existing folder"):
        sample.overlay_critical_path_analysis(0, sample_graph, file)
    with pytest.raises(ParameterError, match="is of rank 0, not of rank 1; pass rank 0, or"):
        sample.overlay_critical_path_analysis(1, sample_graph, tmp_path)
    with pytest.raises(UnknownRankError):
        sample.overlay_critical_path_analysis(9, sample_graph, tmp_path)
    with pytest.raises(WriteError, match="cannot be written"):
        sample.overlay_critical_path_analysis(0, sample_graph, file / "below")
    assert file.read_text() == "mine"
    mine = tmp_path / "mine"
    mine.mkdir()
    source = write(
        mine / "overlaid_critical_path_a.json", [call(0, 2, 1), kernel(5, 5, correlation=1)]
    )
    hta = TraceAnalysis(
        trace_files=[write(mine / "a.json", [call(0, 2, 1), kernel(5, 5, correlation=1)])],
        progress=False,
    )
    graph, _ = hta.critical_path_analysis(0, "", 0)
    both = TraceAnalysis(trace_files={0: mine / "a.json", 1: source}, progress=False)
    with pytest.raises(ParameterError, match="is a trace of this job and is never overwritten"):
        both.overlay_critical_path_analysis(0, graph, mine)


def test_what_was_saved_is_restored(sample, sample_graph, tmp_path):
    zipped = sample_graph.save(out_dir=tmp_path / "new" / "graph")
    assert zipped == str(tmp_path / "new" / "graph.zip")
    again = restore_cpgraph(zip_filename=zipped, t_full=sample.t, rank=0)
    assert again.node_list == sample_graph.node_list
    assert again.edges == sample_graph.edges
    assert again.critical_path_nodes == sample_graph.critical_path_nodes
    assert again.critical_path_edges_set == sample_graph.critical_path_edges_set
    assert again.summary().equals(sample_graph.summary())
    assert again.critical_path()
    assert sum(weights_us(again)) == pytest.approx(sum(weights_us(sample_graph)))
    edge = again.critical_edges()[0]
    again.edges[edge.begin, edge.end]["weight"] = 12.5
    changed = restore_cpgraph(again.save(tmp_path / "changed"), sample.t, 0)
    assert changed.edges[edge.begin, edge.end]["weight"] == 12.5
    with pytest.raises(ParameterError, match="of rank 0 of a trace, but not of rank 1"):
        restore_cpgraph(zipped, sample.t, 1)
    text = tmp_path / "text.zip"
    text.write_text("no zip")
    for wrong in (text, tmp_path / "missing.zip"):
        with pytest.raises(ParameterError, match="is not a critical path written by CPGraph"):
            restore_cpgraph(wrong, sample.t, 0)
    other = small(tmp_path)
    with pytest.raises(ParameterError, match="pass the traces and the rank that it was saved from"):
        restore_cpgraph(zipped, other.t, 0)


def test_edges_that_close_a_circle_have_no_longest_path(sample, sample_graph):
    path = sample_graph.recorded.edges[0]
    back = path._replace(begin=path.end, end=path.begin)
    recorded = sample_graph.recorded
    graph = CPGraph(sample.t, 0, recorded._replace(edges=[*recorded.edges, back]))
    assert not graph.critical_path()
    assert graph.critical_path_nodes == sample_graph.critical_path_nodes


def run_notebook(hta, annotation, instance_id, folder, capsys) -> CPGraph:
    """Each cell of HTA's notebook ``critical_path_analysis``, but for those that show help."""
    analyzer = hta
    cp_graph, success = analyzer.critical_path_analysis(
        rank=0, annotation=annotation, instance_id=instance_id
    )
    assert success
    summary = cp_graph.summary()
    assert "critical path" in capsys.readouterr().out.lower()
    analyzer.overlay_critical_path_analysis(0, cp_graph, output_dir=str(folder / "overlaid"))
    zip_file = cp_graph.save(out_dir=str(folder / "my_saved_cp_graph"))
    rest_graph = restore_cpgraph(zip_filename=zip_file, t_full=analyzer.t, rank=0)
    assert len(rest_graph.critical_path_edges_set) == len(cp_graph.critical_path_edges_set)
    assert len(rest_graph.nodes) == len(cp_graph.nodes)
    pd.testing.assert_series_equal(rest_graph.summary(), summary)
    rest_graph.critical_path()
    pd.testing.assert_series_equal(rest_graph.summary(), summary)
    assert "ProfilerStep" not in CPGraph.__doc__
    return cp_graph


def test_the_notebook_of_hta_on_the_sample(sample, tmp_path, capsys):
    run_notebook(sample, "ProfilerStep", (0, 1), tmp_path, capsys)


@pytest.mark.parametrize("name", ["alexnet", "simple_add"])
def test_the_notebook_of_hta(kineto_jobs, name, tmp_path, capsys):
    hta = TraceAnalysis(trace_dir=kineto_jobs[name], progress=False)
    graph = run_notebook(hta, FORWARD, 1, tmp_path, capsys)
    check(hta, 0, FORWARD, 1)
    assert graph.summary()["cpu_bound"] > 80


@pytest.mark.parametrize("name", sorted(WINDOW_US))
def test_real_traces(kineto_jobs, name):
    hta = TraceAnalysis(trace_dir=kineto_jobs[name], progress=False)
    annotation, window_us = WINDOW_US[name]
    graph = check(hta, hta.job.ranks[0], annotation, 0)
    assert sum(weights_us(graph)) == pytest.approx(window_us, abs=1e-3)
    summary = graph.summary()
    for bound_by, share in SHARES.get(name, {}).items():
        assert summary[bound_by] == pytest.approx(share, abs=1)
    assert graph.critical_path()
    assert sum(weights_us(graph)) == pytest.approx(window_us, abs=1e-3)


def test_of_other_formats_there_is_a_path_but_no_copy(real_traces, tmp_path):
    hta = TraceAnalysis(trace_files=[real_traces / "nsys" / "h100_2gpu_1s.sqlite"], progress=False)
    rank = hta.job.ranks[0]
    graph = check(hta, rank, "", None)
    with pytest.raises(TraceFormatError, match="only PyTorch-profiler traces can be copied"):
        hta.overlay_critical_path_analysis(rank, graph, tmp_path)
