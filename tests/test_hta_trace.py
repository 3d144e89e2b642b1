"""HTA's frames, its table of symbols and its filters, on generated traces."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hta_widgets import TraceAnalysis
from hta_widgets.errors import ParameterError, UnknownRankError
from hta_widgets.hta import trace_analysis, trace_diff
from hta_widgets.hta.analyzers.cupti_counter_analysis import CUDA_SASS_INSTRUCTION_COUNTER_FLOPS
from hta_widgets.hta.common import trace_filter
from hta_widgets.hta.common.trace import Trace, TraceSymbolTable
from hta_widgets.hta.trace_diff import LabeledTrace
from hta_widgets.hta.utils import utils
from hta_widgets.sample import write_sample
from hta_widgets.trace.opening import open as opening
from tests.kineto_text import call, host, kernel, step, write

HTA_COLUMNS = [
    *("index", "cat", "name", "pid", "tid", "ts", "dur", "end", "stream", "correlation", "bytes"),
    *("memory_bw_gbps", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "input_dims"),
    *("input_type", "input_strides", "external_id", "python_id", "python_parent_id"),
    *("collective_name", "in_msg_nelems", "out_msg_nelems", "msg_dtype", "group_size"),
    *("process_rank", "in_split_size", "out_split_size", "index_correlation", "iteration"),
]
"""Of HTA 0.6.1 for a trace with fractional times."""

GEMM = "void gemm<float>(int)"
COPY = "Memcpy HtoD (Pageable -> Device)"


def gpu_annotation(ts, dur, name):
    return {
        **host(ts, dur, name, cat="gpu_user_annotation"),
        "pid": 0,
        "tid": 7,
        "args": {"External id": 3},
    }


EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 100, "args": {"name": "python"}},
    step(4, 10, 50),
    step(5, 60, 40),
    {
        **host(12, 20, "aten::mm"),
        "args": {
            "External id": 9,
            "Input Dims": [[2, 3], []],
            "Input type": ["float", ""],
            "Input Strides": [[3, 1], []],
        },
    },
    {**host(11, 40, "model.py(3): forward", cat="python_function"), "args": {"Python id": 6}},
    {**call(14, 2, 1), "args": {"correlation": 1, "External id": 9}},
    call(18, 2, 2, name="cudaMemcpyAsync"),
    kernel(20, 8.5, correlation=1, name=GEMM),
    kernel(40, 3, correlation=2, name=COPY, cat="gpu_memcpy", bytes=640),
    gpu_annotation(20, 30, "ProfilerStep#4"),
    kernel(45, 1, correlation=77, name="ncclDevKernel_X", **{"Collective name": "allreduce"}),
    call(65, 2, 3),
    kernel(70, 8, correlation=3),
    {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 30},
]


@pytest.fixture
def analyzer(tmp_path):
    write(tmp_path / "rank-0.json", EVENTS)
    write(tmp_path / "rank-1.json", [kernel(2, 1, name="other"), *EVENTS])
    return TraceAnalysis(trace_dir=tmp_path, progress=False)


def test_columns_are_those_of_hta(analyzer):
    frame = analyzer.t.get_trace(0)
    assert frame.columns.tolist() == [*HTA_COLUMNS, "device", "s_name", "s_cat"]
    assert frame.index.tolist() == frame["index"].tolist() == [1, 3, 4, 5, 6, 7, 8, 9, 10]
    assert frame["s_cat"].tolist() == [
        *("user_annotation", "cpu_op", "python_function", "cuda_runtime", "cuda_runtime"),
        *("kernel", "gpu_memcpy", "gpu_user_annotation", "kernel"),
    ]


def test_values_are_those_of_hta(analyzer):
    frame = analyzer.t.get_trace(0)
    mm, launch, copy_call, gemm, unknown = (frame.loc[n] for n in (3, 5, 6, 7, 10))
    assert (gemm["ts"], gemm["dur"], gemm["end"]) == (18.0, 8.5, 26.5), "since rank 1's kernel"
    assert (launch["index_correlation"], gemm["index_correlation"]) == (7, 5)
    assert (copy_call["index_correlation"], unknown["index_correlation"]) == (8, 0)
    assert mm["index_correlation"] == -1
    assert frame["iteration"].tolist() == [4, 4, 4, 4, 4, 4, 4, 4, -1]
    assert (mm["input_dims"], mm["input_type"]) == ([[2, 3], []], ["float", ""])
    assert mm["input_strides"] == [[3, 1], []]
    assert gemm["input_dims"] == "-1"
    assert frame["external_id"].tolist() == [-1, 9, -1, 9, 1, -1, -1, 3, -1]
    assert frame["python_id"].tolist() == [-1, -1, 6, *[-1] * 6]
    assert frame["bytes"].tolist() == [*[-1] * 6, 640, -1, -1]
    assert unknown["collective_name"] == "allreduce"
    assert frame.loc[gemm["index_correlation"], "s_name"] == "cudaLaunchKernel"
    whole = frame.drop(columns=["ts", "dur", "end", "memory_bw_gbps"]).select_dtypes("number")
    assert {str(each) for each in whole.dtypes} == {"int64"}


def test_a_call_is_linked_to_the_last_of_what_it_launches(tmp_path):
    nodes = [kernel(20 + 10 * place, 5, correlation=1) for place in range(3)]
    path = write(
        tmp_path / "a.json", [host(0, 9, "a"), call(1, 2, 1, name="cudaGraphLaunch"), *nodes]
    )
    frame = TraceAnalysis(path, progress=False).t.get_trace(0)
    assert frame["index_correlation"].tolist() == [-1, 4, 1, 1, 1]


def test_symbols_are_those_of_all_ranks(analyzer):
    symbols = analyzer.t.symbol_table
    assert isinstance(symbols, TraceSymbolTable)
    assert "other" in symbols.sym_index
    assert "python_function" in symbols.sym_index
    assert "cuda_profiler_range" not in symbols.get_sym_id_map()
    for rank in analyzer.t.get_ranks():
        frame = analyzer.t.get_trace(rank)
        for column in ("name", "cat"):
            texts = [symbols.sym_table[code] for code in frame[column].tolist()]
            assert texts == frame[f"s_{column}"].tolist()
    assert [*symbols.get_sym_table_series()] == symbols.get_sym_table() == symbols.sym_table
    assert symbols.get_sym_index_series().to_dict() == symbols.get_sym_index()
    (gemm,) = symbols.find_matches(["gemm<float>"])
    assert symbols.find_matched_symbols(["gemm<float>"]) == [GEMM]
    assert symbols.get_symbol_names([gemm, -1, 10**6]) == {gemm: GEMM}
    assert {symbols.sym_table[code] for code in symbols.get_profiler_step_ids()} == {
        *("ProfilerStep#4", "ProfilerStep#5")
    }
    assert symbols.get_memory_name_ids() == [symbols.sym_index[COPY]]
    assert not symbols.is_empty()
    assert TraceSymbolTable().is_empty()


def test_masks_of_the_symbol_table(analyzer):
    symbols, frame = analyzer.t.symbol_table, analyzer.t.get_trace(0)
    assert frame[symbols.get_runtime_launch_events_mask(frame)].index.tolist() == [5, 6]
    assert frame[symbols.get_operator_or_cuda_runtime_mask(frame)].index.tolist() == [3, 5, 6]
    assert frame[symbols.get_events_mask(frame, ["gemm"])].index.tolist() == [7]
    assert not symbols.get_events_mask(frame, None).any()
    assert frame[frame["cat"].isin(symbols.get_gpu_kernel_cat_ids())].index.tolist() == [7, 8, 10]
    assert frame[frame["cat"].isin(symbols.get_cpu_event_cat_ids())].index.tolist() == [1, 3, 5, 6]


def test_frames_are_encoded_and_decoded(analyzer):
    symbols, frame = analyzer.t.symbol_table, analyzer.t.get_trace(0).copy()
    codes = frame["name"].tolist()
    symbols.add_symbols_to_trace_df(frame, "name")
    assert frame["name"].tolist() == frame["s_name"].tolist()
    symbols.encode_df(frame)
    assert frame["name"].tolist() == codes
    decoded = frame.drop(columns=["s_name", "s_cat"])
    symbols.decode_df(decoded)
    assert decoded["s_name"].tolist() == frame["s_name"].tolist()
    symbols.decode_df(decoded, create_new_columns=False)
    assert decoded["cat"].tolist() == frame["s_cat"].tolist()


def test_names_are_whole_until_they_are_shortened(analyzer):
    trace = analyzer.t
    frame = trace.get_trace(0)
    assert frame.loc[7, "s_name"] == GEMM
    trace.decode_symbol_ids()
    assert [trace.get_trace(rank).loc[7 + rank, "s_name"] for rank in (0, 1)] == ["gemm", "gemm"]
    trace.decode_symbol_ids(use_shorten_name=False)
    assert frame.loc[7, "s_name"] == GEMM


def test_a_frame_stays_as_it_was_changed_and_no_analysis_reads_it(analyzer):
    before = analyzer.get_temporal_breakdown(visualize=False)
    frame = analyzer.t.get_trace(0)
    frame["dur"] = 0.0
    assert analyzer.t.get_trace(0) is frame
    assert analyzer.t.get_trace_df(0) is analyzer.t.traces[0] is analyzer.t.get_all_traces()[0]
    fresh = analyzer.get_temporal_breakdown(visualize=False)
    pd.testing.assert_frame_equal(before, fresh)


def test_all_ranks(analyzer):
    traces = analyzer.t.get_all_traces()
    assert [*traces] == analyzer.t.get_ranks() == [0, 1]
    assert {rank: len(frame) for rank, frame in traces.items()} == {0: 9, 1: 10}
    assert 7 not in traces
    with pytest.raises(UnknownRankError, match="7"):
        analyzer.t.get_trace(7)
    assert analyzer.t.get_iterations() == [4]
    assert analyzer.t.get_trace_duration() == 35.0
    assert analyzer.t.trace_files[1].endswith("rank-1.json")
    assert analyzer.t.meta_data[0]["schemaVersion"] == 1
    assert analyzer.t.min_ts == 2.0
    assert repr(analyzer.t).startswith("Trace(Job(")


def test_a_trace_of_its_own(tmp_path):
    write(tmp_path / "rank-0.json", EVENTS)
    trace = Trace(trace_dir=str(tmp_path))
    trace.parse_traces()
    recorded = trace.get_trace(0)
    assert recorded["ts"].tolist() == [event["ts"] for event in EVENTS if "dur" in event]
    assert trace.min_ts == 0
    trace.align_and_filter_trace()
    assert trace.get_trace(0)["ts"].min() == 0
    assert trace.get_iterations() == [4]
    trace.load_traces(include_last_profiler_step=True)
    assert trace.get_iterations() == [4, 5]
    assert LabeledTrace("x", trace).ranks() == [0]


def test_a_big_job_holds_few_frames(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "RANKS_HELD", 2)
    monkeypatch.setattr(opening, "BYTES_AT_ONCE", 0)
    for rank in range(5):
        write(tmp_path / f"rank-{rank}.json", [kernel(rank, 5, name=f"kernel_{rank}")])
    trace = TraceAnalysis(trace_dir=tmp_path, progress=False).t
    first = trace.get_trace(0)
    for rank, frame in trace.traces.items():
        assert frame["s_name"].tolist() == [f"kernel_{rank}"]
    assert len(trace._frames) == 2
    assert first["name"].tolist() == trace.get_trace(0)["name"].tolist(), "numbers stay"
    assert sum("kernel_" in each for each in trace.symbol_table.sym_table) == 5


def test_frames_cost_nothing_until_they_are_asked_for():
    code = (
        "import sys; from hta_widgets.hta.trace_analysis import TraceAnalysis;"
        "import hta_widgets.hta.common.trace, hta_widgets.hta.common.trace_filter;"
        "print(sorted({'pandas', 'plotly', 'pyarrow'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("chosen", "rows"),
    [
        (trace_filter.IterationFilter(4), [1, 3, 4, 5, 6, 7, 8, 9]),
        (trace_filter.IterationFilter([5, 6]), []),
        (trace_filter.FirstIterationFilter(), [1, 3, 4, 5, 6, 7, 8, 9]),
        (trace_filter.IterationIndexFilter([1, -1]), []),
        (trace_filter.TimeRangeFilter((np.int64(4), 10.5)), [5, 6]),
        (trace_filter.NameFilter("aten::|void"), [3, 7]),
        (trace_filter.NameFilter("gemm"), []),
        (trace_filter.NameStringColumnFilter(".*gemm"), [7]),
        (trace_filter.QueryFilter("stream == 7"), [7, 8, 10]),
        (trace_filter.ZeroDurationFilter, [1, 3, 4, 5, 6, 7, 8, 9, 10]),
        (trace_filter.GPUKernelFilter(), [7, 8, 10]),
        (trace_filter.CPUOperatorFilter(), [1, 3, 4, 5, 6, 9]),
        (trace_filter.MemCopyEventFilter(COPY), [8]),
        (trace_filter.MemCopyEventFilter(GEMM), []),
        (trace_filter.RankFilter(3), [1, 3, 4, 5, 6, 7, 8, 9, 10]),
        (
            trace_filter.CompositeFilter(
                [trace_filter.ZeroDurationFilter, trace_filter.GPUKernelFilter()]
            ),
            [7, 8, 10],
        ),
    ],
)
def test_filters(tmp_path, chosen, rows):
    trace = Trace(write(tmp_path / "rank-0.json", EVENTS))
    frame = trace.get_trace(0)
    before = frame.copy()
    assert chosen(frame).index.tolist() == rows
    if not isinstance(chosen, trace_filter.NameStringColumnFilter):
        numbers = frame.drop(columns=["s_name", "s_cat"])
        assert chosen(numbers, trace.symbol_table).index.tolist() == rows
    assert chosen(frame).columns.tolist() == frame.columns.tolist()
    pd.testing.assert_frame_equal(frame, before)


def test_filters_of_ranks_and_ids(tmp_path):
    trace = Trace(write(tmp_path / "rank-0.json", EVENTS))
    frame = trace.get_trace(0)
    both = pd.concat([frame.assign(rank=rank) for rank in (0, 1)])
    assert len(trace_filter.RankFilter([1])(both)) == len(frame)
    found = trace_filter.NameIdColumnFilter("aten::")(frame, trace.symbol_table)
    assert found.index.tolist() == [3]
    with pytest.raises(ParameterError, match="give the symbol_table"):
        trace_filter.NameFilter("a")(frame[["name"]])
    with pytest.raises(ParameterError, match="start before it ends"):
        trace_filter.TimeRangeFilter((2, 1))
    with pytest.raises(ParameterError, match="pair of numbers"):
        trace_filter.TimeRangeFilter((1, "2"))
    with pytest.raises(ParameterError, match="takes filters"):
        trace_filter.CompositeFilter([str])


def test_the_page_lists_columns_and_imports(analyzer):
    page = (Path(__file__).parents[1] / "docs" / "coming-from-hta.md").read_text()
    (listed,) = re.findall(r"^Columns: (.*?)\. `index_corr", page, re.MULTILINE | re.DOTALL)
    assert re.findall(r"`(\w+)`", listed) == [*analyzer.t.get_trace(0).columns]
    imports = re.findall(r"\| `((?:from|import) hta_widgets[^`…]*?)(?:, …)?` \|", page)
    assert len(imports) == 8
    for line in imports:
        exec(line, {})  # noqa: S102


def test_what_notebooks_of_hta_call(tmp_path, monkeypatch):
    """The calls of its demos, with their arguments; what they show is counted."""
    shown = []
    monkeypatch.setattr("plotly.graph_objects.Figure.show", lambda *_, **__: shown.append(1))
    write_sample(tmp_path / "job", ranks=2, steps=3, progress=False)
    analyzer = trace_analysis.TraceAnalysis(trace_dir=str(tmp_path / "job"))
    _, kernels = analyzer.get_gpu_kernel_breakdown(
        num_kernels=5, include_memory_kernels=True, image_renderer="png"
    )
    assert {"name", "rank", "mean (us)"} <= set(kernels.columns)
    table = analyzer.get_gpu_kernels_with_user_annotations(
        rank=0, expand_names=True, shorten_names=False
    )
    assert len(table[["s_name", "s_cat", "s_user_annotation", "stream", "ts", "dur"]])
    idle, intervals = analyzer.get_idle_time_breakdown(
        ranks=[1], visualize=False, visualize_pctg=1, show_idle_interval_stats=True
    )
    assert len(idle)
    assert len(intervals)
    queue = trace_analysis.TimeSeriesTypes.QUEUE_LENGTH
    analyzer.generate_trace_with_counters(ranks=[1], time_series=queue)
    series = analyzer.get_queue_length_time_series(ranks=[1])
    analyzer.get_time_spent_blocked_on_full_queue(series, max_queue_length=1024)
    assert len(analyzer.get_cuda_kernel_launch_stats(visualize=False)[0])
    steps = analyzer.get_profiler_steps()
    analyzer.get_potential_stragglers(profiler_steps=steps[:1], num_candidates=1, visualize=True)
    sides = [LabeledTrace(label, trace_dir=str(tmp_path / "job")) for label in ("Control", "Test")]
    differences = trace_diff.TraceDiff.compare_traces(
        *sides, 0, 1, steps[0], steps[0], trace_diff.DeviceType.CPU
    )
    top = differences.sort_values(by="diff_counts").head(10)
    before = len(shown)
    assert trace_diff.TraceDiff.visualize_counts_diff(top) is None
    assert trace_diff.TraceDiff.visualize_duration_diff(top) is None
    assert len(shown) == before + 2
    changes = trace_diff.TraceDiff.ops_diff(*sides, device_type=trace_diff.DeviceType.GPU)
    assert {utils.shorten_name(name) for name in changes["unchanged"]}


def test_names():
    assert utils.shorten_name(GEMM) == "gemm"
    assert utils.shorten_name(COPY) == COPY
    types = [utils.get_kernel_type(name) for name in (GEMM, COPY, "ncclDevKernel_X", "Memset")]
    assert types == ["COMPUTATION", "MEMORY", "COMMUNICATION", "MEMORY"]
    assert utils.is_compute_kernel(GEMM)
    assert utils.is_memory_kernel(COPY)
    assert utils.is_comm_kernel("ncclDevKernel_X")
    assert utils.KernelType["MEMORY"].name == "MEMORY"
    kinds = [utils.get_memory_kernel_type(name) for name in (COPY, "Memset (Device)", "dma")]
    assert kinds == ["Memcpy HtoD", "Memset", "Memcpy Unknown"]
    frame = pd.DataFrame({("a", "mean"): [1], ("b", ""): [2]})
    utils.flatten_column_names(frame)
    assert frame.columns.tolist() == ["a_mean", "b"]
    utils.flatten_column_names(frame)
    assert frame.columns.tolist() == ["a_mean", "b"]


def test_flop_of_instructions():
    name = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
    assert {
        name.format(operation): 2 if operation.endswith("fma") else 1
        for operation in ("ffma", "fmul", "fadd", "hfma", "hmul", "hadd", "dfma", "dmul", "dadd")
    } == CUDA_SASS_INSTRUCTION_COUNTER_FLOPS


def test_kernels_with_annotations_have_the_columns_of_hta(analyzer):
    table = analyzer.get_gpu_kernels_with_user_annotations(0)
    assert table.columns.tolist() == [
        *(*HTA_COLUMNS, "user_annotation", "s_name", "s_cat", "s_user_annotation"),
        *("device", "annotation_source"),
    ]
    assert table["s_cat"].tolist() == ["kernel", "gpu_memcpy", "kernel"]
    assert table["bytes"].tolist() == [-1, 640, -1]
    frame = analyzer.t.get_trace(0)
    shared = [name for name in HTA_COLUMNS if name != "name"]
    pd.testing.assert_frame_equal(
        table[shared], frame.loc[[7, 8, 10], shared].reset_index(drop=True)
    )
    symbols = analyzer.t.symbol_table.sym_table
    annotations = [symbols[code] if code >= 0 else "" for code in table["user_annotation"]]
    assert annotations == table["s_user_annotation"].tolist()
