from __future__ import annotations

import pandas as pd
import pytest

from hta_widgets.analyses.launch_overlap import launch_overlap
from hta_widgets.panels import LaunchOverlapPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, write


@pytest.mark.parametrize("listed", ["threads", "launch_apis", "apis_by_kernel"])
def test_the_result_is_that_of_the_analysis(loaded: Job, listed):
    panel = LaunchOverlapPanel(loaded, ranks=[1, 2], listed=listed)
    expected = launch_overlap(loaded, [1, 2])
    pd.testing.assert_frame_equal(panel.result.ranks, expected.ranks)
    pd.testing.assert_frame_equal(panel.table, getattr(expected, listed))
    assert len(panel.table)


def test_a_selection_keeps_the_other_ranks_in_grey(loaded: Job):
    panel = LaunchOverlapPanel(loaded)
    panel.ranks = [2]
    hidden = panel.figures["Launch time of each rank"].data[0]
    assert len(hidden.x) == 4
    assert list(hidden.selectedpoints) == [2]
    panel.ranks = []


def test_shares_or_times(loaded: Job):
    panel = LaunchOverlapPanel(loaded)
    assert panel.figures["Launch time of each rank"].layout.yaxis.range == (0, 100)
    panel.as_percent = False
    assert "Time (" in panel.figures["Launch time of each rank"].layout.yaxis.title.text
    assert "time (" in panel.figures["Kernel time by launch API"].layout.xaxis.title.text


def test_no_launches_are_said(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    assert (
        LaunchOverlapPanel(job)._view["empty"]
        == "No kernel launches were recorded on the selected ranks."
    )
