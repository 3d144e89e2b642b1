from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.panels import TemporalBreakdownPanel
from hta_widgets.trace.job import Job


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = TemporalBreakdownPanel(loaded, ranks=[1, 3])
    pd.testing.assert_frame_equal(panel.result.ranks, temporal_breakdown(loaded, [1, 3]).ranks)
    pd.testing.assert_frame_equal(panel.table, panel.result.ranks)


def test_a_linked_panel_draws_all_ranks_and_fades_the_others(loaded: Job):
    panel = TemporalBreakdownPanel(loaded)
    panel.ranks = [2]
    (figure,) = panel.figures.values()
    assert all(len(bar.x) == 4 for bar in figure.data)
    assert all(tuple(bar.selectedpoints) == (2,) for bar in figure.data)
    assert panel.result.ranks["rank"].tolist() == [2]
    panel.ranks = []


def test_one_with_ranks_of_its_own_draws_only_those(loaded: Job):
    (figure,) = TemporalBreakdownPanel(loaded, ranks=[2]).figures.values()
    assert all(len(bar.x) == 1 for bar in figure.data)


def test_shares_or_times(loaded: Job):
    panel = TemporalBreakdownPanel(loaded)
    assert "%" in panel.figures["GPU time by activity"].layout.yaxis.title.text
    panel.as_percent = False
    assert "%" not in panel.figures["GPU time by activity"].layout.yaxis.title.text


def test_the_time_from_first_to_last_work_is_headed_as_in_the_chart(loaded: Job):
    panel = TemporalBreakdownPanel(loaded)
    headings = {each["name"]: each["label"] for each in panel._view["table"]["columns"]}
    assert headings["kernel_time_ns"] == "GPU span"
