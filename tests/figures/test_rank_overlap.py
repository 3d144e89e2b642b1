"""Figures of the overlap by rank."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hta_widgets.analyses.rank_overlap import rank_overlap
from hta_widgets.figures.rank_overlap import (
    STRIPS_AT_MOST,
    images_over_time,
    strips_over_time,
    time_by_lane,
)
from hta_widgets.panels.base.view import figure_view
from tests.analyses.lane_jobs import (
    COMMUNICATE,
    COMPUTE,
    COPY,
    busy_rank,
    columns_job,
    kernels_job,
)

NAMES = ["Compute only", "Communication only", "Both", "No kernel"]


def a_rank(compute, communicate):
    return [(COMPUTE, 0, compute, 0, 7), (COMMUNICATE, compute, communicate, 0, 20)]


@pytest.fixture
def result():
    """Ranks 2 and 10, the second of which overlaps."""
    work = [(COMPUTE, 0, 50, 0, 7), (COMMUNICATE, 25, 50, 0, 20), (COMPUTE, 90, 10, 0, 7)]
    return rank_overlap(kernels_job({2: a_rank(60, 40), 10: work}), slices=4)


def cells(figure):
    return {
        trace.name: np.array(trace.z)[:, 0].tolist()
        for trace in figure.data
        if trace.type == "heatmap"
    }


def test_a_column_for_each_activity(result):
    figure = time_by_lane(result).figure()
    assert [trace.name for trace in figure.data] == NAMES
    assert [trace.xaxis for trace in figure.data] == ["x", "x2", "x3", "x4"]
    assert list(figure.data[0].y) == ["2", "10"]
    assert cells(figure) == {
        "Compute only": [60, 35],
        "Communication only": [40, 25],
        "Both": [0, 25],
        "No kernel": [0, 15],
    }
    assert list(figure.layout.yaxis.range) == [1.5, -0.5]
    assert [note.text for note in figure.layout.annotations] == NAMES


def test_all_columns_have_one_scale_from_0_and_their_own_colours(result):
    figure = time_by_lane(result).figure()
    assert [(trace.zmin, trace.zmax) for trace in figure.data] == [(0, 60)] * 4
    assert [trace.colorscale[1][1] for trace in figure.data] == [
        "#0072B2",
        "#D55E00",
        "#3B8EBF",
        "#888888",
    ]


def test_small_differences_are_not_blown_up():
    job = kernels_job({0: a_rank(600, 400), 1: a_rank(601, 399)})
    figure = time_by_lane(rank_overlap(job)).figure()
    (one,), (other,) = figure.data[0].z
    assert abs(one - other) / figure.data[0].zmax < 0.01


def test_time_in_one_unit(result):
    figure = time_by_lane(result, as_percent=False).figure()
    assert cells(figure)["Communication only"] == [40, 25]
    assert figure.data[0].colorbar.ticksuffix == " ns"
    assert np.array(figure.data[1].text)[:, 0].tolist() == [40, 25]
    assert figure.data[1].hovertemplate == (
        "%{hovertext}<br>Communication only: %{z:,.3~r} ns, %{text:,.3~r} %<extra></extra>"
    )
    assert figure.data[1].hovertext[1][0] == "Rank 10 (rank10)"


def test_a_click_selects_the_rank_of_a_row(result):
    for draw in (time_by_lane, images_over_time):
        for trace in figure_view("", draw(result))["data"]:
            assert trace["meta"] == {"select": "ranks"}
            assert trace["customdata"] == [[2], [10]]
    for trace in figure_view("", strips_over_time(result))["data"]:
        assert {tuple(item) for item in trace["customdata"]} <= {(2, "2"), (10, "10")}


def test_selected_ranks_have_a_ring_and_no_veil():
    job = kernels_job({rank: a_rank(6, 4) for rank in range(6)})
    for draw in (time_by_lane, images_over_time, strips_over_time):
        assert not draw(rank_overlap(job)).figure().layout.shapes
        shapes = draw(rank_overlap(job), selected=[2, 5]).figure().layout.shapes
        assert [(shape.y0, shape.y1) for shape in shapes] == [(1.5, 2.5), (4.5, 5.5)]
        assert {shape.fillcolor for shape in shapes} == {"rgba(0, 0, 0, 0)"}


def test_what_stands_out_is_marked():
    works = {rank: a_rank(500 + rank, 500 - rank) for rank in range(7)} | {7: a_rank(900, 100)}
    figure = time_by_lane(rank_overlap(kernels_job(works))).figure()
    marks = {trace.xaxis: trace for trace in figure.data if trace.type == "scatter"}
    assert list(marks) == ["x", "x2"]
    assert [list(mark.y) for mark in marks.values()] == [["7"], ["7"]]
    assert marks["x"].marker.symbol == ("triangle-up",)
    assert marks["x2"].marker.symbol == ("triangle-down",)


def test_images_have_a_cell_for_each_lane_and_slice(result):
    figure = images_over_time(result).figure()
    assert [trace.name for trace in figure.data] == NAMES
    assert np.array(figure.data[0].z).tolist() == [[100, 100, 40, 0], [100, 0, 0, 40]]
    assert np.array(figure.data[2].z).tolist() == [[0, 0, 0, 0], [0, 100, 0, 0]]
    assert (figure.data[0].x0, figure.data[0].dx) == (12.5, 25)
    assert {(trace.zmin, trace.zmax) for trace in figure.data} == {(0, 100)}


def test_strips_are_stacked(result):
    figure = strips_over_time(result).figure()
    assert [bar.name for bar in figure.data] == NAMES
    compute, communicate, overlap, empty = (
        [
            (float(x), round(float(base), 3), round(float(y), 3), text)
            for x, base, y, text in zip(bar.x, bar.base, bar.y, bar.hovertext, strict=True)
        ]
        for bar in figure.data
    )
    assert compute == [
        (12.5, -0.4, 0.8, "100.0"),
        (37.5, -0.4, 0.8, "100.0"),
        (62.5, 0.08, 0.32, "40.0"),
        (12.5, 0.6, 0.8, "100.0"),
        (87.5, 1.08, 0.32, "40.0"),
    ]
    assert communicate == [
        (62.5, -0.4, 0.48, "60.0"),
        (87.5, -0.4, 0.8, "100.0"),
        (62.5, 0.6, 0.8, "100.0"),
    ]
    assert overlap == [(37.5, 0.6, 0.8, "100.0")]
    assert empty == [(87.5, 0.6, 0.48, "60.0")]
    assert list(figure.layout.yaxis.ticktext) == ["2", "10"]


def test_strips_of_many_lanes_are_those_of_the_selection():
    works = {rank: a_rank(6, 4) for rank in range(STRIPS_AT_MOST + 4)}
    result = rank_overlap(kernels_job(works))
    figure = strips_over_time(result, selected=[3, 11]).figure()
    assert list(figure.layout.yaxis.ticktext) == ["3", "11"]
    everything = strips_over_time(result, selected=list(works)).figure()
    assert list(everything.layout.yaxis.ticktext) == [str(rank) for rank in range(STRIPS_AT_MOST)]


def test_slices_shorter_than_a_nanosecond():
    result = rank_overlap(kernels_job({0: a_rank(1, 1)}), slices=8)
    shares = np.array(images_over_time(result).figure().data[0].z)
    assert shares.sum() == 100
    assert sum(len(bar.x) for bar in strips_over_time(result).figure().data) == 2


def test_labels_of_streams_and_hostile_file_names():
    job = columns_job(
        {0: busy_rank(0, 20), 1: busy_rank(1, 20)},
        sources={0: "<a href=x>0.json", 1: "b\x07.json"},
    )
    figure = time_by_lane(rank_overlap(job, by="stream")).figure()
    assert list(figure.data[0].y)[:1] == ["0 · stream 7"]
    assert figure.data[0].hovertext[0][0] == "Rank 0 · stream 7 (&lt;a href=x&gt;0)"
    assert "\x07" not in figure.to_json()


def test_many_lanes_have_few_labels_and_a_small_message():
    job = columns_job({rank: busy_rank(rank, 50) for rank in range(512)})
    result = rank_overlap(job)
    drawn = images_over_time(result)
    assert len(drawn.figure().layout.yaxis.tickvals) <= 24
    assert drawn.figure().layout.height <= 640
    assert len(json.dumps(figure_view("", drawn))) < 150_000
    assert len(json.dumps(figure_view("", time_by_lane(result)))) < 150_000


@pytest.mark.parametrize("as_percent", [True, False])
def test_lanes_without_kernels_stay_blank(as_percent):
    job = kernels_job({0: a_rank(6, 4), 1: [(COPY, 0, 9, 0, 7)]})
    figure = time_by_lane(rank_overlap(job), as_percent=as_percent).figure()
    assert np.isnan(np.array(figure.data[0].z)[1, 0]) == as_percent
    nothing = rank_overlap(job, [1])
    for draw in (time_by_lane, images_over_time, strips_over_time):
        figure_view("", draw(nothing))
