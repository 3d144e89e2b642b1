"""The façade: HTA's names, arguments, columns and units on small literal jobs."""

from __future__ import annotations

import inspect
import math

import plotly.graph_objects as go
import pytest

from hta_widgets import TraceAnalysis
from hta_widgets.errors import TraceNotFoundError
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
    """Figures shown instead of sent to a notebook, with the renderer asked for."""
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


def test_trace_files(folder, monkeypatch):
    assert TraceAnalysis({5: "rank-0.json.gz"}, folder).job.ranks == (5,)
    assert TraceAnalysis(["rank-1.json"], str(folder)).job.ranks == (1,)
    assert TraceAnalysis(str(folder / "rank-1.json")).job.ranks == (1,)
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
    for rank in (0, 1):
        assert analysis.job.rank(rank).trace.events.to_frame().equals(before[rank])
