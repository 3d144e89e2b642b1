"""The façade: HTA's names, arguments, columns and units on small literal jobs."""

from __future__ import annotations

import inspect
import math

import plotly.graph_objects as go
import pytest

from hta_widgets import TraceAnalysis
from hta_widgets.errors import HtaWidgetsError, TraceNotFoundError, UnknownRankError
from hta_widgets.trace_analysis import TimeSeriesTypes, _warn_of_pictures
from tests.kineto_text import call, host, kernel, step, write

NCCL = "ncclDevKernel_AllReduce"


@pytest.fixture
def folder(tmp_path):
    first = [call(0, 1, 1), kernel(2, 3.5, name="gemm", correlation=1), kernel(8, 2, name=NCCL)]
    second = [kernel(0, 4, name="gemm"), kernel(2, 6, name=NCCL, stream=20)]
    write(tmp_path / "rank-0.json.gz", first)
    write(tmp_path / "rank-1.json", second)
    return tmp_path


@pytest.fixture
def shown(monkeypatch):
    """Renderers of the figures that are shown, in place of showing them."""
    figures = []
    monkeypatch.setattr(go.Figure, "show", lambda _, renderer=None: figures.append(renderer))
    return figures


def test_signatures_are_those_of_hta():
    def arguments(method):
        return {
            name: parameter.default
            for name, parameter in inspect.signature(method).parameters.items()
            if name != "self" and parameter.kind is not inspect.Parameter.KEYWORD_ONLY
        }

    assert arguments(TraceAnalysis.__init__) == {
        "trace_files": None,
        "trace_dir": "/tmp/trace",  # noqa: S108
        "include_last_profiler_step": False,
    }
    assert arguments(TraceAnalysis.get_temporal_breakdown) == {"visualize": True}
    assert arguments(TraceAnalysis.get_comm_comp_overlap) == {"visualize": True}
    assert arguments(TraceAnalysis.get_gpu_kernel_breakdown) == {
        "visualize": True,
        "duration_ratio": 0.8,
        "num_kernels": 10,
        "include_memory_kernels": True,
        "image_renderer": "",
    }


def test_temporal_breakdown(folder):
    table = TraceAnalysis(trace_dir=folder).get_temporal_breakdown(visualize=False)
    assert table.to_dict("list") == {
        "rank": [0, 1],
        "idle_time(us)": [2.5, 0.0],
        "compute_time(us)": [3.5, 4.0],
        "non_compute_time(us)": [2.0, 4.0],
        "kernel_time(us)": [8.0, 8.0],
        "idle_time_pctg": [31.25, 0.0],
        "compute_time_pctg": [43.75, 50.0],
        "non_compute_time_pctg": [25.0, 50.0],
    }


def test_overlap(folder):
    table = TraceAnalysis(trace_dir=folder).get_comm_comp_overlap(visualize=False)
    assert table.to_dict("list") == {"rank": [0, 1], "comp_comm_overlap_pctg": [0.0, 33.33]}


def test_kernel_breakdown(folder):
    types, kernels = TraceAnalysis(trace_dir=folder).get_gpu_kernel_breakdown(visualize=False)
    assert types.to_dict("list") == {
        "kernel_type": [
            "COMMUNICATION",
            "COMPUTATION",
            "COMPUTATION overlapping COMMUNICATION",
        ],
        "sum": [6.0, 5.5, 2.0],
        "percentage": [44.4, 40.7, 14.8],
    }
    assert kernels.to_dict("list") == {
        "name": [NCCL, NCCL, "gemm", "gemm"],
        "sum (us)": [2.0, 6.0, 3.5, 4.0],
        "max (us)": [2.0, 6.0, 3.5, 4.0],
        "min (us)": [2.0, 6.0, 3.5, 4.0],
        "stddev": [0.0] * 4,
        "mean (us)": [2.0, 6.0, 3.5, 4.0],
        "kernel_type": ["COMMUNICATION"] * 2 + ["COMPUTATION"] * 2,
        "rank": [0, 1, 0, 1],
        "count": [1] * 4,
    }


def test_several_devices_of_a_rank_have_a_row_each(tmp_path):
    events = [kernel(0, 5, device=0), kernel(5, 5, device=1, stream=7), kernel(15, 5, device=1)]
    write(tmp_path / "rank-0.json", events)
    analysis = TraceAnalysis(trace_dir=tmp_path)
    table = analysis.get_temporal_breakdown(visualize=False)
    assert table["device"].tolist() == [0, 1]
    assert table["idle_time(us)"].tolist() == [0.0, 5.0]
    assert analysis.get_comm_comp_overlap(visualize=False)["device"].tolist() == [0, 1]


def test_rank_without_gpu_work_gives_zeros_and_nan(tmp_path):
    write(tmp_path / "rank-0.json", [host(0, 1, "aten::add")])
    analysis = TraceAnalysis(trace_dir=tmp_path)
    row = analysis.get_temporal_breakdown(visualize=False).iloc[0]
    assert row["kernel_time(us)"] == 0
    assert math.isnan(row["idle_time_pctg"])
    assert math.isnan(analysis.get_comm_comp_overlap(visualize=False).iloc[0, 1])
    types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
    assert list(types.columns) == ["kernel_type", "sum", "percentage"]
    assert types.empty
    assert kernels.empty


def test_figures_are_shown(folder, shown):
    analysis = TraceAnalysis(trace_dir=folder)
    analysis.get_temporal_breakdown()
    analysis.get_comm_comp_overlap()
    assert shown == [None, None]
    analysis.get_gpu_kernel_breakdown(image_renderer="jupyterlab")
    assert set(shown[2:]) == {"jupyterlab"}
    assert len(shown) > 5


@pytest.mark.parametrize("renderer", ["png", "svg+pdf"])
def test_pictures_need_no_kaleido(folder, shown, monkeypatch, caplog, renderer):
    monkeypatch.setattr("hta_widgets.trace_analysis.find_spec", lambda _: None)
    _warn_of_pictures.cache_clear()
    analysis = TraceAnalysis(trace_dir=folder)
    types, _ = analysis.get_gpu_kernel_breakdown(image_renderer=renderer)
    assert len(types)
    assert set(shown) == {"plotly_mimetype"}
    warning = f"renderer {renderer!r} needs kaleido (pip install kaleido)"
    assert caplog.text.count(warning) == 1
    monkeypatch.setattr("hta_widgets.trace_analysis.find_spec", lambda _: object())
    shown.clear()
    analysis.get_gpu_kernel_breakdown(image_renderer=renderer)
    assert set(shown) == {renderer}


def test_the_default_renderer_may_be_pictures(folder, shown, monkeypatch):
    monkeypatch.setattr("hta_widgets.trace_analysis.find_spec", lambda _: None)
    monkeypatch.setattr("plotly.io.renderers.default", "svg")
    TraceAnalysis(trace_dir=folder).get_temporal_breakdown()
    assert shown == ["plotly_mimetype"]


def test_trace_files(folder, monkeypatch):
    assert TraceAnalysis({5: "rank-0.json.gz"}, folder).job.ranks == (5,)
    assert TraceAnalysis(["rank-1.json"], str(folder)).job.ranks == (1,)
    assert TraceAnalysis(str(folder / "rank-1.json")).job.ranks == (1,)
    assert TraceAnalysis(folder).job.ranks == TraceAnalysis(trace_dir=folder).job.ranks
    monkeypatch.chdir(folder)
    assert TraceAnalysis({0: "rank-1.json"}).job.ranks == (0,)
    with pytest.raises(TraceNotFoundError, match=r"rank-9\.json does not exist"):
        TraceAnalysis({0: "rank-9.json"}, folder)


def test_options_reach_the_job(tmp_path):
    events = [step(1, 0, 10), step(2, 10, 10), kernel(12, 5, name="mine")]
    write(tmp_path / "rank-0.json", events)
    assert len(TraceAnalysis(trace_dir=tmp_path).job.gpu_work(0)) == 0
    analysis = TraceAnalysis(
        trace_dir=tmp_path,
        include_last_profiler_step=True,
        kernel_rules={"COMMUNICATION": ["mine"]},
    )
    table = analysis.get_temporal_breakdown(visualize=False)
    assert table["non_compute_time(us)"].tolist() == [5.0]
    assert repr(analysis).startswith("TraceAnalysis(Job(")


def test_analyses_leave_the_job_as_it_was(folder):
    analysis = TraceAnalysis(trace_dir=folder)
    before = [analysis.job.rank(rank).trace.events.to_frame().copy() for rank in (0, 1)]
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_comm_comp_overlap(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_idle_time_breakdown([0, 1], visualize=False, show_idle_interval_stats=True)
    analysis.get_cuda_kernel_launch_stats([0, 1], visualize=False)
    for rank in (0, 1):
        assert analysis.job.rank(rank).trace.events.to_frame().equals(before[rank])


def defaults(method):
    parameters = list(inspect.signature(method).parameters.values())[1:]
    return {parameter.name: parameter.default for parameter in parameters}


def test_idle_time_breakdown(tmp_path, shown):
    late = [call(12, 1, 1), kernel(15, 5, correlation=1)]
    write(tmp_path / "rank-2.json", [kernel(0, 10), *late, kernel(21.5, 1), kernel(0, 1, stream=9)])
    write(tmp_path / "rank-5.json", [kernel(0, 10), kernel(100, 1)])
    analysis = TraceAnalysis(trace_dir=tmp_path)
    assert defaults(TraceAnalysis.get_idle_time_breakdown) == {
        "ranks": None,
        "streams": None,
        "visualize": True,
        "visualize_pctg": True,
        "show_idle_interval_stats": False,
        "consecutive_kernel_delay": 30,
    }
    table, statistics = analysis.get_idle_time_breakdown()
    assert statistics is None
    assert len(shown) == 1
    assert table.fillna(-1).to_dict("list") == {
        "rank": [2, 2, 2, 2],
        "stream": [7, 7, 7, 9],
        "idle_category": ["host_wait", "kernel_wait", "other", "other"],
        "idle_time": [5.0, 1.5, 0.0, 0.0],
        "idle_time_ratio": [0.77, 0.23, 0.0, -1],
    }
    assert table["stream"].dtype == "int64"
    both, statistics = analysis.get_idle_time_breakdown(
        [2, 5], [7], visualize=False, show_idle_interval_stats=True, consecutive_kernel_delay=1
    )
    assert both.index.tolist() == [0, 1, 0]
    assert statistics.index.tolist() == ["host_wait", "other", "other"]
    assert statistics.index.name == "idle_category"
    assert statistics.fillna(-1).to_dict("list") == {
        "rank": [2, 2, 5],
        "stream": [7, 7, 7],
        "count": [1.0, 1.0, 1.0],
        "mean": [5.0, 1.5, 90.0],
        "std": [-1, -1, -1],
        **{name: [5.0, 1.5, 90.0] for name in ("min", "25%", "50%", "75%", "max")},
    }


def test_idle_time_of_several_devices_and_of_none(tmp_path):
    work = [kernel(ts, 5, device=ts % 2) for ts in (0, 1, 10, 21)]
    write(tmp_path / "rank-0.json", work)
    write(tmp_path / "rank-1.json", [host(0, 1, "aten::add")])
    analysis = TraceAnalysis(trace_dir=tmp_path)
    table, _ = analysis.get_idle_time_breakdown(visualize=False)
    assert list(table.columns)[:3] == ["rank", "device", "stream"]
    assert table["device"].tolist() == [0, 0, 1, 1]
    table, statistics = analysis.get_idle_time_breakdown(
        [1], visualize=False, show_idle_interval_stats=True
    )
    assert table.empty
    assert statistics.empty


def test_cuda_kernel_launch_stats(folder, shown):
    analysis = TraceAnalysis(trace_dir=folder)
    assert defaults(TraceAnalysis.get_cuda_kernel_launch_stats) == {
        "ranks": None,
        "runtime_cutoff": 50,
        "launch_delay_cutoff": 100,
        "include_memory_events": True,
        "visualize": True,
    }
    tables = analysis.get_cuda_kernel_launch_stats()
    assert len(shown) == 3
    assert {rank: table.to_dict("list") for rank, table in tables.items()} == {
        0: {
            "correlation": [1],
            "cpu_duration": [1.0],
            "gpu_duration": [3.5],
            "launch_delay": [1.0],
        }
    }
    tables = analysis.get_cuda_kernel_launch_stats([1, 0], visualize=False)
    assert list(tables) == [1, 0]
    assert tables[1].empty
    assert list(tables[1].columns) == list(tables[0].columns)


class TestTimeSeries:
    @pytest.fixture
    def analysis(self, tmp_path):
        copy = {"name": "Memcpy HtoD (a -> b)", "cat": "gpu_memcpy", "correlation": 2}
        write(
            tmp_path / "rank-3.json",
            [
                call(100, 1, 1),
                call(102, 1, 2),
                kernel(104.5, 3, correlation=1),
                kernel(110, 5, stream=20, **copy, bytes=10_000),
            ],
        )
        write(tmp_path / "rank-4.json", [host(90.25, 1, "aten::add")])
        return TraceAnalysis(trace_dir=tmp_path, progress=False)

    def test_signatures_are_those_of_hta(self):
        for name in ("queue_length_time_series", "queue_length_summary"):
            assert str(inspect.signature(getattr(TraceAnalysis, f"get_{name}"))).startswith(
                "(self, ranks: 'Iterable[int] | None' = None)"
            )
        for name in ("memory_bw_time_series", "memory_bw_summary"):
            assert list(inspect.signature(getattr(TraceAnalysis, f"get_{name}")).parameters) == [
                "self",
                "ranks",
            ]
        parameters = inspect.signature(TraceAnalysis.generate_trace_with_counters).parameters
        assert {name: each.default for name, each in list(parameters.items())[1:]} == {
            "time_series": None,
            "ranks": None,
            "output_suffix": "_with_counters",
            "output_dir": None,  # ours, by keyword only
        }
        assert parameters["output_dir"].kind is inspect.Parameter.KEYWORD_ONLY

    def test_queue_length(self, analysis):
        series = analysis.get_queue_length_time_series()
        assert list(series) == [3]
        assert series[3].index.name == "index"
        assert series[3].reset_index().to_dict("list") == {
            "index": [0, 2, 1, 3],
            "ts": [9.75, 14.25, 11.75, 19.75],
            "pid": [0] * 4,
            "tid": [7, 7, 20, 20],
            "stream": [7, 7, 20, 20],
            "queue_length": [1, 0, 1, 0],
        }
        summary = analysis.get_queue_length_summary()
        assert summary.index.names == ["rank", "stream"]
        assert summary.loc[(3, 20), ("queue_length", "mean")] == 0.5

    def test_memory_bandwidth(self, analysis):
        series = analysis.get_memory_bw_time_series([])
        assert series[3].to_dict("list") == {
            "ts": [19.75, 24.75],
            "pid": [0, 0],
            "name": ["Memcpy HtoD"] * 2,
            "memory_bw_gbps": [2.0, 0.0],
        }
        summary = analysis.get_memory_bw_summary()
        assert summary.index.names == ["rank", "name"]
        assert summary.loc[(3, "Memcpy HtoD"), ("memory_bw_gbps", "count")] == 1

    def test_a_rank_without_any(self, analysis):
        assert analysis.get_queue_length_time_series(ranks=[4]) == {}
        assert analysis.get_memory_bw_time_series(ranks=[4]) == {}
        assert analysis.get_queue_length_summary(ranks=[4]) is None
        assert analysis.get_memory_bw_summary(ranks=[4]) is None

    def test_transfers_without_bandwidth_give_an_empty_summary(self, tmp_path):
        write(tmp_path / "rank-0.json", [kernel(0, 5, name="Memset (Device)", cat="gpu_memset")])
        analysis = TraceAnalysis(trace_dir=tmp_path, progress=False)
        assert analysis.get_memory_bw_time_series()[0]["memory_bw_gbps"].tolist() == [0, 0]
        summary = analysis.get_memory_bw_summary()
        assert summary.empty
        assert summary.columns[0] == ("memory_bw_gbps", "count")

    def test_several_devices_have_a_column(self, tmp_path):
        events = [call(0, 1, 1), call(0, 1, 2)]
        events += [kernel(2, 1, correlation=number + 1, device=number) for number in (0, 1)]
        write(tmp_path / "rank-0.json", events)
        analysis = TraceAnalysis(trace_dir=tmp_path, progress=False)
        series = analysis.get_queue_length_time_series()[0]
        assert list(series.columns)[-1] == "device"
        assert series["queue_length"].tolist() == [1, 0, 1, 0]
        summary = analysis.get_queue_length_summary()
        assert summary.index.names == ["rank", "stream", "device"]
        assert len(summary.loc[(0, 7)]) == 2

    def test_counters_are_written_and_left_out(self, analysis, tmp_path):
        assert analysis.generate_trace_with_counters(TimeSeriesTypes.QUEUE_LENGTH) is None
        path = tmp_path / "rank-3_with_counters.json"
        assert "Queue Length" in path.read_text()
        assert "Memcpy BW" not in path.read_text()
        assert TraceAnalysis(trace_dir=tmp_path, progress=False).job.ranks == (3, 4)


class TestKernelSequences:
    @pytest.fixture
    def analysis(self, tmp_path):
        first = [host(0, 9.5, "aten::linear"), call(1, 1, 1), call(3, 1, 2)]
        first += [kernel(9, 1, name="bias", correlation=2, stream=0)]
        first += [kernel(5, 2.25, name="gemm", correlation=1)]
        write(tmp_path / "rank-3.json.gz", first)
        write(tmp_path / "rank-4.json.gz", [host(0, 1, "aten::add"), kernel(0, 1)])
        return TraceAnalysis(trace_dir=tmp_path, progress=False)

    def test_signature(self):
        method = TraceAnalysis.get_frequent_cuda_kernel_sequences
        ours = {name: value for name, value in defaults(method).items() if name != "whole_name"}
        assert ours == {
            "operator_name": inspect.Parameter.empty,
            "output_dir": inspect.Parameter.empty,
            "min_pattern_len": 3,
            "rank": 0,
            "top_k": 5,
            "visualize": False,
            "compress_other_kernels": True,
        }

    def test_table_and_overlay(self, analysis, tmp_path, shown):
        out = tmp_path / "out"
        out.mkdir()
        table = analysis.get_frequent_cuda_kernel_sequences("linear", str(out), 2, visualize=True)
        assert table.to_dict("list") == {
            "pattern": ["aten::linear|gemm|bias"],
            "count": [1],
            "GPU kernel duration (us)": [3.25],
            "CPU op duration (us)": [9.5],
        }
        assert shown == [None]
        assert [path.name for path in out.iterdir()] == ["overlaid_rank-3.json.gz"]

    def test_nothing_found(self, analysis, tmp_path):
        out = tmp_path / "out"
        out.mkdir()
        for arguments in ({}, {"min_pattern_len": 1, "rank": 4}):
            table = analysis.get_frequent_cuda_kernel_sequences("aten::linear", out, **arguments)
            assert table.empty
            assert table.columns[2] == "GPU kernel duration (us)"
        assert not list(out.iterdir())

    def test_what_is_refused(self, analysis, tmp_path):
        with pytest.raises(HtaWidgetsError, match=r"output_dir .* does not exist"):
            analysis.get_frequent_cuda_kernel_sequences("aten::linear", tmp_path / "nowhere")
        with pytest.raises(HtaWidgetsError, match="operator_name is empty"):
            analysis.get_frequent_cuda_kernel_sequences("", tmp_path)
        with pytest.raises(UnknownRankError, match="its ranks are 3-4"):
            analysis.get_frequent_cuda_kernel_sequences("aten::linear", tmp_path, rank=5)


def test_cupti_counters(tmp_path):
    measured = kernel(50, 5.5, name="gemm", cat="cuda_profiler_range")
    events = [host(0, 9, "outer"), host(1, 5, "inner"), call(2, 1, 1)]
    write(tmp_path / "rank-2.json", [*events, measured | {"args": {"inst.sum": 7}}])
    write(tmp_path / "rank-3.json", events)
    analysis = TraceAnalysis(trace_dir=tmp_path, progress=False)
    assert defaults(TraceAnalysis.get_cupti_counter_data_with_operators) == {"ranks": None}
    (table,) = analysis.get_cupti_counter_data_with_operators()
    assert table.to_dict("records") == [
        {
            "index": 3,
            "cat": "cuda_profiler_range",
            "name": "gemm",
            "pid": 0,
            "tid": 7,
            "ts": 50.0,
            "dur": 5.5,
            "inst.sum": 7.0,
            "index_runtime": 2,
            "op_stack": ["outer", "inner"],
            "top_level_op": "outer",
            "bottom_level_op": "inner",
        }
    ]
    assert analysis.get_cupti_counter_data_with_operators([3]) == []
    assert len(analysis.get_cupti_counter_data_with_operators([2, 3])) == 1


def test_profiler_steps(tmp_path):
    write(tmp_path / "rank-0.json", [step(7, 0, 5), step(8, 5, 5), step(9, 10, 5)])
    write(tmp_path / "rank-1.json", [step(6, 0, 5)])
    write(tmp_path / "rank-2.json", [host(0, 1, "op")])
    assert TraceAnalysis(trace_dir=tmp_path, progress=False).get_profiler_steps() == [6, 7, 8]
    every = TraceAnalysis(trace_dir=tmp_path, include_last_profiler_step=True, progress=False)
    assert every.get_profiler_steps() == [6, 7, 8, 9]
