from __future__ import annotations

import pandas as pd
import pytest
from traitlets import TraitError

from hta_widgets.analyses.rank_overlap import rank_overlap
from hta_widgets.panels import Dashboard, RankOverlapPanel
from hta_widgets.trace.job import Job
from tests.analyses.lane_jobs import (
    COMMUNICATE,
    COMPUTE,
    COPY,
    busy_rank,
    columns_job,
    kernels_job,
)


def a_rank(compute, communicate):
    return [(COMPUTE, 0, compute, 0, 7), (COMMUNICATE, compute, communicate, 0, 20)]


def test_the_result_is_that_of_the_analysis(loaded: Job):
    panel = RankOverlapPanel(
        loaded, ranks=[1, 3], by="stream", slices=7, common_window=True, as_percent=False
    )
    expected = rank_overlap(loaded, [1, 3], by="stream", slices=7, common_window=True)
    pd.testing.assert_frame_equal(panel.result.slices, expected.slices)
    numbers = {"device", "stream", "node"}
    pd.testing.assert_frame_equal(panel.table, expected.lanes.drop(columns="node"))  # all are -1
    panel.listed = "outliers"
    assert {*panel.table.columns} | numbers == {*expected.outliers.columns}


def test_a_linked_panel_draws_all_ranks_and_rings_around_the_selected(loaded: Job):
    panel = RankOverlapPanel(loaded)
    panel.ranks = [0, 2]
    for figure in panel.figures.values():
        assert [(shape.y0, shape.y1) for shape in figure.layout.shapes] == [(-0.5, 0.5), (1.5, 2.5)]
    assert panel.table["rank"].tolist() == [0, 2]
    panel.ranks = []


def test_few_lanes_are_strips_and_many_are_images():
    job = columns_job({rank: busy_rank(rank, 40) for rank in range(20)})
    panel = RankOverlapPanel(job)
    kinds = [figure.data[-1].type for figure in panel.figures.values()]
    assert kinds == ["heatmap", "heatmap"]
    panel.ranks = [4]
    assert [figure.data[0].type for figure in panel.figures.values()] == [
        "heatmap",
        "heatmap",
        "bar",
    ]
    assert len(RankOverlapPanel(job, ranks=list(range(12))).figures) == 2
    assert len(RankOverlapPanel(job, ranks=[1, 2]).figures) == 2


def test_the_table_of_outliers_begins_with_the_farthest():
    works = {rank: a_rank(500 + rank, 500 - rank) for rank in range(7)} | {7: a_rank(900, 100)}
    panel = RankOverlapPanel(kernels_job(works), listed="outliers")
    assert set(panel.table["rank"]) == {7}
    assert "▲ above" in next(iter(panel.figures))
    far = panel.table["modified_z"].abs().tolist()
    assert far == sorted(far, reverse=True)
    assert panel._view["finding"].startswith("Rank 7 differs most among 8 ranks")
    panel.ranks = [7]
    assert set(panel.table["rank"]) == {7}


def test_outliers_in_time_are_said_and_marked_beside_the_numbers():
    works = {rank: a_rank(100 + rank, 900 - rank) for rank in range(7)} | {7: a_rank(300, 2_700)}
    panel = RankOverlapPanel(kernels_job(works), listed="outliers")
    assert panel.result.finding.startswith("Rank 7 differs most among 8 ranks: communication that ")
    assert " takes 2.7 µs, higher than the median of 898 ns." in panel.result.finding
    assert next(iter(panel.figures)) == "Time by rank"  # of shares, which are alike
    assert "device" not in panel.table
    assert panel._view["table"]["names"]["compute_ns"] == "compute only (ns)"
    panel.as_percent = False
    name, figure = next(iter(panel.figures.items()))
    assert "▲ above" in name
    marks = [each for each in figure.data if each.type == "scatter"]
    assert marks
    assert all(x > 0.3 for each in marks for x in each.x)


def test_without_kernels_there_is_nothing_to_show():
    panel = RankOverlapPanel(kernels_job({0: [(COPY, 0, 9, 0, 7)], 1: []}))
    assert panel._view["empty"] == "No kernels on the selected ranks."
    assert panel.figures == {}
    assert panel._view["error"] is None


def test_marks_are_explained_only_where_there_are_some():
    alike = kernels_job({rank: a_rank(500, 500) for rank in range(8)})
    assert next(iter(RankOverlapPanel(alike).figures)) == "Time by rank"


@pytest.mark.parametrize("wrong", [{"by": "node"}, {"slices": 0}, {"slices": 201}])
def test_values_out_of_range_are_refused(loaded: Job, wrong):
    with pytest.raises(TraitError):
        RankOverlapPanel(loaded, **wrong)


def test_the_dashboard_shows_it_where_there_are_ranks_or_gpus_to_compare(loaded: Job):
    assert "rank_overlap" in Dashboard(loaded).panels
    two_gpus = [(COMPUTE, 0, 9, gpu, 7) for gpu in (0, 1)]
    assert RankOverlapPanel.concerns(kernels_job({0: two_gpus}))
    assert not RankOverlapPanel.concerns(kernels_job({0: a_rank(5, 5)}))  # of two streams


def test_the_selected_window_is_cut_into_slices():
    job = kernels_job({0: a_rank(10_000, 30_000), 1: a_rank(20_000, 20_000)})
    panel = RankOverlapPanel(job, slices=2)
    whole = panel.result
    panel.selection.window_ns = (10_000, 30_000)
    slices = panel.result.slices
    assert slices[["start_ns", "end_ns"]].drop_duplicates().to_numpy().tolist() == [
        [10_000, 20_000],
        [20_000, 30_000],
    ]
    assert slices["compute_ns"].tolist() == [0, 0, 10_000, 0]
    pd.testing.assert_frame_equal(panel.result.lanes, whole.lanes)
    assert panel._view["time"] == "time slices of 10.0–30.0 µs"
    said = "Only the time slices are of the selected window; all other numbers are of everything "
    assert panel._view["finding"] == f"{said}analysed. {whole.finding}"
    bars = panel.figures["Activity in each time slice"].data[1]
    assert sorted(set(bars.x)) == [15, 25]
    panel.selection.window_ns = (50_000, 60_000)
    pd.testing.assert_frame_equal(panel.result.slices, whole.slices)
    assert panel._view["finding"].startswith("No kernel runs in the selected window; all numbers ")
