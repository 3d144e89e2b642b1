from __future__ import annotations

import pandas as pd

from hta_widgets.analyses.launch_stats import launch_stats
from hta_widgets.panels import LaunchStatsPanel
from hta_widgets.trace.job import Job
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, write
from tests.panels.fakes import send


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = LaunchStatsPanel(loaded, ranks=[2], runtime_cutoff=5, launch_delay_cutoff=7)
    panel.include_memory_events = False
    expected = launch_stats(
        loaded, [2], runtime_cutoff=5, launch_delay_cutoff=7, include_memory_events=False
    )
    pd.testing.assert_frame_equal(panel.result.ranks, expected.ranks)
    pd.testing.assert_frame_equal(panel.result.distributions, expected.distributions)
    pd.testing.assert_frame_equal(panel.table, expected.worst)


def test_cutoffs_change_the_histograms_but_not_the_figures_names(loaded: Job):
    panel = LaunchStatsPanel(loaded)
    names = list(panel.figures)
    before = panel.figures["Long launch delays"]
    send(panel, launch_delay_cutoff=1)
    assert list(panel.figures) == names
    assert sum(panel.figures["Long launch delays"].data[0].y) >= sum(before.data[0].y)


def test_a_histogram_without_launches_has_no_cell(loaded: Job):
    panel = LaunchStatsPanel(loaded)
    assert "Long launch delays" in panel.figures
    send(panel, launch_delay_cutoff=1e6)
    assert "Long launch delays" not in panel.figures
    assert "No work started more than 1 s after its call." in panel._view["finding"]


def test_the_worst_by_either_measure(loaded: Job):
    panel = LaunchStatsPanel(loaded)
    assert panel.table["launch_delay_ns"].is_monotonic_decreasing
    panel.worst_by = "cpu_duration"
    assert panel.table["cpu_duration_ns"].is_monotonic_decreasing
    assert (panel.table["operator"] != "").any()


def test_no_launches_are_said(tmp_path):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]), progress=False)
    assert (
        LaunchStatsPanel(job)._view["empty"]
        == "No launches of GPU work were recorded on the selected ranks."
    )
