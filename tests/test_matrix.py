"""Every public method on every trace: no exception, and a table of what came out."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hta_widgets import Dashboard, TraceAnalysis, open_trace
from hta_widgets.analyses.clocks import clocks
from hta_widgets.analyses.collectives import collectives
from hta_widgets.analyses.compare import compare
from hta_widgets.analyses.cupti_counters import cupti_counters
from hta_widgets.analyses.duration_tails import duration_tails
from hta_widgets.analyses.flame import flame
from hta_widgets.analyses.idle_owners import idle_owners
from hta_widgets.analyses.idle_time import idle_time
from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.kernel_sequences import kernel_sequences
from hta_widgets.analyses.launch_overlap import launch_overlap
from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.analyses.memory_bandwidth import memory_bandwidth
from hta_widgets.analyses.memory_use import memory_use
from hta_widgets.analyses.modules import modules
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.queue_length import queue_length
from hta_widgets.analyses.rank_overlap import rank_overlap
from hta_widgets.analyses.result import Result
from hta_widgets.analyses.roofline import roofline
from hta_widgets.analyses.step_table import step_table
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from tests.conftest import MATRIX

SAMPLE = "sample job"
TRACES = (
    "alexnet",
    "b200_eager",
    "compare_control",
    "compare_test",
    "cpu_only",
    "cupti_counters",
    "ddp_rank1of2",
    "dlrm_2rank",
    "dlrm_8rank",
    "event_sync_multi_stream",
    "h100_bert",
    "h100_qwen",
    "mi210_gpu_only",
    "mi250_toy",
    "mi300_bert",
    "no_distributed_info",
    "no_rank",
    "ns_resolution",
    "sglang_decode_graph",
    "simple_add",
    "torch_compile",
    "triton",
)

OTHER_FORMATS = (
    "nsys/h100_2gpu_1s.sqlite",
    "nsys/healthy_1pct.sqlite",
    *(
        f"converted/{job}/{form}"
        for job in ("compare_control", "dlrm_2rank", "h100_bert")
        for form in ("cupti_csv", "nsys_recipe", "nsys_sqlite")
    ),
    "converted/dlrm_2rank/nsys_parquetdir",
    "converted/dlrm_2rank/nsys_sqlite_node",
)

METHODS: dict[str, Callable[[TraceAnalysis, Path], Any]] = {
    "temporal": lambda a, _: a.get_temporal_breakdown(visualize=False),
    "kernels": lambda a, _: a.get_gpu_kernel_breakdown(visualize=False)[1],
    "overlap": lambda a, _: a.get_comm_comp_overlap(visualize=False),
    "idle": lambda a, _: a.get_idle_time_breakdown(visualize=False, show_idle_interval_stats=True)[
        0
    ],
    "launches": lambda a, _: a.get_cuda_kernel_launch_stats(visualize=False),
    "queue series": lambda a, _: a.get_queue_length_time_series(),
    "queue": lambda a, _: a.get_queue_length_summary(),
    "bandwidth series": lambda a, _: a.get_memory_bw_time_series(),
    "bandwidth": lambda a, _: a.get_memory_bw_summary(),
    "sequences": lambda a, folder: a.get_frequent_cuda_kernel_sequences(
        "aten::", str(folder), min_pattern_len=1, rank=a.job.ranks[0]
    ),
    "cupti": lambda a, _: a.get_cupti_counter_data_with_operators(),
    "counters": lambda a, _: a.generate_trace_with_counters(ranks=list(a.job.ranks)),
    "steps": lambda a, _: a.get_profiler_steps(),
}

ANALYSES: tuple[Callable[[Job], Result], ...] = (
    temporal_breakdown,
    kernel_breakdown,
    overlap,
    idle_time,
    idle_owners,
    lambda job: flame(job, job.ranks[0]),
    modules,
    step_table,
    launch_stats,
    queue_length,
    memory_bandwidth,
    memory_use,
    roofline,
    lambda job: kernel_sequences(job, operator_name="aten::"),
    cupti_counters,
    rank_overlap,
    lambda job: rank_overlap(job, by="stream", slices=7, common_window=True),
    duration_tails,
    launch_overlap,
    clocks,
    collectives,
    lambda job: compare(job, job),
)


def size(result: Any) -> str:
    """Rows, or what came instead of a table."""
    if result is None:
        return "None"
    if isinstance(result, dict):
        return "{}" if not result else f"{sum(len(table) for table in result.values()):,}"
    if isinstance(result, list):
        tables = [each for each in result if isinstance(each, pd.DataFrame)]
        return f"{sum(map(len, tables)):,}" if tables else f"[{len(result)}]"
    return f"{len(result):,}"


@pytest.fixture
def trace_folder(request, tmp_path):
    """A copy of the traces, since some methods write beside them."""
    folder = tmp_path / "traces"
    if request.param == SAMPLE:
        write_sample(folder, ranks=2, steps=3, progress=False)
    else:
        source = request.getfixturevalue("kineto_jobs")[request.param]
        shutil.copytree(source, folder, copy_function=shutil.copyfile)
        folder.chmod(0o755)
    return folder


@pytest.mark.parametrize("trace_folder", [SAMPLE, *TRACES], indirect=True)
def test_every_method(trace_folder, tmp_path, request, record_property):
    output = tmp_path / "overlaid"
    output.mkdir()
    before = {path: path.read_bytes() for path in trace_folder.iterdir()}
    analysis = TraceAnalysis(trace_dir=trace_folder, progress=False)
    results = {name: size(method(analysis, output)) for name, method in METHODS.items()}
    cells = "  ".join(f"{name} {result}" for name, result in results.items())
    record_property(MATRIX, f"{request.node.callspec.id:<24} {cells}")
    assert {path: path.read_bytes() for path in before} == before
    findings = [analyse(analysis.job).finding for analyse in ANALYSES]
    assert all(finding.endswith(".") and len(finding) > 20 for finding in findings if finding)
    again = TraceAnalysis(trace_dir=trace_folder, progress=False)
    assert again.job.ranks == analysis.job.ranks


@pytest.mark.parametrize("form", OTHER_FORMATS)
def test_every_analysis_of_other_formats(real_traces, form):
    job = open_trace(real_traces / form, progress=False)
    findings = [analyse(job).finding for analyse in ANALYSES]
    assert all(finding.endswith(".") and len(finding) > 20 for finding in findings if finding)
    dashboard = Dashboard(job)
    assert all(panel.result is not None for panel in dashboard.panels.values())
    assert dashboard._repr_mimebundle_()
    assert dashboard._bands["error"] is None
    assert [panel._view["error"] for panel in dashboard.panels.values()] == (
        [None] * len(dashboard.panels)
    )


def test_all_other_formats_are_in_the_matrix(real_traces):
    folders = {
        path.relative_to(real_traces).as_posix()
        for path in (real_traces / "converted").glob("*/*")
        if path.is_dir()
    }
    assert {form for form in OTHER_FORMATS if form.startswith("converted")} == folders


def test_all_real_traces_are_in_the_matrix(kineto_jobs):
    assert set(TRACES) == set(kineto_jobs)
