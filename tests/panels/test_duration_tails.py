from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.duration_tails import duration_tails
from hta_widgets.panels import Dashboard, DurationTailsPanel, LaunchOverlapPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.loaders.formats import NSYS, OVERLAP_RECIPE
from hta_widgets.trace.opening.open import open_trace
from tests.analyses.lane_jobs import computing
from tests.kineto_text import call, host, kernel, write
from tests.panels.fakes import send


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = DurationTailsPanel(loaded, ranks=[2], percent=3)
    expected = duration_tails(loaded, [2], percent=3)
    pd.testing.assert_frame_equal(panel.result.tails, expected.tails)
    pd.testing.assert_frame_equal(panel.result.categories, expected.categories)
    assert panel.table["rank"].tolist() == [2] * len(panel.table)
    assert set(panel.table["percent"]) == {1, 3, 5, 10}


def test_the_slider_marks_another_percentage(loaded: Job):
    panel = DurationTailsPanel(loaded)
    names = list(panel.figures)
    view = send(panel, percent=12.34)
    assert view["error"] is None
    assert panel.result.percent == 12.3
    assert panel.figures["Time in the longest events"].layout.shapes[0].x0 == 12.3
    assert list(panel.figures) == names


def test_a_percentage_out_of_range_is_refused(loaded: Job):
    panel = DurationTailsPanel(loaded)
    assert send(panel, percent=60)["error"]
    assert panel.percent == 1


def test_one_side_of_the_table_and_the_figures(loaded: Job):
    panel = DurationTailsPanel(loaded, side="host")
    assert set(panel.table["category"]) == {"runtime", "driver"}
    assert panel.table["rank"].unique().tolist() == ["all", 0, 1, 2, 3]
    panel.listed = "categories"
    assert set(panel.table["side"]) == {"host"}
    assert len(panel.figures["Time by category"].data[0].x) == 2
    assert " API calls (" in panel.result.finding
    panel.side = "device"
    assert "calls" not in panel.result.finding


def test_nothing_recorded_is_said(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    panel = DurationTailsPanel(job)
    assert panel._view["empty"] == panel.result.finding
    assert list(panel.table) == list(panel.result.tails)
    write(tmp_path / "rank-0.json", [kernel(0, 1)])
    panel = DurationTailsPanel(open_trace(tmp_path, progress=False), side="host")
    assert panel._view["empty"] == "No CUDA API calls were recorded on the selected ranks."


@pytest.mark.parametrize("name", ["duration_tails", "launch_overlap"])
def test_it_is_in_the_dashboard(tmp_path, name):
    write(tmp_path / "rank-0.json", [call(0, 1, 1), kernel(2, 1, correlation=1)])
    assert name in Dashboard(tmp_path).panels


@pytest.mark.parametrize("panel", [DurationTailsPanel, LaunchOverlapPanel])
def test_a_recipe_folder_does_not_concern_it(panel):
    assert not panel.concerns(computing(OVERLAP_RECIPE))
    assert panel.concerns(computing(NSYS))
