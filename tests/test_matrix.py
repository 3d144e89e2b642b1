"""Every public method on every trace, and every way in on recordings that lack much."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from hta_widgets import Dashboard, TraceAnalysis, cli, open_trace
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
from hta_widgets.panels.every import PANELS
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from tests.conftest import MATRIX
from tests.kineto_text import Event, host, kernel, write
from tests.parts import Recording, category, cpu_side

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
    "mi300_timesformer",
    "no_distributed_info",
    "no_rank",
    "ns_resolution",
    "sglang_capture",
    "sglang_decode_graph",
    "simple_add",
    "torch_compile",
    "triton",
    "vllm_piecewise",
    "vllm_piecewise_capture",
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


def critical_path(analysis: TraceAnalysis, _: Path) -> pd.DataFrame:
    """The path through a step, or the whole recording.

    `tests.test_critical_path_methods` marks paths in copies, which takes as long as to find them.
    """
    stretch = ("ProfilerStep", 0) if analysis.get_profiler_steps() else ("", None)
    graph, success = analysis.critical_path_analysis(analysis.job.ranks[0], *stretch)
    assert success == bool(graph.critical_edges())
    return graph.get_critical_path_breakdown()


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
    "critical path": critical_path,
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


GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")


def _of_cpu(_: Path, recordings: list[Recording]) -> list[bytes]:
    return [cpu_side(recordings[0])]


def _one_of_cpu(_: Path, recordings: list[Recording]) -> list[bytes]:
    return [recordings[0].text, cpu_side(recordings[1])]


def _of_gpu(_: Path, recordings: list[Recording]) -> list[bytes]:
    gpu = {*GPU_WORK, "gpu_user_annotation"}
    events = [event for event in recordings[0].events if category(event) in gpu]
    return [recordings[0].of(events)]


def _of_four_gpus(_: Path, recordings: list[Recording]) -> list[bytes]:
    """One process that uses all GPUs of its host, as DataParallel does."""
    events = [json.loads(json.dumps(event)) for event in recordings[0].events]
    works = [event for event in events if category(event) in GPU_WORK]
    for number, event in enumerate(works):
        event["args"]["device"] = event["pid"] = number % 4
    return [recordings[0].of(events)]


def _literal(*events: Event) -> Callable[[Path, list[Recording]], list[bytes]]:
    def written(folder: Path, _: list[Recording]) -> list[bytes]:
        return [write(folder / "literal.json", [*events]).read_bytes()]

    return written


GENERATED = {
    "CPU only": _of_cpu,
    "one rank of the CPU": _one_of_cpu,
    "GPU only": _of_gpu,
    "four GPUs": _of_four_gpus,
    "one kernel": _literal(kernel(0, 5)),
    "one operator": _literal(host(0, 5, "aten::_softmax")),
    "empty": _literal(),
}
SHARED = ("cpu_only", "mi210_gpu_only")
WITHOUT_GPU_WORK = ("CPU only", "one operator", "empty", "cpu_only")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    folder = tmp_path_factory.mktemp("sample")
    paths = write_sample(folder, ranks=2, steps=2, events=1, progress=False)
    return [Recording.read(path) for path in paths]


@pytest.fixture
def scarce(request: pytest.FixtureRequest, tmp_path: Path, recordings: list[Recording]) -> Path:
    """A folder of traces that lack much."""
    folder = tmp_path / "scarce"
    if request.param in SHARED:
        source = request.getfixturevalue("kineto_jobs")[request.param]
        shutil.copytree(source, folder, copy_function=shutil.copyfile)
        return folder
    folder.mkdir()
    for rank, content in enumerate(GENERATED[request.param](tmp_path, recordings)):
        (folder / f"rank-{rank}.json").write_bytes(content)
    return folder


in_all_of_them = pytest.mark.parametrize("scarce", [*GENERATED, *SHARED], indirect=True)


@in_all_of_them
def test_every_panel_of_a_scarce_recording(scarce: Path) -> None:
    job = open_trace(scarce, progress=False)
    for make in PANELS.values():
        panel = make(job)
        assert panel.result is not None
        assert panel._view["error"] is None
        shown = panel._repr_mimebundle_()[0]["text/html"]
        drawn = "<img" in shown or "<table" in shown
        assert (drawn or panel._view["finding"]) if panel._view["empty"] is None else shown
        panel.close()


@in_all_of_them
def test_the_dashboard_of_a_scarce_recording(scarce: Path) -> None:
    board = Dashboard(scarce)
    assert board._repr_mimebundle_()
    options = board.report_state()["_options"]
    chosen = {json.loads(value)[0]: json.loads(value)[1] for _, value, _ in options}
    for field, value in [*chosen.items(), ("ranks", [board.job.ranks[-1]])]:
        board.selection.set(**{field: value})
        board.compute_all()
        assert board._bands["error"] is None
        for act in ("next", "previous"):
            board._act(None, {"act": act}, [])
        assert [panel.result is None for panel in board.panels.values()] == (
            [False] * len(board.panels)
        )
        assert board.events is not None
    board.selection.set()
    board.compare = board.job
    board.compute_all()
    assert [panel._view["error"] for panel in board.panels.values()] == [None] * len(board.panels)
    board.close()


@in_all_of_them
def test_every_command_on_a_scarce_recording(
    scarce: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    path = str(scarce)
    assert cli.main(["diagnose", path]) == 0
    assert len(capsys.readouterr().out) > 40
    assert cli.main(["diagnose", path, "--fail-on-findings", "--json"]) in (0, 3, 4)
    assert json.loads(capsys.readouterr().out)["verdict"].endswith(".")
    assert cli.main(["report", path, "-o", str(tmp_path / "a.html"), "--compare", path]) == 0
    assert (tmp_path / "a.html").stat().st_size > 100_000
    notebooks: list[Path] = []
    served = SimpleNamespace(serve=lambda notebook, *_, **__: notebooks.append(notebook))
    monkeypatch.setattr(cli, "lab", served)
    assert cli.main(["open", path, "--folder", str(tmp_path)]) == 0
    cells, names = json.loads(notebooks[0].read_text())["cells"], dict[str, Any]()
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)  # noqa: S102  # what `open` writes
    assert names["dash"]._repr_mimebundle_()


@pytest.mark.parametrize("scarce", GENERATED, indirect=True)
def test_every_method_on_a_scarce_recording(scarce: Path, tmp_path: Path) -> None:
    analysis = TraceAnalysis(trace_dir=scarce, progress=False)
    for method in METHODS.values():
        size(method(analysis, tmp_path))
    findings = [analyse(analysis.job).finding for analyse in ANALYSES]
    assert all(finding.endswith(".") and len(finding) > 20 for finding in findings if finding)


@pytest.mark.parametrize("scarce", WITHOUT_GPU_WORK, indirect=True)
def test_without_gpu_work_there_is_an_answer(scarce: Path) -> None:
    board = Dashboard(scarce)
    board.compute_all()
    said, rows = board._bands["said"], board._bands["findings"]
    assert "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]" in said
    assert board.findings.finding.startswith(said[:60])
    assert len(board.findings) == 0
    listed = board.panels["operators"].result.operators
    sentences = [row["sentence"] for row in rows]
    waits = any(each.startswith("Collectives run") for each in sentences)  # for all but 4 µs
    assert any(each.startswith("Of ") for each in sentences) == bool(len(listed) and not waits)
    assert board.tab == "operators"
    weighed = {"operators", "flame", "modules"} & {*board.panels}  # modules where some are recorded
    assert {board.panels[name].weight for name in weighed} == {"cpu"}
    assert all(board.panels[name].on == "cpu" for name in {"gpu_annotations"} & {*board.panels})
    if len(listed):
        assert board.panels["operators"]._view["empty"] is None
        assert board.panels["flame"]._view["empty"] is None
    board.close()


@pytest.mark.parametrize("scarce", ["CPU only"], indirect=True)
def test_the_search_finds_what_the_cpu_did(scarce: Path) -> None:
    board = Dashboard(scarce)
    details = {label: detail for label, _, detail in board.report_state()["_options"]}
    assert details["aten::_softmax"].startswith("operator, ")
    assert details["## forward ##"].startswith("annotation, ")
    assert any(detail.startswith("Python function, ") for detail in details.values())
    assert board.panels["memory_use"].memory == "cpu"
    board.close()


@pytest.mark.parametrize("scarce", ["one rank of the CPU"], indirect=True)
def test_one_rank_without_gpu_work_is_named(scarce: Path) -> None:
    board = Dashboard(scarce)
    assert board.findings.ranks == (0,)
    assert board.findings.cpu_work is None
    assert any(each.startswith("GPU work of rank 1 is not") for each in board.findings.notices)
    assert board.panels["operators"].weight == "gpu"
    assert PANELS["flame"](board.job, ranks=[1]).weight == "cpu"
    board.close()
