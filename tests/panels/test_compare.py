from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.compare import compare
from hta_widgets.diagnosis.change.explain_change import explain_change
from hta_widgets.panels import ComparePanel, KernelBreakdownPanel
from hta_widgets.sample import write_sample
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import call, kernel, step, write


@pytest.fixture(scope="module")
def other(tmp_path_factory) -> Job:
    folder = tmp_path_factory.mktemp("other")
    write_sample(folder, ranks=2, steps=5, progress=False)
    return open_trace(folder, progress=False)


def test_the_result_is_that_of_the_analysis(loaded: Job, other: Job):
    panel = ComparePanel(loaded, other, per_step=False)
    expected = compare(loaded, other)
    pd.testing.assert_frame_equal(panel.result.kernels, expected.kernels)
    pd.testing.assert_frame_equal(panel.table, expected.kernels)
    assert panel._view["finding"] == expected.finding
    assert list(panel.figures) == ["Kernels with the largest change", "Times", "Longest events"]


def test_jobs_of_unequal_length_are_compared_step_by_step(loaded: Job, other: Job):
    panel = ComparePanel(loaded, other)
    assert panel.per_step
    assert panel.result.unit == "per rank and step"
    panel.per_step = False
    assert panel.result.unit == "per rank"
    assert not ComparePanel(loaded, loaded).per_step


def test_both_jobs_are_named(loaded: Job, other: Job):
    panel = ComparePanel(loaded, other)
    assert panel._spec["title"] == f"{loaded.name} → {other.name}"
    assert repr(panel).startswith(f"ComparePanel({loaded.name!r}, {other.name!r}, listed='kernels'")
    assert ComparePanel(loaded, loaded)._spec["title"].endswith("(second)")


def test_anything_that_can_be_opened_can_be_compared(tmp_path):
    paths = [
        write(tmp_path / f"{name}.json", [kernel(0, 10, name=name)]) for name in ("one", "two")
    ]
    panel = ComparePanel(paths[0], str(paths[1]))
    assert panel.result.only_in_one["kernel"].tolist() == ["one", "two"]


def test_number_and_order_of_kernels(loaded: Job, other: Job):
    panel = ComparePanel(loaded, other, num_kernels=3, per_step=False)
    bars = panel.figures["Kernels with the largest change"].data
    assert sum(len(bar.x) for bar in bars) == 3
    panel.sort_by = "mean"
    changes = panel.table["delta_mean_ns"].abs()
    assert changes.is_monotonic_decreasing


@pytest.mark.parametrize("listed", ["only_in_one", "tails", "times"])
def test_other_tables(loaded: Job, other: Job, listed):
    panel = ComparePanel(loaded, other, listed=listed)
    pd.testing.assert_frame_equal(panel.table, getattr(panel.result, listed))


def test_the_table_says_where_the_time_of_a_step_went(loaded: Job, other: Job):
    panel = ComparePanel(loaded, other, listed="waterfall")
    change = explain_change(loaded, other)
    pd.testing.assert_frame_equal(panel.table, change.waterfall)
    assert panel.table["delta_ns"].sum() == change.delta_ns


def test_a_kernel_of_the_first_job_is_selected_with_its_panels(loaded: Job, other: Job):
    panel = ComparePanel(loaded, other)
    breakdown = KernelBreakdownPanel(loaded)
    [bars, *_] = panel.figures["Kernels with the largest change"].data
    breakdown.selection.kernel = bars.customdata[0][0]
    [bars, *_] = panel.figures["Kernels with the largest change"].data
    assert bars.selectedpoints == (0,)
    breakdown.selection.kernel = ""


def test_selected_ranks_do_not_matter(loaded: Job, other: Job):
    panel = ComparePanel(loaded, other)
    before = panel.result
    panel.selection.ranks = [1]
    assert panel.result is before
    panel.selection.ranks = []
    with pytest.raises(TypeError, match="has no parameter ranks; it has listed, num_kernels"):
        ComparePanel(loaded, other, ranks=[0])


def test_steps_that_a_job_lacks_are_missed_in_the_panel(tmp_path):
    steps = [step(0, 0, 50), kernel(10, 10, name="gemm")]
    paths = [
        write(tmp_path / "with.json", steps),
        write(tmp_path / "without.json", [kernel(0, 10, name="gemm")]),
    ]
    panel = ComparePanel(*paths)
    assert list(panel.figures) == ["Times"]
    panel.per_step = True
    assert "missing in without.json" in panel._view["error"]
    panel.per_step = False
    assert panel._view["error"] is None


def test_without_gpu_work_there_is_nothing_to_show(tmp_path):
    path = write(tmp_path / "idle.json", [call(0, 5, 1)])
    panel = ComparePanel(path, path)
    assert panel._view["empty"] == "Neither job has any GPU work."
    assert panel.figures == {}


def test_a_closed_panel_no_longer_follows_the_selection(loaded: Job, other: Job):
    panel = ComparePanel(loaded, other)
    shown = panel._view
    panel.close()
    loaded_selection = panel.selection
    loaded_selection.kernel = "gemm"
    assert panel._view is shown
    loaded_selection.kernel = ""
