"""HTA's TraceDiff: counts and durations by name on literal traces, and real ones."""

from __future__ import annotations

import inspect
import json

import pandas as pd
import pytest

from hta_widgets import LabeledTrace, TraceAnalysis, TraceDiff
from hta_widgets.errors import HtaWidgetsError, ParameterError, UnknownRankError, UnknownStepError
from hta_widgets.trace_diff import DeviceType
from tests.analyses.test_idle_owners import annotation
from tests.conftest import REAL_TRACES, REFERENCE
from tests.kineto_text import call, host, kernel, step, write

MORE = REFERENCE.parent / "hta_more.json"


def events(times=1, *, stream=7, name="void gemm<float>(int)"):
    """Two steps with operators and kernels, and the last one."""
    found = [step(number, 100 * number, 100) for number in (3, 4, 5)]
    for number in range(times):
        start = 300 + 10 * number
        found += [
            host(start, 8, "aten::linear"),
            host(start + 1, 6, "aten::mm"),
            call(start + 2, 2, number),
            kernel(start + 350, 5, name=name, stream=stream, correlation=number),
        ]
    return [*found, host(410, 9, "aten::add"), annotation(420, 5, "loss")]


@pytest.fixture
def folders(tmp_path):
    for label, content in (("a", events(1)), ("b", events(3, name="void gemm<half>(int)"))):
        folder = tmp_path / label
        folder.mkdir()
        for rank in (0, 1):
            write(folder / f"rank-{rank}.json", content)
    return tmp_path / "a", tmp_path / "b"


def test_signature_is_that_of_hta():
    defaults = {
        name: each.default
        for name, each in inspect.signature(TraceDiff.compare_traces).parameters.items()
    }
    assert [*defaults] == [
        *("control", "test", "control_rank", "test_rank", "control_iteration", "test_iteration"),
        *("device_type", "use_short_name"),
    ]
    assert defaults["device_type"] is DeviceType.ALL
    assert [each.value for each in DeviceType] == [1, 2, 3]


def test_compare_traces(folders):
    table = TraceDiff.compare_traces(*folders, device_type=DeviceType.CPU)
    assert table.index.name == "name"
    assert [*table][:7] == [
        *("Control_counts", "Control_total_duration", "Test_counts", "Test_total_duration"),
        *("diff_counts", "diff_duration", "counts_change_categories"),
    ]
    assert table.loc["aten::linear"].tolist() == [
        *(1, 8, 3, 24, 2, 16, "+"),
        *(2, 6, 8, 24),
    ]
    assert table.loc["ProfilerStep#3"].tolist()[:7] == [1, 100, 1, 100, 0, 0, "="]
    assert "aten::add" not in table.index
    assert (table.dtypes[["Control_counts", "Test_counts", "diff_counts"]] == "int64").all()


def test_names_of_one_trace_only(folders):
    table = TraceDiff.compare_traces(*folders, device_type=DeviceType.GPU)
    assert table.index.tolist() == ["void gemm<float>(int)", "void gemm<half>(int)"]
    assert table["diff_counts"].tolist() == [-1, 3]
    assert (table.dtypes[["Control_counts", "Test_counts"]] == "int64").all()
    short = TraceDiff.compare_traces(*folders, device_type=DeviceType.GPU, use_short_name=True)
    assert short.index.name == "short_name"
    assert short.loc["gemm", ["Control_counts", "Test_counts"]].tolist() == [1, 3]
    assert TraceDiff.ops_diff(*folders, device_type=DeviceType.GPU) == {
        "added": ["void gemm<half>(int)"],
        "deleted": ["void gemm<float>(int)"],
        "increased": [],
        "decreased": [],
        "unchanged": [],
    }
    assert TraceDiff.ops_diff(*folders)["increased"] == [
        *("aten::linear", "aten::mm", "cudaLaunchKernel")
    ]


def test_ranks_and_steps(folders):
    table = TraceDiff.compare_traces(
        *folders, control_rank=[0, 1], test_rank=1, control_iteration=[3, 4], test_iteration=4
    )
    assert table.loc["aten::add"].tolist()[:7] == [2, 18, 1, 9, -1, -9, "-"]
    assert table.loc["aten::add", "Control_duration_per_step"] == 18 / 4
    assert table.loc["loss", "Test_duration_per_step"] == 5
    with pytest.raises(UnknownRankError):
        TraceDiff.compare_traces(*folders, control_rank=9)
    with pytest.raises(UnknownStepError):
        TraceDiff.compare_traces(*folders, test_iteration=9)


def test_work_on_stream_0_belongs_to_its_step(tmp_path):
    path = write(tmp_path / "rank-0.json", events(1, stream=0))
    table = TraceDiff.compare_traces(path, path, device_type=DeviceType.GPU)
    assert table["Control_counts"].tolist() == [1]


def test_traces_that_are_passed_in_stay_as_they_are(folders):
    analysis = TraceAnalysis(trace_dir=folders[0], progress=False)
    before = analysis.get_gpu_kernel_breakdown(visualize=False)[1]
    work = analysis.job.rank(0).gpu_work.rows.copy()
    table = TraceDiff.compare_traces(analysis, LabeledTrace("new", t=analysis.job))
    assert [*table][:4] == [
        *("Control_counts", "Control_total_duration", "new_counts", "new_total_duration")
    ]
    assert (analysis.job.rank(0).gpu_work.rows == work).all()
    pd.testing.assert_frame_equal(analysis.get_gpu_kernel_breakdown(visualize=False)[1], before)


def test_equal_labels_are_told_apart(folders):
    trace = LabeledTrace("mine", trace_dir=folders[0])
    table = TraceDiff.compare_traces(trace, trace)
    assert next(iter(table)) == "mine_control_counts"
    assert trace.label == "mine"
    assert (table["counts_change_categories"] == "=").all()


def test_labeled_traces(folders):
    trace = LabeledTrace(trace_dir=folders[1])
    assert (trace.label, trace.ranks(), trace.iterations()) == ("b", [0, 1], [3, 4, 5])
    summary = trace.get_ops_summary(trace.extract_ops(iteration=3, device_type=DeviceType.GPU))
    assert summary.to_dict("records") == [
        {
            "cat": "kernel",
            "name": "void gemm<half>(int)",
            "short_name": "gemm",
            "counts": 3,
            "total_duration": 15.0,
            "cat_id": 0,
            "name_id": 0,
            "self_duration": 15.0,
        }
    ]
    for arguments in ({}, {"t": folders[0], "trace_dir": folders[0]}):
        with pytest.raises(ParameterError, match="either t= or trace_dir="):
            LabeledTrace(**arguments)
    with pytest.raises(HtaWidgetsError):
        LabeledTrace(trace_dir=folders[0] / "none")


def test_traces_without_steps(folders, tmp_path, caplog):
    path = write(tmp_path / "rank-0.json", [host(0, 5, "aten::mm"), kernel(0, 9)])
    table = TraceDiff.compare_traces(path, path)
    assert table["Control_counts"].tolist() == [1, 1]
    assert "all of the recordings are compared" in caplog.text
    with pytest.raises(ParameterError, match="Test has no ProfilerSteps, unlike the other trace"):
        TraceDiff.compare_traces(folders[0], path)


def test_figures(folders, monkeypatch, tmp_path):
    shown, written = [], []
    monkeypatch.setattr("plotly.graph_objects.Figure.show", lambda _, **__: shown.append(1))
    monkeypatch.setattr(
        "plotly.graph_objects.Figure.write_image", lambda _, path: written.append(path)
    )
    table = TraceDiff.compare_traces(*folders)
    assert TraceDiff.visualize_counts_diff(table) is None, "a cell would show it again"
    assert shown == [1]
    image = tmp_path / "a.png"
    counts = TraceDiff.visualize_counts_diff(table, show_image=False)
    durations = TraceDiff.visualize_duration_diff(table, False, image)
    assert (shown, written) == ([1], [str(image)])
    assert [bar.name for bar in counts.data] == ["Control", "Test", "Difference"]
    assert list(counts.data[2].x) == table["diff_counts"].tolist()
    assert list(durations.data[1].x) == table["Test_total_duration"].tolist()
    assert any("void gemm&lt;float" in text for text in durations.data[0].hovertext)


@pytest.mark.skipif(not MORE.is_file(), reason=f"no reference results at {MORE}")
@pytest.mark.parametrize(
    "pair", json.loads(MORE.read_text())["trace_diff"] if MORE.is_file() else []
)
def test_equal_to_the_reference(pair):
    expected = json.loads(MORE.read_text())["trace_diff"][pair]
    control, _, rest = pair.partition(" vs ")
    test, kind = rest.split()
    jobs = [REAL_TRACES / "kineto" / name for name in (control, test)]
    table = TraceDiff.compare_traces(*jobs, device_type=DeviceType[kind])
    assert len(table) == expected["rows"]
    numbers = table.iloc[:, :4].sum().tolist()
    keys = ("control_counts", "control_us", "test_counts", "test_us")
    assert numbers == pytest.approx([expected[key] for key in keys], abs=0.01)
    changes = TraceDiff.ops_diff(*jobs, device_type=DeviceType[kind])
    assert {name: len(each) for name, each in changes.items() if each} == expected["ops"]
    for name, (counts, us) in expected["top"].items():
        (row,) = table[[str(each).startswith(name) for each in table.index]][
            ["diff_counts", "diff_duration"]
        ].to_numpy()[:1]
        assert row.tolist() == pytest.approx([counts, us], abs=0.01)
