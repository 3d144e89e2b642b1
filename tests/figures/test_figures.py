"""Figures show what the results have, safely."""

from __future__ import annotations

import json

import numpy as np
import pytest

from hta_widgets.analyses.kernel_breakdown import kernel_breakdown
from hta_widgets.analyses.overlap import overlap
from hta_widgets.analyses.temporal_breakdown import temporal_breakdown
from hta_widgets.figures import kernel_breakdown as kernel_figures
from hta_widgets.figures.base.drawing import LONG_NAMES, with_width
from hta_widgets.figures.base.style import ACCENT, drawing
from hta_widgets.figures.base.text import hover_name, plot_text
from hta_widgets.figures.overlap import overlap as overlap_figure
from hta_widgets.figures.temporal_breakdown import temporal_breakdown as temporal_figure
from hta_widgets.trace.opening.open import open_trace
from tests.kineto_text import host, kernel, write

HOSTILE = '<img src=x onerror="alert(1)">'
NCCL = "ncclDevKernel_AllReduce"


@pytest.fixture
def job(tmp_path):
    write(tmp_path / "rank-3.json", [kernel(0, 6, name=HOSTILE), kernel(8, 2, name=NCCL)])
    write(tmp_path / "rank-8.json", [kernel(0, 4, name=HOSTILE), kernel(2, 6, name=NCCL)])
    write(tmp_path / "rank-9.json", [host(0, 1, "no gpu")])
    return open_trace(tmp_path)


def test_the_width_of_a_figure_leaves_the_rest_as_it_is():
    bars = drawing([], meta={"height": 40}, showlegend=False)
    wide = with_width(bars, LONG_NAMES)
    assert wide.layout == {**bars.layout, "meta": {"height": 40, "least_width": LONG_NAMES}}
    assert bars.layout["meta"] == {"height": 40}


def test_temporal_breakdown(job):
    figure = temporal_figure(temporal_breakdown(job)).figure()
    assert {bar.name: list(bar.y[:2]) for bar in figure.data} == {
        "Compute": [60, 50],
        "Communication, not hidden": [20, 50],
        "Idle": [20, 0],
    }
    assert [point[0] for point in figure.data[0].customdata] == [3, 8, 9]
    assert list(figure.layout.xaxis.ticktext) == ["3", "8", "9"]
    assert figure.data[2].hovertext[0] == "Rank 3<br>Idle: 2 µs, 20 % of 10 µs GPU span"
    assert figure.data[2].hovertext[2] == "Rank 9: no GPU span"
    assert figure.layout.yaxis.title.text == "Share of GPU span (%)"


def test_time_instead_of_percent(job):
    figure = temporal_figure(temporal_breakdown(job), as_percent=False).figure()
    assert list(figure.data[0].y) == [6, 4, 0]
    assert figure.layout.yaxis.title.text == "Time (µs)"


def test_ranks_outside_the_selection_fade(job):
    assert overlap_figure(overlap(job)).figure().data[1].selectedpoints is None
    bars = overlap_figure(overlap(job), selected=[8]).figure().data[1]
    assert list(bars.selectedpoints) == [1]
    assert 0.5 < bars.unselected.marker.opacity < 1  # it stays legible
    rings = overlap_figure(overlap(job), selected=[8]).figure().layout.shapes
    assert [(ring.x0, ring.x1, ring.line.color) for ring in rings] == [(0.5, 1.5, ACCENT)]
    assert not overlap_figure(overlap(job)).figure().layout.shapes


def test_top_kernels(job):
    figure = kernel_figures.top_kernels(kernel_breakdown(job)).figure()
    assert list(figure.data[0].x) == [10, 8]
    assert figure.data[0].customdata[0][0] == HOSTILE
    assert figure.data[0].meta == {"select": "kernel"}
    assert figure.layout.yaxis.ticktext[0] == plot_text(HOSTILE)


def test_kernels_that_no_rank_names_are_one_bar(job):
    figure = kernel_figures.top_kernels(kernel_breakdown(job, num_kernels=0)).figure()
    assert sorted(figure.layout.yaxis.ticktext) == [
        "1 other (communication)",
        "1 other (compute)",
    ]


def test_the_kernels_of_a_finding_are_drawn_beside_the_top_ones(tmp_path):
    """In place of them, "54 others" was the longest bar."""
    write(tmp_path / "rank-0.json", [kernel(9 * at, 8 - at, name=f"k{at}") for at in range(5)])
    few = kernel_breakdown(open_trace(tmp_path), num_kernels=1)
    drawn = kernel_figures.top_kernels(few, selected={"k2", "k4"}).figure().data[0]
    assert drawn.customdata.tolist() == [["k0"], ["k2"], [None]]
    assert drawn.selectedpoints == (1,)


def test_selected_kernel_keeps_its_colour(job):
    figure = kernel_figures.top_kernels(kernel_breakdown(job), selected={NCCL}).figure()
    assert list(figure.data[0].selectedpoints) == [1]


def test_one_kernel_over_the_ranks(job):
    figure = kernel_figures.kernel_durations(kernel_breakdown(job), NCCL).figure()
    assert list(figure.data[0].y) == [2, 6]
    assert list(figure.layout.xaxis.ticktext) == ["3", "8"]


def test_kernel_types_as_bar_and_as_pie(job):
    result = kernel_breakdown(job)
    bar = kernel_figures.kernel_types(result).figure().data[0]
    pie = kernel_figures.kernel_types(result, as_pie=True).figure().data[0]
    assert list(pie.values) == result.types["sum_ns"].tolist()
    assert sum(bar.x) == pytest.approx(100)


def test_no_markup_of_a_trace_reaches_a_figure(job):
    breakdown = kernel_breakdown(job)
    figures = [
        kernel_figures.top_kernels(breakdown).figure(),
        kernel_figures.top_kernels_of_rank(breakdown, 3).figure(),
        kernel_figures.kernel_durations(breakdown, HOSTILE).figure(),
    ]
    for figure in figures:
        content = figure.to_plotly_json()
        for trace in content["data"]:
            trace.pop("customdata", None)
        assert "<img" not in json.dumps(content, default=np.ndarray.tolist)


@pytest.mark.parametrize("draw", [kernel_figures.top_kernels, kernel_figures.kernel_types])
def test_nothing_to_draw(tmp_path, draw):
    job = open_trace(write(tmp_path / "rank-0.json", [host(0, 1, "op")]))
    assert len(draw(kernel_breakdown(job)).figure().data) == 1


def test_text():
    assert plot_text("a<b>&\u202ec\n") == "a&lt;b&gt;&amp;\ufffdc\ufffd"
    assert hover_name("x" * 250).replace("<br>", "") == "x" * 250
    assert hover_name("x" * 5000).endswith("…")
